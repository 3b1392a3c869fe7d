"""Writes the values of jobs for stores that are not in memory, and checks them when they are read.

:class:`JSONSerializer` is the default: the closed set of types of :mod:`goscheduler.codec`, so that a record cannot run
code. With a ``secret`` it signs what it writes and believes only what is signed. :class:`PickleSerializer` takes any
value that pickles, and therefore needs a secret: it looks at nothing that is not signed. A signature covers what the
record is for and the store that it is in, so that a record cannot be moved to another job or another store, and it
names its key, so that keys can be replaced one after the other. That an older record of the same job is put back cannot
be seen here; when its key is given up, it is no longer believed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import pickle
import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, Protocol, TypeAlias, TypeVar

from goscheduler import codec
from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument, described, shown

__all__ = ["JSONSerializer", "PickleSerializer", "Serializer"]

#: A shorter secret can be guessed.
SHORTEST_SECRET = 16
_MARK = "signed2:"
#: How signatures begin that earlier versions wrote, which name neither a key nor a store.
_OLD_MARK = "signed:"
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

Secret: TypeAlias = str | bytes | Iterable[str | bytes] | Mapping[str, str | bytes]


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
    """Writes JSON. With a ``secret`` it signs that; of several, or of a dict by key id, the first signs and all are
    believed.

    ``store`` is the name of the store in the signatures; without one it is made of what the store is called where it is
    (its table, prefix or path). ``unbound`` says whether signatures of earlier versions are believed, which name no
    store; they are unless ``store`` is given.
    """

    def __init__(
        self, secret: Secret | None = None, *, store: str | None = None, unbound: bool | None = None
    ) -> None:
        self._signer = None if secret is None else _Signer(secret, store, unbound)

    @property
    def signs(self) -> bool:
        """Whether only signed records are believed."""
        return self._signer is not None

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
    """Writes signed pickles: for arguments that JSON cannot hold. Who has the secret can run code here.

    The arguments are those of :class:`JSONSerializer`.
    """

    signs = True

    def __init__(self, secret: Secret, *, store: str | None = None, unbound: bool | None = None) -> None:
        self._signer: _Signer | None = _Signer(secret, store, unbound)

    def dumps(self, value: Any, purpose: str) -> str:
        try:
            pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise InvalidArgument(f"{purpose} cannot be stored: {described(error)}", field=purpose) from error
        assert self._signer is not None
        return self._signer.sign(base64.b64encode(pickled).decode("ascii"), purpose)

    def loads(self, text: str, purpose: str) -> Any:
        assert self._signer is not None
        body = self._signer.believe(text, purpose)
        try:
            return pickle.loads(base64.b64decode(body, validate=True))
        except Exception as error:
            raise CodecError(f"The record cannot be read: {described(error)}") from error

    def __repr__(self) -> str:
        return "<PickleSerializer>"


_S = TypeVar("_S", bound="JSONSerializer | PickleSerializer")


def bound(serializer: _S, place: str) -> _S:
    """Return a serializer that signs for the store at ``place``, unless it was told the name of a store."""
    signer = serializer._signer
    if signer is None or signer.store is not None:
        return serializer
    changed = copy(serializer)
    changed._signer = copy(signer)
    changed._signer.store = place
    return changed


class _Signer:
    def __init__(self, secret: Secret, store: str | None, unbound: bool | None) -> None:
        if store is not None and (not isinstance(store, str) or not store):
            raise InvalidArgument(f"store must be a name, got {shown(store)}", field="store", value=store)
        self._keys = _keys(secret)
        self._key_id = next(iter(self._keys))
        self.store = store
        self._unbound = store is None if unbound is None else bool(unbound)

    def sign(self, text: str, purpose: str) -> str:
        return f"{_MARK}{self._key_id}:{self._mac(self._keys[self._key_id], text, purpose)}:{text}"

    def believe(self, text: str, purpose: str) -> str:
        if not isinstance(text, str) or not text.startswith((_MARK, _OLD_MARK)):
            raise CodecError("The record is not signed, and only signed ones are believed here")
        if text.startswith(_OLD_MARK):
            return self._believe_old(text, purpose)
        key_id, _, signed = text[len(_MARK) :].partition(":")
        mac, _, body = signed.partition(":")
        key = self._keys.get(key_id)
        if key is None:
            known = ", ".join(self._keys)
            told = f"the key {shown(key_id)}, and only these are known here: {known}"
            raise CodecError(f"The signature of the record has {told}")
        if not _same(self._mac(key, body, purpose), mac):
            raise CodecError(
                "The signature of the record is not right: it was changed, or written with another secret, for "
                "another job or for another store"
            )
        return body

    def _believe_old(self, text: str, purpose: str) -> str:
        if not self._unbound:
            raise CodecError(
                "The signature of the record names no store: an earlier version wrote it; unbound=True would believe it"
            )
        mac, _, body = text[len(_OLD_MARK) :].partition(":")
        if not any(_same(_digest(key, f"{purpose}\0{body}"), mac) for key in self._keys.values()):
            raise CodecError("The signature of the record is not right: it was changed, or written with another secret")
        return body

    def _mac(self, key: bytes, text: str, purpose: str) -> str:
        # With their lengths, so that nothing can be moved from one of them to the next.
        store = self.store or ""
        return _digest(key, f"2\0{len(store)}:{store}{len(purpose)}:{purpose}{text}")


def _digest(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _same(ours: str, theirs: str) -> bool:
    return hmac.compare_digest(ours.encode(), theirs.encode("utf-8", "surrogatepass"))


def _keys(secret: Secret) -> dict[str, bytes]:
    """Return the keys by their ids; a key without one is named after itself."""
    if isinstance(secret, Mapping):
        keys = {key_id: _key(one) for key_id, one in secret.items()}
    else:
        given = [_key(one) for one in ([secret] if isinstance(secret, (str, bytes)) else secret)]
        keys = {_digest(key, "key id")[:8]: key for key in given}
    if not keys:
        raise InvalidArgument("secret must not be empty", field="secret")
    for key_id in keys:
        if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
            raise InvalidArgument(
                f"The id of a secret must be letters, digits, '.', '_' and '-', at most 64, got {shown(key_id)}",
                field="secret",
            )
    return keys


def _key(secret: str | bytes) -> bytes:
    if not isinstance(secret, (str, bytes)):
        raise TypeError(f"secret must be text or bytes, got {type(secret).__name__}")
    key = secret.encode() if isinstance(secret, str) else secret
    if len(key) < SHORTEST_SECRET:
        raise InvalidArgument(f"secret must have at least {SHORTEST_SECRET} bytes, got {len(key)}", field="secret")
    return key
