"""Sessions of browsers: a signed cookie that names a token. It ends with the token, and after twelve hours."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode

from goscheduler.clock import Clock
from goscheduler.errors import InvalidArgument
from goscheduler.ops.access import Unauthenticated

LASTS = 12 * 3600
#: A secret that is shorter can be guessed.
SHORTEST_SECRET = 32
NAME, NAME_ON_TLS = "gs", "__Host-gs"


class Sessions:
    """Makes the values of cookies, and reads them. Processes with the same secret know each other's."""

    def __init__(self, secret: str | None, clock: Clock) -> None:
        if secret is not None and len(secret) < SHORTEST_SECRET:
            raise InvalidArgument(f"secret must have {SHORTEST_SECRET} characters or more", field="secret")
        self._key = (secret or secrets.token_hex(32)).encode("utf-8", "surrogatepass")
        self._clock = clock

    def begin(self, token_id: str) -> str:
        """Return the value of the cookie of somebody who has shown a token."""
        told = f"{token_id}.{self._now() + LASTS}"
        return f"{told}.{self._sign(told)}"

    def token_id(self, value: str) -> str:
        """Return the id of the token of a cookie.

        :raises Unauthenticated: if it is forged, or too old
        """
        told, _, signature = value.rpartition(".")
        token_id, _, ends = told.partition(".")
        is_ours = hmac.compare_digest(self._sign(told).encode(), signature.encode("utf-8", "surrogatepass"))
        if not is_ours or not ends.isdecimal() or int(ends) <= self._now():
            raise Unauthenticated("the session has ended: log in again")
        return token_id

    def _now(self) -> int:
        return int(self._clock.now().timestamp())

    def _sign(self, told: str) -> str:
        digest = hmac.new(self._key, told.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
        return urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def cookie(value: str, root_path: str, on_tls: bool, lasts: int = LASTS) -> str:
    """Return the header that sets a session, or with ``lasts`` of 0 ends it."""
    name, path = (NAME_ON_TLS, "/") if on_tls else (NAME, root_path or "/")
    secure = "; Secure" if on_tls else ""
    return f"{name}={value}; Path={path}; Max-Age={lasts}; HttpOnly; SameSite=Lax{secure}"
