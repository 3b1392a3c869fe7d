"""How stores that are not in memory write values down, and what they believe when they read them back.

:class:`JSONSerializer` is the default: the closed set of types of :mod:`goscheduler.codec`, so that a record cannot run
code. With a ``secret`` it signs what it writes and believes only what is signed. :class:`PickleSerializer` takes any
value that pickles, and therefore needs a secret: it looks at nothing that is not signed. A signature covers what the
record is for, so that a record cannot be moved from one job to another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import pickle
from collections.abc import Iterable
from typing import Any, Protocol

from goscheduler import codec
from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument, described

__all__ = ["JSONSerializer", "PickleSerializer", "Serializer"]

#: A shorter secret can be guessed.
SHORTEST_SECRET = 16
_MARK = "signed:"


class Serializer(Protocol):
    """Turns values into text and back."""

    def dumps(self, value: Any, purpose: str) -> str:
        """Return ``value`` as text; ``purpose`` says what for, and has to be the same when it is read.

        :raises InvalidArgument: if the value cannot be written
        """
        ...

    def loads(self, text: str, purpose: str) -> Any:
        """Return the value.

        :raises CodecError: if the text cannot be read, or is not to be believed
        """
        ...


class JSONSerializer:
    """Writes JSON. ``secret`` signs it; of several secrets the first signs and all are believed."""

    def __init__(self, secret: str | bytes | Iterable[str | bytes] | None = None) -> None:
        self._signer = None if secret is None else _Signer(secret)

    def dumps(self, value: Any, purpose: str) -> str:
        return self.signed(codec.dumps(value, purpose), purpose)

    def loads(self, text: str, purpose: str) -> Any:
        return codec.loads(self.believed(text, purpose))

    def signed(self, text: str, purpose: str) -> str:
        """Return JSON that somebody else has written as it is stored."""
        return text if self._signer is None else self._signer.sign(text, purpose)

    def believed(self, text: str, purpose: str) -> str:
        """Return the JSON of what is stored, if it is to be believed."""
        return text if self._signer is None else self._signer.believe(text, purpose)

    def __repr__(self) -> str:
        return f"<JSONSerializer{' (signing)' if self._signer else ''}>"


class PickleSerializer:
    """Writes signed pickles: for arguments that JSON cannot hold. Who has the secret can run code here."""

    def __init__(self, secret: str | bytes | Iterable[str | bytes]) -> None:
        self._signer = _Signer(secret)

    def dumps(self, value: Any, purpose: str) -> str:
        try:
            pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise InvalidArgument(f"{purpose} cannot be stored: {described(error)}", field=purpose) from error
        return self._signer.sign(base64.b64encode(pickled).decode("ascii"), purpose)

    def loads(self, text: str, purpose: str) -> Any:
        body = self._signer.believe(text, purpose)
        try:
            return pickle.loads(base64.b64decode(body, validate=True))
        except Exception as error:
            raise CodecError(f"The record cannot be read: {described(error)}") from error

    def __repr__(self) -> str:
        return "<PickleSerializer>"


class _Signer:
    def __init__(self, secret: str | bytes | Iterable[str | bytes]) -> None:
        given = [secret] if isinstance(secret, (str, bytes)) else list(secret)
        if not given:
            raise InvalidArgument("secret must not be empty", field="secret")
        self._keys = [_key(one) for one in given]

    def sign(self, text: str, purpose: str) -> str:
        return f"{_MARK}{self._mac(self._keys[0], text, purpose)}:{text}"

    def believe(self, text: str, purpose: str) -> str:
        if not isinstance(text, str) or not text.startswith(_MARK):
            raise CodecError("The record is not signed, and only signed ones are believed here")
        mac, _, body = text[len(_MARK) :].partition(":")
        if not any(hmac.compare_digest(self._mac(key, body, purpose), mac) for key in self._keys):
            raise CodecError("The signature of the record is not right: it was changed, or written with another secret")
        return body

    def _mac(self, key: bytes, text: str, purpose: str) -> str:
        return hmac.new(key, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def _key(secret: str | bytes) -> bytes:
    if not isinstance(secret, (str, bytes)):
        raise TypeError(f"secret must be text or bytes, got {type(secret).__name__}")
    key = secret.encode() if isinstance(secret, str) else secret
    if len(key) < SHORTEST_SECRET:
        raise InvalidArgument(f"secret must have at least {SHORTEST_SECRET} bytes, got {len(key)}", field="secret")
    return key
