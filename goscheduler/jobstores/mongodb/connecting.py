"""How the MongoDB store gets to its server: the client, its deadlines, the collections and their indexes.

Every call has a deadline of at most a quarter of the default lease. The driver does not try anything again by itself:
what was not answered is read back by its mark.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymongo
from pymongo import IndexModel, MongoClient, ReturnDocument
from pymongo.errors import (
    AutoReconnect,
    CollectionInvalid,
    ConfigurationError,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
)
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from goscheduler._urls import without_secrets
from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable, shown
from goscheduler.jobstores.mongodb.documents import MARKS, Document
from goscheduler.jobstores.mongodb.due_work import META
from goscheduler.jobstores.mongodb.writer import Collections
from goscheduler.plugins import require_clear_login
from goscheduler.references import maybe_ref

#: Seconds for one call of the store, however many messages it takes.
CALL = 7.0
CONNECT = 5.0
OLDEST = (4, 4)
VERSION = 1

DEADLINES: Mapping[str, Any] = {
    "serverSelectionTimeoutMS": int(CONNECT * 1000),
    "connectTimeoutMS": int(CONNECT * 1000),
    "socketTimeoutMS": int(CALL * 1000),
    "retryWrites": False,
    "retryReads": False,
    "appname": "goscheduler",
    "connect": False,
}
#: What is asked of the server where neither the client nor the URL says otherwise.
DURABLE = WriteConcern("majority", j=True)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}")
_UNAUTHORISED = (13, 18)
_EXISTS = 48
#: How many bytes of calls are kept: enough for all who listen to hear them, little enough to be read at the start.
CALLS_KEPT = 64 * 1024


def check_name(field: str, value: Any) -> str:
    """Return a name for a database or collection, or raise."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidArgument(
            f"{field} must be a name of letters, digits, '_', '-' and '.', at most 64 characters, got {shown(value)}",
            field=field,
            value=value,
        )
    return value


def given_client(client: Any) -> MongoClient[Document]:
    """Return the client that was given, or the one that a reference leads to.

    :raises TypeError: if it is a client of mongomock
    """
    found: MongoClient[Document] = maybe_ref(client)
    if type(found).__module__.startswith("mongomock."):
        raise TypeError(
            "mongomock cannot keep a job store: it has no updates that read the clock of the server, and no collection "
            "that can be listened to; use a MemoryJobStore in tests"
        )
    return found


def create_client(url: str | None, options: Mapping[str, Any]) -> MongoClient[Document]:
    """Return a client with deadlines. It connects when it is first used.

    :raises InvalidArgument: if the URL or an option makes no sense
    """
    wanted = {**DEADLINES, **options}
    try:
        if url is None:
            return MongoClient(**wanted)
        given = pymongo.uri_parser.parse_uri(url, warn=False)["options"]
        kept = {name: value for name, value in wanted.items() if name in options or name not in given}
        return MongoClient(url, **kept)
    except (PyMongoError, TypeError, ValueError) as error:
        message = f"MongoDB cannot be used with these options: {without_secrets(str(error), url)}"
        raise InvalidArgument(message, field="url") from None


def database_of(url: str) -> str | None:
    """Return the database that a URL names."""
    require_clear_login(url)
    try:
        name: str | None = pymongo.uri_parser.parse_uri(url, warn=False)["database"]
    except (PyMongoError, ValueError) as error:
        raise InvalidArgument(f"This is no URL of a MongoDB: {without_secrets(str(error), url)}", field="url") from None
    return name


def collections_of(client: MongoClient[Document], database: str, prefix: str) -> Collections:
    """Return the collections of one store, with the promises that it needs."""
    concern = DURABLE if client.write_concern.is_server_default else client.write_concern
    # What the majority does not have yet is not among what the majority has: who does not wait for it while writing
    # would not see his own writes.
    waits = concern.document.get("w") == "majority"
    options: dict[str, Any] = {
        "read_concern": ReadConcern("majority" if waits else "local"),
        "write_concern": concern,
        "read_preference": pymongo.ReadPreference.PRIMARY,
    }
    names = [prefix, *(f"{prefix}.{name}" for name in Collections._fields[1:])]
    return Collections(*(client.get_database(database).get_collection(name, **options) for name in names))


@contextmanager
def deadline() -> Iterator[None]:
    """Let everything inside end within one deadline."""
    with pymongo.timeout(CALL):
        yield


def prepare(client: MongoClient[Document], collections: Collections, logger: logging.Logger) -> None:
    """Check the server, make collections and indexes.

    :raises StoreUnavailable: if it does not answer
    :raises GoSchedulerError: if it cannot be used
    """
    try:
        with deadline():
            version = client.server_info()["versionArray"]
            if tuple(version[:2]) < OLDEST:
                old, needed = _dotted(version[:3]), _dotted(OLDEST)
                raise GoSchedulerError(f"MongoDB {old} is too old; at least {needed} is needed")
            _check_shape(collections)
            _make_indexes(collections)
            _make_calls(collections)
    except (AutoReconnect, NetworkTimeout) as error:
        raise StoreUnavailable(
            f"MongoDB does not answer at {_place(client)} within {CONNECT:g} seconds; is it running, and is the "
            f"address right? ({error.args[0] if error.args else error})"
        ) from None
    except OperationFailure as error:
        if error.code not in _UNAUTHORISED:
            raise
        raise GoSchedulerError(
            f"MongoDB at {_place(client)} refuses us: {error.args[0]}; check user, password and authSource"
        ) from None
    except ConfigurationError as error:
        raise GoSchedulerError(f"MongoDB at {_place(client)} cannot be used: {error}") from None
    _tell_of_risks(collections, logger)


def _check_shape(collections: Collections) -> None:
    """Refuse collections that somebody else has made, or a newer version of this program."""
    # In one step: several processes may start at once.
    meta = collections.meta.find_one_and_update(
        META, {"$setOnInsert": {"version": VERSION}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    found = (meta or {}).get("version")
    if found != VERSION:
        raise GoSchedulerError(
            f"The collection {collections.jobs.full_name} is of version {found!r}, and this program knows {VERSION}; "
            "use the newer goscheduler that has made it, or another collection"
        )
    foreign = collections.jobs.find_one({"v": {"$exists": False}})
    if foreign is not None:
        kind = "an APScheduler 3 job store" if "job_state" in foreign else "something else"
        raise GoSchedulerError(
            f"The collection {collections.jobs.full_name} holds documents of {kind}; "
            "give another database or collection"
        )


def _make_indexes(collections: Collections) -> None:
    collections.jobs.create_indexes([
        *(
            IndexModel(
                [(f"{place}.{part}", 1) for part in ("executor", "priority", "at", "task")],
                name=f"goscheduler_{place}", partialFilterExpression={f"{place}.at": {"$exists": True}},
            )
            for place in ("due", "ready")
        ),
        IndexModel([("marks", 1)], name=MARKS, partialFilterExpression={"marks": {"$exists": True}}),
    ])  # fmt: skip
    for collection in (collections.history, collections.dead):
        collection.create_indexes([
            IndexModel([("finished", -1), ("run_id", -1), ("fence", -1)], name="goscheduler_newest"),
            IndexModel([("job_id", 1), ("finished", -1)], name="goscheduler_job"),
        ])  # fmt: skip


def _make_calls(collections: Collections) -> None:
    """Make the collection that processes call each other by: only one of a fixed size can be listened to."""
    try:
        collections.calls.database.create_collection(collections.calls.name, capped=True, size=CALLS_KEPT)
    except CollectionInvalid:
        return  # it is there
    except OperationFailure as error:
        if error.code != _EXISTS:  # somebody has just made it
            raise


def _tell_of_risks(collections: Collections, logger: logging.Logger) -> None:
    concern = collections.jobs.write_concern.document
    if concern.get("w") != "majority" or concern.get("j") is False:
        logger.warning(
            "The client writes to MongoDB with %s: what was written can be lost when a server fails; "
            'w="majority" and journal=True are safe', concern,
        )  # fmt: skip


def _dotted(version: Iterable[int]) -> str:
    return ".".join(map(str, version))


def _place(client: MongoClient[Document]) -> str:
    seeds = sorted(client.topology_description.server_descriptions())
    return ", ".join(f"{host}:{port}" for host, port in seeds)
