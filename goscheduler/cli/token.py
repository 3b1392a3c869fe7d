"""``goscheduler token``: tokens by which programs and people get in over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import FAILED, CommandError, errors_told
from goscheduler.cli._options import Where, grouped
from goscheduler.cli._print import note, print_json, print_rows
from goscheduler.cli._session import Session, opened
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import shown
from goscheduler.ops.access import Role
from goscheduler.ops.source import Source
from goscheduler.ops.tokens import FileTokens, StoreTokens, TokenBook, add_token, audited
from goscheduler.times import parse_duration

app = typer.Typer(help="Make, list and revoke tokens for HTTP and gRPC.", no_args_is_help=True)

COLUMNS = ("id", "name", "role", "stores", "tags", "see_arguments", "created_at", "expires_at")
ROLES = tuple(role.title for role in Role)

File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="Keep tokens in this file, and not in the job store.")
]


class Kept(NamedTuple):
    """Where tokens are kept, and the session on the store if they are there."""

    book: TokenBook
    session: Session | None

    def audit(self, act: str, **facts: Any) -> None:
        """Write into the audit of the store that something was done."""
        if self.session is not None:
            audited(Source(self.session.scheduler), self.session.principal, act, facts)


@app.command("add")
@grouped
def make_token(
    name: Annotated[str, typer.Argument(help="Who is to show it; it stands in the audit.")],
    where: Where,
    role: Annotated[str, typer.Option(help=f"What they may do: {', '.join(ROLES)}.")] = "viewer",
    expires: Annotated[str | None, typer.Option(metavar="90d", help="How long it counts; for ever without.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only jobs with this tag; several can be given.")] = None,
    only_store: Annotated[
        list[str] | None, typer.Option(metavar="ALIAS", help="Only jobs of this job store; several can be given.")
    ] = None,
    see_arguments: Annotated[
        bool, typer.Option("--see-arguments", help="Show arguments, results and metadata too.")
    ] = False,
    password: Annotated[
        bool, typer.Option("--password", help="Ask for a password too, to log in with in a browser by this name.")
    ] = False,
    file: File = None,
) -> None:
    """Make a token and print it. It is shown this once."""
    with _kept(where, file) as kept:
        if role not in ROLES:
            raise CommandError(f"--role must be one of {', '.join(ROLES)}, got {shown(role)}")
        now = SYSTEM_CLOCK.now()
        length: timedelta | None = None if expires is None else parse_duration(expires)
        token, secret = add_token(
            kept.book, name, Role.of(role), now, expires_at=None if length is None else now + length,
            stores=only_store or None, tags=tag or None, see_arguments=see_arguments,
            password=_asked(name) if password else None,
        )  # fmt: skip
        kept.audit("add_token", id=token.id, name=name, role=role)
        if where.as_json:
            print_json({"id": token.id, "token": secret})
        else:
            print(secret)
            note("Keep it now: it is not shown again.")


def _asked(name: str) -> str:
    answer: str = typer.prompt(f"Password of {printable(name)}", hide_input=True, confirmation_prompt=True, err=True)
    return answer


@app.command("list")
@grouped
def list_tokens(where: Where, file: File = None) -> None:
    """List the tokens, without what is secret of them."""
    with _kept(where, file) as kept:
        rows = [
            {name: getattr(token, name) for name in COLUMNS}
            for token in sorted(kept.book.all(), key=lambda token: token.created_at, reverse=True)
        ]
        print_rows(rows, COLUMNS, as_json=where.as_json, nothing="There are no tokens.")


@app.command("revoke")
@grouped
def revoke_token(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the token, as list shows it.")],
    where: Where,
    file: File = None,
) -> None:
    """Revoke a token: it counts no longer, and sessions that were begun with it end."""
    with _kept(where, file) as kept:
        if kept.book.find(token_id) is None:
            raise CommandError(f"there is no token {shown(token_id)}", FAILED)
        kept.book.remove(token_id)
        kept.audit("revoke_token", id=token_id)
        print(printable(f"The token {token_id} counts no longer."))


@contextmanager
def _kept(where: Where, file: Path | None) -> Iterator[Kept]:
    if file is not None:
        with errors_told(where.debug):
            yield Kept(FileTokens(file), None)
        return
    with opened(where) as session:
        yield Kept(StoreTokens(Source(session.scheduler)), session)
