"""A connection to ZooKeeper through kazoo, as job stores and locks use it.

Every call has a deadline and is made once. kazoo's errors become those of this package, except for conflicts: a node
that exists, does not exist, or has another version.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient, KazooState  # type: ignore[import-untyped]
from kazoo.exceptions import (  # type: ignore[import-untyped]
    AuthFailedError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import GoSchedulerError, StoreUnavailable

SESSION_SECONDS = 4.0
#: How long a connection that was lost is waited for, in all; kazoo makes it again by itself. After that calls fail at
#: once until it is there.
RETURN_SECONDS = 5.0
#: The pause between two looks whether it is there again.
LOOK_SECONDS = 0.02
CONFLICTS = (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError)
"""Errors that say what the server found instead of what the caller expected."""


def new_client(**options: Any) -> KazooClient:
    """Return a client that notices a dead server soon and connects again at once. Nothing depends on its session."""
    # By default kazoo waits up to a minute before it reconnects, and a whole session for a server that says nothing.
    retry = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0)
    return KazooClient(**{"connection_retry": retry, "timeout": SESSION_SECONDS, **options})


class Connection:
    """A client of kazoo: the given one, or one that ``make`` returns whenever a new one is needed.

    A given client is closed only with ``close_given``.
    """

    def __init__(
        self, given: KazooClient | None, make: Callable[[], KazooClient] = new_client, close_given: bool = False
    ) -> None:
        self.given = given
        self._make = make
        self._close_given = close_given
        self._starting = threading.Lock()
        self._missed_since: float | None = None
        """When a call first found the connection lost."""
        self.client: Any = given
        """None before the first call, after :meth:`close` and after a fork, unless it was given."""

    def connected(self, seconds: float) -> Any:
        """Return the connected client. kazoo would queue a call without a connection and send it much later.

        :raises StoreUnavailable: if there is no connection
        """
        with self._starting:
            if self.client is None:
                self.client = self._make()
            client = self.client
            if client.client_state == "CLOSED":
                self._start(client, seconds)
        if not client.connected:
            self._wait_for_return(client, seconds)
        self._missed_since = None
        return client

    def _start(self, client: Any, seconds: float) -> None:
        try:
            client.start(timeout=seconds)
        except (KazooTimeoutError, KazooException) as error:
            if self.given is None:  # a client that has given up does not start well again
                self.client = None
                _close(client)
            raise _no_answer(client) from error

    def _wait_for_return(self, client: Any, seconds: float) -> None:
        now = SYSTEM_CLOCK.monotonic()
        since = self._missed_since = self._missed_since or now
        until, pause = min(now + seconds, since + RETURN_SECONDS), threading.Event()
        while not client.connected and client is self.client and SYSTEM_CLOCK.monotonic() < until:
            pause.wait(LOOK_SECONDS)
        if not client.connected:
            raise _no_answer(client)

    def close(self) -> None:
        """Close the client, unless it was given and is to be left open."""
        with self._starting:
            client, self.client = self.client, self.given
        if client is not None and (self.given is None or self._close_given):
            _close(client)

    def abandon(self) -> None:
        """Forget the client of the parent of this forked process."""
        if self.given is not None:
            raise GoSchedulerError("a kazoo client does not survive a fork; give the job store a url instead of it")
        self.client, self._starting = None, threading.Lock()  # a thread of the parent may hold the lock


def _close(client: Any) -> None:
    with suppress(KazooException):  # its thread ends as soon as it notices
        client.stop()
        client.close()


def answer(promise: Any, seconds: float | None) -> Any:
    """Return the answer to a call; raise a conflict as kazoo raises it."""
    try:
        return promise.get(timeout=seconds)
    except CONFLICTS:
        raise
    except (NoAuthError, AuthFailedError) as error:
        raise _not_let_in() from error
    except (KazooException, KazooTimeoutError) as error:
        raise StoreUnavailable(f"ZooKeeper did not answer: {type(error).__name__}") from error


def answers(promises: Sequence[Any], seconds: float | None) -> list[Any]:
    """Return the answers to several calls; None for a node that does not exist."""
    found = []
    for promise in reversed(promises):  # waiting for the last one first wakes this thread only once
        try:
            found.append(answer(promise, seconds))
        except NoNodeError:
            found.append(None)
    return found[::-1]


def commit(transaction: Any, seconds: float | None) -> tuple[int, Exception] | None:
    """Commit a transaction; return the place of the operation that met a conflict, and the conflict, or None."""
    for index, result in enumerate(answer(transaction.commit_async(), seconds)):
        if isinstance(result, CONFLICTS):
            return index, result
        if isinstance(result, NoAuthError):
            raise _not_let_in() from result
        if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            raise GoSchedulerError(f"ZooKeeper refused: {type(result).__name__}") from result
    return None


def _no_answer(client: Any) -> StoreUnavailable:
    hosts = ", ".join(f"{host}:{port}" for host, port in client.hosts)
    return StoreUnavailable(f"no ZooKeeper answers at {hosts}")


def _not_let_in() -> GoSchedulerError:
    return GoSchedulerError("ZooKeeper does not let this user in; check user and password")


class NotifyWatch:
    """Watches a node across lost connections. kazoo's own watch waits for its first answer without a deadline."""

    def __init__(self, client: Any, path: str, heard: Callable[[str], None]) -> None:
        self._client, self._path, self._heard = client, path, heard
        self._running = True

    def begin(self) -> Any:
        """Start watching; return the promise of the first answer."""
        self._client.add_listener(self._connection_changed)
        promise = self._read()
        promise.rawlink(self._answered)
        return promise

    def end(self) -> None:
        """Stop watching."""
        self._running = False
        self._client.remove_listener(self._connection_changed)

    def _read(self) -> Any:
        return self._client.get_async(self._path, watch=self._changed)  # the server calls a watch once

    def _connection_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:  # the server may have forgotten the watch
            self._changed()

    def _changed(self, _event: Any = None) -> None:
        if self._running:
            self._read().rawlink(self._answered)

    def _answered(self, promise: Any) -> None:
        if self._running and promise.successful():
            self._heard(promise.value[0].decode("utf-8", "replace"))
        elif self._running and isinstance(promise.exception, NoNodeError):
            self._client.exists_async(self._path, watch=self._changed)
