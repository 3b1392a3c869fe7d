"""Documents in a MongoDB collection of the user's own.

A document is locked by one ``findOneAndUpdate``, which the server carries out for one of all who ask. Renewing,
finishing and removing name the document and the ``sleepUntil`` that we wrote. MongoDB keeps milliseconds.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from goscheduler.documents.base import DocumentStore, Malformed, Upcoming
from goscheduler.documents.model import Document, Fields, in_utc, look_up
from goscheduler.errors import shown
from goscheduler.runs.queries import Count
from goscheduler.times import EPOCH

try:
    import pymongo
    from bson.codec_options import DatetimeConversion
    from bson.errors import BSONError
    from pymongo.collection import Collection, ReturnDocument
except ImportError as error:
    raise ImportError(
        f'documents in MongoDB need a package that is not installed ({error}); pip install "goscheduler[mongodb]"',
        name=error.name,
    ) from error

__all__ = ["MongoDocumentStore"]

#: How long one call of the server may take, in seconds.
CALL = 20.0
#: The types of values that are neither dates nor null nor absent; named one by one so that an index serves.
NO_DATES = [
    "double", "string", "object", "array", "binData", "objectId", "bool", "regex", "javascript", "int", "timestamp",
    "long", "decimal", "minKey", "maxKey",
]  # fmt: skip
#: The same for mongomock, which knows neither lists of types nor all of these.
NO_DATE_MOCKED: Mapping[str, Any] = {"$ne": None, "$not": {"$type": "date"}}


class MongoDocumentStore(DocumentStore):
    """Finds its documents in ``collection``, a collection of pymongo, or of mongomock in tests.

    The four fields may be paths with dots. ``condition`` is a filter that documents must match to be processed. Without
    an index each look reads the whole collection; :meth:`create_index` makes one that fits.
    """

    resolution = timedelta(milliseconds=1)

    def __init__(
        self,
        collection: Collection[Any],
        *,
        sleep_until: str = "sleepUntil",
        interval: str = "interval",
        repeat_until: str = "repeatUntil",
        auto_remove: str = "autoRemove",
        condition: Mapping[str, Any] | None = None,
    ) -> None:
        mocked = type(collection).__module__.startswith("mongomock.")
        if not mocked and not isinstance(collection, Collection):
            raise TypeError(f"collection must be a pymongo.collection.Collection, got {shown(collection)}")
        if condition is not None and not isinstance(condition, Mapping):
            raise TypeError(f"condition must be a filter as MongoDB takes it, a dict, got {shown(condition)}")
        self._fields = Fields(sleep_until, interval, repeat_until, auto_remove)
        self._condition = dict(condition or {})
        self._collection = collection if mocked else _lenient(collection)
        self._asking: Callable[[], AbstractContextManager[Any]] = _one_at_a_time if mocked else _in_time
        self._no_date: Mapping[str, Any] = NO_DATE_MOCKED if mocked else {"$type": NO_DATES}

    def create_index(self) -> str:
        """Make the index that serves these fields and this condition, unless it is there; return its name."""
        equal = [name for name, value in self._condition.items() if not name.startswith("$") and _is_plain(value)]
        keys = [*dict.fromkeys(equal), self._fields.sleep_until]
        name = re.sub(r"\W", "_", f"goscheduler_{'_'.join(keys)}")[:120]
        return str(self._collection.create_index([(key, 1) for key in keys], name=name))

    def lock_next(self, now: datetime, until: datetime) -> Document | None:
        field = self._fields.sleep_until
        with self._asking():
            found = self._collection.find_one_and_update(
                {"$and": [*self._dates(), {field: {"$lte": now}}, self._condition]},
                {"$set": {field: until}},
                sort=[(field, 1)],
                return_document=ReturnDocument.BEFORE,
            )
        return None if found is None else self._locked(found, until)

    def update(self, document: Document, sleep_until: datetime | None) -> bool:
        change = {"$set": {self._fields.sleep_until: sleep_until}}
        with self._asking():
            return bool(self._collection.update_one(self._ours(document), change).matched_count)

    def remove(self, document: Document) -> bool:
        with self._asking():
            return bool(self._collection.delete_one(self._ours(document)).deleted_count)

    def upcoming(self, limit: int) -> list[Upcoming]:
        fields = self._fields
        shown_fields = dict.fromkeys((fields.sleep_until, fields.interval, fields.repeat_until, fields.auto_remove), 1)
        dated = {"$and": [*self._dates(), self._condition]}
        with self._asking():
            found = list(self._collection.find(dated, shown_fields, sort=[(fields.sleep_until, 1)], limit=limit))
        return [
            Upcoming.of(
                content["_id"],
                _moment(look_up(content, fields.sleep_until)),
                look_up(content, fields.interval),
                look_up(content, fields.repeat_until),
                look_up(content, fields.auto_remove),
            )
            for content in found
        ]

    def count_due(self, now: datetime, cap: int) -> Count:
        due = {"$and": [*self._dates(), {self._fields.sleep_until: {"$lte": now}}, self._condition]}
        with self._asking():
            number = self._collection.count_documents(due, limit=cap + 1)
        return Count(min(number, cap), number <= cap)

    def malformed(self, limit: int) -> list[Malformed]:
        field = self._fields.sleep_until
        bad = {"$and": [{field: self._no_date}, self._condition]}
        with self._asking():
            found = list(self._collection.find(bad, {field: 1}, limit=limit))
        return [Malformed(content["_id"], look_up(content, field)) for content in found]

    def _dates(self) -> Iterator[dict[str, Any]]:
        """Yield the conditions under which ``sleepUntil`` is a date that can be set.

        A list of dates would match like a date, and a path through a list cannot be set, for which the server refuses
        the whole command, again and again.
        """
        field = self._fields.sleep_until
        yield {field: {"$type": "date"}}
        parts = field.split(".")
        for depth in range(1, len(parts) + 1):
            yield {".".join(parts[:depth]): {"$not": {"$type": "array"}}}

    def _locked(self, content: Any, until: datetime) -> Document:
        fields = self._fields
        return Document(
            content["_id"],
            content,
            _moment(look_up(content, fields.sleep_until)),
            until,
            look_up(content, fields.interval),
            look_up(content, fields.repeat_until),
            look_up(content, fields.auto_remove),
        )

    def _ours(self, document: Document) -> dict[str, Any]:
        return {"_id": {"$eq": document.id}, self._fields.sleep_until: document.locked_until}


def _in_time() -> AbstractContextManager[Any]:
    return pymongo.timeout(CALL)


_guard = threading.Lock()


def _one_at_a_time() -> AbstractContextManager[Any]:
    """Keep the threads of a test apart: mongomock finds a document and then changes it."""
    return _guard


def _lenient(collection: Collection[Any]) -> Collection[Any]:
    """Return the collection, reading dates that Python does not have without an error, if that is not set otherwise."""
    options = collection.codec_options
    if options.datetime_conversion is not DatetimeConversion.DATETIME:
        return collection
    return collection.with_options(options.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO))


def _is_plain(value: Any) -> bool:
    return not isinstance(value, (Mapping, re.Pattern, list))


def _moment(value: Any) -> datetime:
    """Return a date in UTC. One before the year 1, which Python does not have, was due long ago."""
    if isinstance(value, datetime):
        return in_utc(value)
    try:
        return in_utc(value.as_datetime())
    except (AttributeError, ValueError, OverflowError, BSONError):
        return EPOCH
