"""Connections to MongoDB: the client, its deadlines and its credentials, for job stores and locks.

Every call of a store has a deadline of at most a quarter of the default lease. The driver does not retry by itself: the
store reads back by its version what was not confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymongo
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, ConfigurationError, NetworkTimeout, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from goscheduler._urls import without_secrets
from goscheduler.errors import GoSchedulerError, InvalidArgument, StoreUnavailable
from goscheduler.plugins import require_clear_login
from goscheduler.references import maybe_ref

Document = dict[str, Any]

#: Seconds for one call of a store, however many messages it takes.
CALL_SECONDS = 7.0
CONNECT_SECONDS = 5.0

DEADLINES: Mapping[str, Any] = {
    "serverSelectionTimeoutMS": int(CONNECT_SECONDS * 1000),
    "connectTimeoutMS": int(CONNECT_SECONDS * 1000),
    "socketTimeoutMS": int(CALL_SECONDS * 1000),
    "retryWrites": False,
    "retryReads": False,
    "appname": "goscheduler",
    "connect": False,
}
#: The write concern where neither the client nor the URL names one.
DURABLE = WriteConcern("majority", j=True)
#: Error codes of a server that refuses a user.
UNAUTHORISED = (13, 18)


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


@contextmanager
def deadline() -> Iterator[None]:
    """Let everything inside end within one deadline."""
    with pymongo.timeout(CALL_SECONDS):
        yield


@contextmanager
def explained_errors(client: MongoClient[Document]) -> Iterator[None]:
    """Say which server does not answer, refuses the user or cannot be used.

    :raises StoreUnavailable: if the server does not answer
    :raises GoSchedulerError: if it cannot be used
    """
    try:
        yield
    except (AutoReconnect, NetworkTimeout) as error:
        raise StoreUnavailable(
            f"MongoDB does not answer at {_place(client)} within {CONNECT_SECONDS:g} seconds; is it running, and is "
            f"the address right? ({error.args[0] if error.args else error})"
        ) from None
    except OperationFailure as error:
        if error.code not in UNAUTHORISED:
            raise
        raise GoSchedulerError(
            f"MongoDB at {_place(client)} refuses us: {error.args[0]}; check user, password and authSource"
        ) from None
    except ConfigurationError as error:
        raise GoSchedulerError(f"MongoDB at {_place(client)} cannot be used: {error}") from None


def _place(client: MongoClient[Document]) -> str:
    seeds = sorted(client.topology_description.server_descriptions())
    return ", ".join(f"{host}:{port}" for host, port in seeds)
