"""The collections of one MongoDB store and their indexes: named, checked and made at the start."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pymongo
from pymongo import IndexModel, MongoClient, ReturnDocument
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from goscheduler._drivers.mongodb import CALL_SECONDS, DURABLE, deadline, explained_errors
from goscheduler.errors import GoSchedulerError, InvalidArgument, shown
from goscheduler.jobstores.mongodb.documents import Document
from goscheduler.jobstores.mongodb.due_work import META
from goscheduler.jobstores.mongodb.traits import MARKS, QUEUE, READY
from goscheduler.jobstores.mongodb.views import make_views
from goscheduler.jobstores.mongodb.writer import Collections

OLDEST_SERVER = (4, 4)
SCHEMA_VERSION = 2
#: Version 1 kept no traits, words and states of jobs; ``mongodb.upgrade`` adds them.
OLDEST_VERSION = 1
#: How long the indexes of a store of an earlier version may take, in seconds.
INDEX_SECONDS = 600.0
#: Bytes of notifications that are kept: enough for all listeners to hear them, little enough to read at the start.
NOTIFICATION_BYTES = 64 * 1024

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}")
_EXISTS, _NO_INDEX = 48, 27
#: Indexes of version 1: queues that were not ordered by ids, and marks without the state and id of their jobs.
_OLD = ("goscheduler_due", "goscheduler_marks")


def check_name(field: str, value: Any) -> str:
    """Return a name for a database or collection, or raise."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgument(
            f"{field} must be a name of letters, digits, '_', '-' and '.', at most 64 characters, got {shown(value)}",
            field=field,
            value=value,
        )
    return value


def collections_of(client: MongoClient[Document], database: str, prefix: str) -> Collections:
    """Return the collections of one store, with the promises that it needs."""
    concern = DURABLE if client.write_concern.is_server_default else client.write_concern
    # A process that does not wait for the majority when it writes would not see its own writes in majority reads.
    waits = concern.document.get("w") == "majority"
    options: dict[str, Any] = {
        "read_concern": ReadConcern("majority" if waits else "local"),
        "write_concern": concern,
        "read_preference": pymongo.ReadPreference.PRIMARY,
    }
    names = [prefix, *(f"{prefix}.{name}" for name in Collections._fields[1:])]
    return Collections(*(client.get_database(database).get_collection(name, **options) for name in names))


def prepare(client: MongoClient[Document], collections: Collections, logger: logging.Logger) -> None:
    """Check the server, make collections and indexes.

    :raises StoreUnavailable: if it does not answer
    :raises GoSchedulerError: if it cannot be used
    """
    with explained_errors(client), deadline():
        version = client.server_info()["versionArray"]
        if tuple(version[:2]) < OLDEST_SERVER:
            old, needed = _dotted(version[:3]), _dotted(OLDEST_SERVER)
            raise GoSchedulerError(f"MongoDB {old} is too old; at least {needed} is needed")
        upgrading = _check_shape(collections)
    with explained_errors(client), pymongo.timeout(INDEX_SECONDS if upgrading else CALL_SECONDS):
        _make_indexes(collections)
    with explained_errors(client), deadline():
        _make_collections(collections)
        make_views(collections, logger)
    _warn_of_unsafe_writes(collections, logger)


def _check_shape(collections: Collections) -> bool:
    """Refuse collections that another program has made, or a newer version of this one; true if one is upgraded."""
    # In one step: several processes may start at once.
    meta = collections.meta.find_one_and_update(
        META, {"$setOnInsert": {"version": SCHEMA_VERSION}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    found = (meta or {}).get("version")
    if found == OLDEST_VERSION:
        change = {"$set": {"version": SCHEMA_VERSION, "upgrading": True}}
        collections.meta.update_one({**META, "version": found}, change)
    elif found != SCHEMA_VERSION:
        raise GoSchedulerError(
            f"The collection {collections.jobs.full_name} is of version {found!r}, and this program knows "
            f"{SCHEMA_VERSION}; use the newer goscheduler that has made it, or another collection"
        )
    _refuse_others(collections)
    return found == OLDEST_VERSION or "upgrading" in (meta or {})


def _refuse_others(collections: Collections) -> None:
    foreign = collections.jobs.find_one({"v": {"$exists": False}})
    if foreign is not None:
        kind = "an APScheduler 3 job store" if "job_state" in foreign else "something else"
        raise GoSchedulerError(
            f"The collection {collections.jobs.full_name} holds documents of {kind}; "
            "give another database or collection"
        )


def _make_indexes(collections: Collections) -> None:
    collections.jobs.create_indexes([
        _partial(QUEUE, *_queue("due", "_id", "due.task"), where="due.at"),
        _partial(READY, *_queue("ready", "ready.task"), where="ready.at"),
        _partial(MARKS, "marks", "state", "_id", where="marks"),
    ])  # fmt: skip
    for name in collections.jobs.index_information().keys() & _OLD:
        with _tolerated(_NO_INDEX):  # another process has just dropped it
            collections.jobs.drop_index(name)
    for collection in (collections.history, collections.dead):
        collection.create_indexes([
            IndexModel([("finished", -1), ("run_id", -1), ("fence", -1)], name="goscheduler_newest"),
            IndexModel([("job_id", 1), ("finished", -1)], name="goscheduler_job"),
        ])  # fmt: skip


def _partial(name: str, *fields: str, where: str) -> IndexModel:
    """Return an index of documents that have the field ``where``."""
    return IndexModel(
        [(field, 1) for field in fields], name=name, partialFilterExpression={where: {"$exists": True}}
    )


def _queue(place: str, *others: str) -> list[str]:
    return [*(f"{place}.{part}" for part in ("executor", "priority", "at")), *others]


def _make_collections(collections: Collections) -> None:
    """Make the collection of notifications, as only one of a fixed size can be listened to; and those for others."""
    there = set(collections.jobs.database.list_collection_names())
    options: dict[str, dict[str, Any]] = {collections.calls.name: {"capped": True, "size": NOTIFICATION_BYTES}}
    for collection in (collections.calls, collections.notes, collections.inbox, collections.refused):
        if collection.name not in there:
            with _tolerated(_EXISTS):  # another process has just made it
                collection.database.create_collection(
                    collection.name, check_exists=False, **options.get(collection.name, {})
                )


@contextmanager
def _tolerated(code: int) -> Iterator[None]:
    """Let the server refuse something with this error code."""
    try:
        yield
    except OperationFailure as error:
        if error.code != code:
            raise


def _warn_of_unsafe_writes(collections: Collections, logger: logging.Logger) -> None:
    concern = collections.jobs.write_concern.document
    if concern.get("w") != "majority" or concern.get("j") is False:
        logger.warning(
            "The client writes to MongoDB with %s: what was written can be lost when a server fails; "
            'w="majority" and journal=True are safe', concern,
        )  # fmt: skip


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))
