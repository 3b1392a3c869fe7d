"""Documents in Redis: one hash each, under keys that begin alike.

Redis cannot look into hashes for what is due, so there is an index beside them, a sorted set. :meth:`add` keeps it; for
hashes that others write there are :meth:`index` and :meth:`rebuild`. What the hash says counts: an index that is behind
is mended when the document is looked at. Every step is one script, so it is done as a whole or not at all;
``lua/common.lua`` lists the keys. Times are seconds since 1970, as text, to a millisecond.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.resources import files
from operator import attrgetter
from types import NoneType
from typing import Any

from goscheduler.documents.base import DocumentStore, Malformed, Upcoming
from goscheduler.documents.model import Document, Fields, in_utc
from goscheduler.errors import InvalidArgument, shown
from goscheduler.runs.queries import Count
from goscheduler.times import SECOND, UTC, from_micros, to_micros

try:
    import redis

    from goscheduler._drivers.redis import close_client, make_client
except ImportError as error:
    raise ImportError(
        f'documents in Redis need a package that is not installed ({error}); pip install "goscheduler[redis]"',
        name=error.name,
    ) from error

__all__ = ["RedisDocumentStore"]

SCRIPT = files("goscheduler.documents").joinpath("_redis.lua").read_text(encoding="utf-8")
EXPECTED = "seconds since 1970 as a decimal number"
#: What the keys of the store itself begin with, behind the prefix; a document must not be called so.
OWN = "goscheduler:"
LONGEST_PREFIX = 200
PAGE = 500
#: How long a client that is made for a URL waits for an answer and for a connection, in seconds.
CALL, CONNECT = 10, 5
#: Between these numbers of seconds are the times that exist in every zone; the script says the same.
FIRST, LAST = -62135510400, 253402214400

_NUMBER = re.compile(r"-?\d+(\.\d*)?", re.ASCII)


class RedisDocumentStore(DocumentStore):
    """Finds its documents in hashes whose keys are ``prefix`` and an id.

    ``client`` is a client of redis-py, or a URL, for which one is made. On a cluster all keys have to lie in one slot:
    put a part of the prefix into braces, ``{orders}:``. ``condition`` maps fields to the values that documents must
    have there to be processed, compared as text; None is a field that is absent or empty.
    """

    resolution = timedelta(milliseconds=1)

    def __init__(
        self,
        client: Any,
        prefix: str = "documents:",
        *,
        sleep_until: str = "sleepUntil",
        interval: str = "interval",
        repeat_until: str = "repeatUntil",
        auto_remove: str = "autoRemove",
        condition: Mapping[str, Any] | None = None,
    ) -> None:
        self._condition = _flat_condition(condition)
        self._fields = Fields(sleep_until, interval, repeat_until, auto_remove)
        self._prefix = _check_prefix(prefix)
        self._owns_client = isinstance(client, str)
        self._client = _connected(client)
        self._script = self._client.register_script(SCRIPT)

    def close(self) -> None:
        if self._owns_client:
            close_client(self._client)

    def add(self, id: str, fields: Mapping[str, Any]) -> None:
        """Write fields of a document, new or not, and see to it that it is found when it is due.

        Dates become numbers, true and false 1 and 0, None empty text. Other values are written as redis-py does.
        """
        key = self._key(id)
        if not isinstance(fields, Mapping) or not fields:
            raise TypeError(f"fields must be a dict that is not empty, got {shown(fields)}")
        values = {name: _to_redis(value) for name, value in fields.items()}
        due = values.get(self._fields.sleep_until)
        if due and _moment(due) is None:
            raise InvalidArgument(
                f"{self._fields.sleep_until} must be a date and time, or {EXPECTED}, got {shown(due)}",
                field=self._fields.sleep_until,
                value=due,
            )
        self._client.hset(key, mapping=values)
        self.index(id)  # a crash in between leaves a document that rebuild() finds

    def index(self, id: str) -> bool:
        """See to it that a document is found that somebody has written; false if it has no time."""
        self._key(id)
        return bool(self._step("index", id))

    def rebuild(self) -> int:
        """Go through all keys that begin with the prefix, index the documents among them, and return how many have a
        time. Others may go on meanwhile."""
        escaped = re.sub(r"([*?\[\]\\^-])", r"\\\1", self._prefix)
        found = 0
        for key in self._client.scan_iter(f"{escaped}*", count=PAGE, _type="HASH"):
            text = isinstance(key, str)
            id = key[len(self._prefix if text else self._prefix.encode()) :]
            if id and not id.startswith(OWN if text else OWN.encode()):
                found += self._step("index", id)
        return found

    def lock_next(self, now: datetime, until: datetime) -> Document | None:
        answer: list[Any] = [0]
        while len(answer) == 1:  # so many documents were passed over
            answer = self._step("lock_next", _to_redis(now), _to_redis(until), answer[0], *self._condition)
        return self._locked(_text(answer[0]), answer[1], until) if answer else None

    def update(self, document: Document, sleep_until: datetime | None) -> bool:
        return bool(self._step("update", document.id, _to_redis(document.locked_until), _to_redis(sleep_until)))

    def remove(self, document: Document) -> bool:
        return bool(self._step("remove", document.id, _to_redis(document.locked_until)))

    def upcoming(self, limit: int) -> list[Upcoming]:
        fields = self._fields
        others = fields.interval, fields.repeat_until, fields.auto_remove
        found: list[Upcoming] = []
        passed = 0
        while len(found) < limit:
            looked_at, *rows = self._step("upcoming", passed, *others, *self._condition)
            if not looked_at:
                break
            passed += looked_at
            found += [_upcoming([_text(part) for part in row]) for row in rows]
        return sorted(found, key=attrgetter("sleep_until"))[:limit]

    def count_due(self, now: datetime, cap: int) -> Count:
        number = passed = 0
        while number <= cap:
            looked_at, due = self._step("count_due", _to_redis(now), passed, *self._condition)
            if not looked_at:
                break
            passed, number = passed + looked_at, number + due
        return Count(min(number, cap), number <= cap)

    def malformed(self, limit: int) -> list[Malformed]:
        found = self._step("malformed", limit, *self._condition)
        return [Malformed(_text(id), _text(value), EXPECTED) for id, value in sorted(found)]

    def _step(self, name: str, *arguments: object) -> Any:
        keys = [f"{self._prefix}{OWN}due", f"{self._prefix}{OWN}bad"]
        return self._script(keys, [name, self._prefix, self._fields.sleep_until, *arguments])

    def _key(self, id: object) -> str:
        if not isinstance(id, str) or not id or id.startswith(OWN):
            raise InvalidArgument(
                f"the id of a document must be text, not empty and not beginning with {OWN!r}, got {shown(id)}",
                field="id",
                value=id,
            )
        return f"{self._prefix}{id}"

    def _locked(self, id: Any, answer: list[Any], until: datetime) -> Document:
        content = {_text(name): _text(value) for name, value in zip(answer[::2], answer[1::2], strict=True)}
        fields = self._fields
        due = _moment(content[fields.sleep_until])
        repeat_until = content.get(fields.repeat_until) or None
        assert due is not None, "the script returns what has a time"
        return Document(
            id,
            content,
            due,
            until,
            content.get(fields.interval) or None,
            repeat_until and (_moment(repeat_until) or repeat_until),
            content.get(fields.auto_remove) or None,
        )


def _upcoming(row: list[Any]) -> Upcoming:
    id, value, interval, repeat_until, auto_remove = row
    due = _moment(value)
    assert due is not None, "the script returns what has a time"
    last = repeat_until and (_moment(repeat_until) or repeat_until)
    return Upcoming.of(id, due, interval or None, last or None, auto_remove or None)


def _connected(client: Any) -> Any:
    if isinstance(client, str):
        try:
            return make_client(client, {"socket_timeout": CALL, "socket_connect_timeout": CONNECT})
        except InvalidArgument as error:
            raise InvalidArgument(str(error).replace("url must", "client must", 1), field="client") from None
    if not isinstance(client, (redis.Redis, redis.RedisCluster)):
        raise TypeError(f"client must be a redis.Redis or the URL of a server, got {type(client).__name__}")
    return client


def _check_prefix(prefix: object) -> str:
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be text, got {shown(prefix)}")
    if not prefix or len(prefix) > LONGEST_PREFIX or not prefix.isprintable():
        raise InvalidArgument(
            f"prefix must be printable text of 1 to {LONGEST_PREFIX} characters, got {shown(prefix)}",
            field="prefix",
            value=prefix,
        )
    return prefix


def _flat_condition(condition: object) -> list[Any]:
    """Return fields and values in turn, as they are sent."""
    if condition is None:
        return []
    if not isinstance(condition, Mapping) or not all(
        isinstance(name, str) and isinstance(value, (str, bytes, int, float, datetime, NoneType))
        for name, value in condition.items()
    ):
        raise TypeError(f"condition must be a dict of fields and values as Redis has them, got {shown(condition)}")
    return [part for name, value in condition.items() for part in (name, _to_redis(value))]


def _to_redis(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, datetime):
        return value
    milliseconds = to_micros(in_utc(value)) // 1000
    return f"{'-' if milliseconds < 0 else ''}{abs(milliseconds) // 1000}.{abs(milliseconds) % 1000:03}"


def _moment(value: Any) -> datetime | None:
    """Return the time that a number of seconds stands for, None if it is none."""
    text = str(value)
    if not _NUMBER.fullmatch(text) or len(text) >= 20:
        return None
    seconds = float(text)
    return from_micros(round(seconds * SECOND), UTC) if FIRST < seconds < LAST else None


def _text(value: Any) -> Any:
    """Return bytes as text, and as they are if they are none."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value
