"""Locks in MongoDB: one document a name, changed by one update, timed by the clock of the server.

The collection ``jobs.locks`` has ``_id`` (the name), ``token``, ``fence`` and ``expires`` (a date; that of 1970 when it
was released). A document outlives the holder for its fence, see :mod:`goscheduler.locks.base`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from math import ceil
from typing import Any

import pymongo
from pymongo import MongoClient, ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import (
    AutoReconnect,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    OperationFailure,
    WTimeoutError,
)

from goscheduler._drivers.mongodb import DURABLE, UNAUTHORISED
from goscheduler.errors import GoSchedulerError, StoreUnavailable
from goscheduler.locks.base import (
    LONGEST_CALL,
    HeldLock,
    LockBackend,
    holder_of,
    key_listed_as,
    key_of,
    key_prefix,
    name_of,
    new_token,
)

DEFAULT_DATABASE = "goscheduler"
DEFAULT_COLLECTION = "jobs.locks"

Document = dict[str, Any]

_RELEASED = datetime(1970, 1, 1, tzinfo=timezone.utc)
_IS_RELEASED: Document = {"$eq": ["$expires", _RELEASED]}
_IS_RUNNING: Document = {"$gt": ["$expires", "$$NOW"]}
_GROWN: Document = {
    "$max": [{"$add": [{"$ifNull": ["$fence", 0]}, 1]}, {"$multiply": [{"$toLong": "$$NOW"}, 1000]}],
}


class MongoDBLocks(LockBackend):
    """Keeps locks in a collection. Writes are durable, unless the client says otherwise."""

    def __init__(self, collection: Collection[Document], *, owns_client: bool = False) -> None:
        concern = collection.write_concern
        self._collection = collection.with_options(
            write_concern=DURABLE if concern.is_server_default else concern,
            read_preference=pymongo.ReadPreference.PRIMARY,
        )
        self._owns_client = owns_client

    def try_acquire(self, name: str, token: str, ttl: float, within: float) -> int | None:
        ours: Document = {"$eq": ["$token", {"$literal": token}]}
        kept: Document = {"$and": [ours, {"$not": [_IS_RELEASED]}]}
        steps: list[Document] = [
            {"$set": {"free": {"$or": [ours, {"$not": [_IS_RUNNING]}]}, "kept": kept}},
            {"$set": {"fence": {"$cond": [{"$and": ["$free", {"$not": ["$kept"]}]}, _GROWN, "$fence"]}}},
            {"$set": {
                "token": {"$cond": ["$free", {"$literal": token}, "$token"]},
                "expires": {"$cond": ["$free", _after(ttl), "$expires"]},
            }},
            {"$unset": ["free", "kept"]},
        ]  # fmt: skip
        with self._asking(within):
            try:
                found = self._take(name, steps)
            except DuplicateKeyError:  # the first two to use a name came at once, and this is the second
                found = self._take(name, steps)
        return int(found["fence"]) if found.get("token") == token else None

    def _take(self, name: str, steps: list[Document]) -> Document:
        which = {"_id": key_of(name)}
        after = ReturnDocument.AFTER
        return self._collection.find_one_and_update(which, steps, upsert=True, return_document=after) or {}

    def release(self, name: str, token: str, within: float) -> bool:
        return self._change(name, token, {"$or": [_IS_RUNNING, _IS_RELEASED]}, {"$literal": _RELEASED}, within)

    def extend(self, name: str, token: str, ttl: float, within: float) -> bool:
        return self._change(name, token, _IS_RUNNING, _after(ttl), within)

    def _change(self, name: str, token: str, condition: Document, expires: Document, within: float) -> bool:
        ours = {"_id": key_of(name), "token": {"$eq": token}, "$expr": condition}
        with self._asking(within):
            return self._collection.update_one(ours, [{"$set": {"expires": expires}}]).matched_count > 0

    def locks(self, prefix: str = "", limit: int = 100, within: float = LONGEST_CALL) -> list[HeldLock]:
        first = key_prefix(prefix)
        held = {"_id": {"$gte": first, "$lt": f"{first}\x7f"}, "$expr": _IS_RUNNING}
        in_utc = self._collection.codec_options.with_options(tz_aware=True, tzinfo=timezone.utc)
        with self._asking(within):
            found = list(self._collection.with_options(in_utc).find(held).sort("_id", 1).limit(limit))
        return [
            HeldLock(name_of(row["_id"]), int(row["fence"]), row["expires"], holder_of(row["token"])) for row in found
        ]

    def break_lock(self, name: str, fence: int, within: float = LONGEST_CALL) -> bool:
        held = {"_id": key_listed_as(name), "fence": {"$eq": fence}, "$expr": _IS_RUNNING}
        with self._asking(within):
            change = {"$set": {"expires": _RELEASED, "token": new_token()}}
            return self._collection.update_one(held, change).matched_count > 0

    def sweep(self, within: float) -> None:
        ended = {"$subtract": ["$$NOW", ceil(self.kept * 1000)]}
        old = [{"$lt": ["$expires", ended]}, {"$lt": ["$fence", {"$multiply": [{"$toLong": ended}, 1000]}]}]
        with self._asking(within):
            self._collection.delete_many({"$expr": {"$and": old}})

    @property
    def server(self) -> Hashable:
        return id(self._collection.database.client)

    def close(self) -> None:
        if self._owns_client:
            self._collection.database.client.close()

    @contextmanager
    def _asking(self, within: float) -> Iterator[None]:
        try:
            with pymongo.timeout(within):
                yield
        except (ConnectionFailure, AutoReconnect, ExecutionTimeout, WTimeoutError) as error:
            raise StoreUnavailable(f"MongoDB did not answer: {error.args[0] if error.args else error}") from error
        except OperationFailure as error:
            if error.timeout:
                raise StoreUnavailable("MongoDB did not answer in time") from error
            if error.code in UNAUTHORISED:
                raise GoSchedulerError(f"MongoDB refuses us: {error.args[0]}; check user and password") from None
            raise


def _after(ttl: float) -> Document:
    return {"$add": ["$$NOW", ceil(ttl * 1000)]}


def of_store(store: Any, owns_client: bool = False) -> LockBackend:
    """Return the locks beside the collections of a job store."""
    collection = store.client[store._database][f"{store._prefix}.locks"]
    return MongoDBLocks(collection, owns_client=owns_client)


def of_url(store: Any) -> LockBackend:
    """Return the locks beside the collections of a job store that was made for nothing else."""
    return of_store(store, owns_client=True)


def of_client(client: MongoClient[Document] | Database[Document] | Collection[Document]) -> LockBackend:
    """Return the locks in a collection, or in the usual one of a database, or of the usual database."""
    if isinstance(client, Collection):
        return MongoDBLocks(client)
    database = client if isinstance(client, Database) else client[DEFAULT_DATABASE]
    return MongoDBLocks(database[DEFAULT_COLLECTION])
