"""Tokens, by which programs and people show who they are: ``gst_<id>_<secret>``.

Of the secret only its SHA-256 is kept, in a note of a job store or in a file. A token is made, listed and revoked where
the store or the file is at hand, and never by a request: no operation of the table does it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from goscheduler._files import write_private
from goscheduler.errors import InvalidArgument, shown
from goscheduler.ops.access import Principal, Role, Unauthenticated
from goscheduler.ops.audit import Audit
from goscheduler.runs.queries import Note

if TYPE_CHECKING:
    from goscheduler.ops.source import Source

PREFIX = "gst"
TOKEN = "token"
#: More tokens than this a store is not made to keep.
MOST_TOKENS = 1000
LONGEST_TOKEN = 200
SHORTEST_PASSWORD = 10
#: Compared with for a name that nobody has.
NOBODY = f"{'0' * 32}$"
REFUSED = "the token is unknown, was revoked, or has expired"


@dataclass(frozen=True)
class Token:
    """What is kept of a token."""

    id: str
    name: str
    """Who shows it; it stands in the audit."""
    sha256: str
    role: str
    created_at: str
    expires_at: str | None = None
    stores: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    see_arguments: bool = False
    password: str | None = None
    """The salt and the scrypt hash of a password, with which a person may log in by this name."""

    @property
    def principal(self) -> Principal:
        """Whoever shows it."""
        return Principal(self.name, Role.of(self.role), _scope(self.stores), _scope(self.tags), self.see_arguments)

    def has_expired(self, now: datetime) -> bool:
        """Tell whether it counts no longer."""
        return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now


def _scope(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


class TokenBook(Protocol):
    """Where tokens are kept."""

    def find(self, token_id: str) -> Token | None:
        """Return a token, or None."""

    def all(self) -> list[Token]:
        """Return all tokens, the newest first."""

    def put(self, token: Token) -> None:
        """Keep a token."""

    def remove(self, token_id: str) -> None:
        """Forget a token."""


class StoreTokens:
    """Keeps tokens in notes of a job store; every process that shares the store knows them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def find(self, token_id: str) -> Token | None:
        text = self._store.read_note(TOKEN, token_id)
        return None if text is None else _read(json.loads(text))

    def all(self) -> list[Token]:
        return [_read(json.loads(note.text)) for note in self._store.notes(TOKEN, None, MOST_TOKENS)]

    def put(self, token: Token) -> None:
        self._store.put_note(Note(TOKEN, token.id, json.dumps(asdict(token))))

    def remove(self, token_id: str) -> None:
        self._store.remove_note(TOKEN, token_id)

    @property
    def _store(self) -> Any:
        return self._source.stores[self._source.home]


class FileTokens:
    """Keeps tokens in a JSON file that only its owner can read. A change counts at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def find(self, token_id: str) -> Token | None:
        return next((token for token in self.all() if token.id == token_id), None)

    def all(self) -> list[Token]:
        try:
            told = json.loads(self._path.read_text(encoding="utf-8"))
            return [_read(each) for each in told["tokens"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._path} is no file of tokens: {error}") from error

    def put(self, token: Token) -> None:
        self._write([token, *(each for each in self.all() if each.id != token.id)])

    def remove(self, token_id: str) -> None:
        self._write([each for each in self.all() if each.id != token_id])

    def _write(self, tokens: list[Token]) -> None:
        write_private(self._path, json.dumps({"tokens": [asdict(each) for each in tokens]}, indent=1) + "\n")


def _read(told: dict[str, Any]) -> Token:
    known = {name: told[name] for name in Token.__dataclass_fields__ if name in told}  # a newer version may add some
    return Token(**known)


def add_token(
    book: TokenBook, name: str, role: Role, now: datetime, *, expires_at: datetime | None = None,
    stores: Sequence[str] | None = None, tags: Sequence[str] | None = None, see_arguments: bool = False,
    password: str | None = None,
) -> tuple[Token, str]:  # fmt: skip
    """Make a token, and return what is kept of it and the token itself, which is shown this once."""
    if not name or not name.isprintable() or len(name) > 100:
        raise InvalidArgument(f"name must be a printable text of 1 to 100 characters, got {shown(name)}", field="name")
    if password is not None and len(password) < SHORTEST_PASSWORD:
        raise InvalidArgument(f"password must have {SHORTEST_PASSWORD} characters or more", field="password")
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    expires = None if expires_at is None else expires_at.isoformat()
    kept = Token(
        token_id, name, _digest(secret), role.title, now.isoformat(), expires, stores, tags, see_arguments,
        None if password is None else hashed(password, secrets.token_hex(16)),
    )  # fmt: skip
    book.put(kept)
    return kept, f"{PREFIX}_{token_id}_{secret}"


def audited(source: Source, principal: Principal, act: str, facts: dict[str, Any]) -> None:
    """Write into the audit of a store that a token was made or revoked."""
    audit = Audit(source.stores[source.home])
    entry = audit.begin(source.scheduler.clock.now(), principal, "cli", act, {"arguments": facts, "reason": ""})
    audit.end(entry, {"status": "done", "outcome": facts})


def authenticate(book: TokenBook, given: str, now: datetime) -> Token:
    """Return the token that somebody shows.

    :raises Unauthenticated: if it does not count
    """
    prefix, _, rest = given.partition("_")
    token_id, _, secret = rest.partition("_")
    if prefix != PREFIX or not _is_id(token_id) or not secret or len(given) > LONGEST_TOKEN:
        raise Unauthenticated(REFUSED)
    found = book.find(token_id)
    expected = "" if found is None else found.sha256
    if not hmac.compare_digest(_digest(secret), expected) or found is None or found.has_expired(now):
        raise Unauthenticated(REFUSED)
    return found


def token_of_password(book: TokenBook, name: str, password: str, now: datetime) -> Token:
    """Return the token of somebody who logs in by name and password.

    :raises Unauthenticated: if that is not right
    """
    named = [token for token in book.all() if token.name == name and token.password and not token.has_expired(now)]
    expected = (named[0].password if named else None) or NOBODY
    given = hashed(password[:LONGEST_TOKEN], expected.partition("$")[0])  # also for nobody, which takes as long
    if not hmac.compare_digest(given, expected) or not named:
        raise Unauthenticated("name or password is not right")
    return named[0]


def hashed(password: str, salt: str) -> str:
    """Return what is kept of a password."""
    text = password.encode("utf-8", "surrogatepass")
    return f"{salt}${hashlib.scrypt(text, salt=salt.encode(), n=1 << 14, r=8, p=1).hex()}"


def token_of_id(book: TokenBook, token_id: str, now: datetime) -> Token:
    """Return the token of a session that was begun with it.

    :raises Unauthenticated: if it does not count any more
    """
    found = book.find(token_id) if _is_id(token_id) else None
    if found is None or found.has_expired(now):
        raise Unauthenticated(REFUSED)
    return found


def _is_id(text: str) -> bool:
    return 0 < len(text) <= 40 and text.isascii() and text.isalnum()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
