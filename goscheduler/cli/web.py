"""``goscheduler web``: pages and HTTP on job stores, as a program of its own."""

from __future__ import annotations

import errno
import os
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from goscheduler.cli._command_error import FAILED, CommandError, errors_told
from goscheduler.cli._logging import read_level, set_up_logging
from goscheduler.cli._options import App, Debug, Store, Where
from goscheduler.cli._print import note
from goscheduler.cli._session import Session, opened
from goscheduler.errors import shown
from goscheduler.ops.access import Role
from goscheduler.ops.source import Source

MISSING = 'The pages need Starlette, Jinja and uvicorn: pip install "goscheduler[web]"'
#: What --tokens means instead of a file.
OF_THE_STORE = "store"
ROLES = tuple(role.title for role in Role)


def serve_web(
    app: App = None,
    store: Store = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any.")] = 8180,
    root_path: Annotated[str, typer.Option(metavar="PATH", help="The path below which everything is.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Let nobody change anything.")] = False,
    tokens: Annotated[
        str | None,
        typer.Option(metavar="FILE|store", help="Let in who shows a token of this file, or of the job store."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A host name by which the pages are reached.")
    ] = None,
    auth_header: Annotated[
        str | None, typer.Option(metavar="HEADER", help="The header in which a trusted proxy says who asks.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None, typer.Option(metavar="CIDR", help="Where that proxy is, such as 10.0.0.0/8.")
    ] = None,
    role: Annotated[str, typer.Option(help=f"What those may do whom the proxy names: {', '.join(ROLES)}.")] = "viewer",
    admin: Annotated[list[str] | None, typer.Option(metavar="NAME", help="One of them who is an admin.")] = None,
    operator: Annotated[list[str] | None, typer.Option(metavar="NAME", help="One of them who is an operator.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate, with its chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the certificate.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the first page in a browser.")] = False,
    log_level: Annotated[str, typer.Option(help="The lowest level that is logged.")] = "WARNING",
    debug: Debug = False,
) -> None:
    """Show job stores in a browser and over HTTP, until Ctrl-C. Nothing is fired here.

    On an address of this machine everybody at it may do everything. On another one it must say who may come in.
    """
    with errors_told(debug):
        _set_up_log(log_level)
        if role not in ROLES:
            raise CommandError(f"--role must be one of {', '.join(ROLES)}, got {shown(role)}")
        _require_locks(host, tokens, auth_header, trusted_proxy)
        where = _listening(host, port, root_path, tls_cert, tls_key)
        roles = {**dict.fromkeys(operator or (), Role.OPERATOR), **dict.fromkeys(admin or (), Role.ADMIN)}
        options = {
            "auth_header": auth_header, "trusted_proxies": trusted_proxy or (), "roles": roles,
            "default_role": Role.of(role), "allowed_hosts": _hosts(host, allowed_host), "tokens": _tokens(tokens),
        }  # fmt: skip
    with opened(Where(app, store, debug=debug), read_only=read_only) as session:
        _serve(session, where, options, open_page)


def _set_up_log(level: str) -> None:
    from rich.console import Console

    set_up_logging(read_level(level), Console(stderr=True, markup=False, highlight=False, emoji=False))


def _serve(session: Session, where: Any, options: dict[str, Any], open_page: bool) -> None:
    from goscheduler.web.app import web_app
    from goscheduler.web.serve import bound, serve

    try:
        listener = bound(where)
    except OSError as error:
        raise CommandError(_why_not_bound(where, error), FAILED) from error

    def begun(address: str) -> None:
        note(f"Listening on {address}; Ctrl-C ends it")
        if open_page:
            webbrowser.open(address)

    with listener:
        serve(web_app(Source(session.scheduler), **options), where, listener, begun)


def _why_not_bound(where: Any, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {where.port} of {where.host} is taken by another program: give another one with --port"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot listen on {where.host} port {where.port}: {reason}"


def _listening(host: str, port: int, root_path: str, cert: Path | None, key: Path | None) -> Any:
    try:
        from goscheduler.web.serve import Listening
    except ModuleNotFoundError as error:
        raise CommandError(MISSING) from error
    path = root_path.rstrip("/")
    if path and (not path.startswith("/") or "//" in path or not path.isprintable() or set(path) & set("?#%{} \\")):
        raise CommandError(f"--root-path must be a path such as /jobs, got {shown(root_path)}")
    if (cert is None) != (key is None):
        raise CommandError("give --tls-cert and --tls-key together")
    for option, file in (("--tls-cert", cert), ("--tls-key", key)):
        if file is not None and not file.is_file():
            raise CommandError(f"{option}: there is no file {file}")
    return Listening(host, port, path, cert, key)


def _require_locks(
    host: str, tokens: str | None, auth_header: str | None, trusted_proxy: list[str] | None
) -> None:
    if auth_header is not None and not trusted_proxy:
        raise CommandError("--auth-header needs --trusted-proxy: it must be known who may say who asks")
    if trusted_proxy and auth_header is None and tokens is None:
        raise CommandError("--trusted-proxy needs --auth-header or --tokens: nothing says who may come in")
    if host in ("127.0.0.1", "localhost", "::1") or tokens is not None or auth_header is not None:
        return
    raise CommandError(
        f"everybody who reaches {host} could change all jobs. Make a token with goscheduler token add and give "
        "--tokens store, or give --auth-header and --trusted-proxy, or listen on 127.0.0.1"
    )


def _hosts(host: str, named: list[str] | None) -> list[str]:
    return [*(named or ()), *([] if host in ("0.0.0.0", "::") else [host])]


def _tokens(given: str | None) -> bool | str | None:
    if given in (None, OF_THE_STORE):
        return given is not None
    if not Path(given or "").is_file():
        raise CommandError(f"--tokens: there is no file {given}; goscheduler token add --file makes one")
    return given
