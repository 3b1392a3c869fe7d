"""Calls to etcd in the format of its HTTP gateway, whichever client sends them.

A call is a path such as ``kv/txn`` and a payload as the gateway takes it: the fields of etcd's protocol by their names,
bytes in base64. The answer has the same format. So the store and the locks are written once, for every client.
"""

from __future__ import annotations

import base64
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

CONNECT_SECONDS = 5.0
#: How long a watch may be silent before it starts anew, in case the server is gone.
WATCH_SILENCE_SECONDS = 300.0

Within = tuple[float, float]
"""How many seconds the connection and the answer may take."""


class Wire(ABC):
    """A client, and how calls go through it. Every call has a deadline, and is made once."""

    client: Any
    address: str

    @abstractmethod
    def open(self, seconds: float) -> str:
        """Connect, and return the version of the server.

        :raises StoreUnavailable: if no server answers
        :raises GoSchedulerError: if it is no etcd, or does not let this user in
        """

    @abstractmethod
    def post(self, path: str, payload: dict[str, Any], within: Within) -> Any:
        """Return the answer to a call.

        :raises StoreUnavailable: if there is no answer, or the call may work later
        :raises GoSchedulerError: if the server refuses
        """

    @abstractmethod
    def watch(self, key: str, heard: Callable[[str], None]) -> Watch:
        """Return a watch over a key, in base64. The caller starts it."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections of the client."""

    def abandon(self) -> None:  # noqa: B027 - a client may have nothing to forget
        """Forget connections that belong to the parent of this forked process."""


class Watch(threading.Thread):
    """Watches a key on a connection of its own, and connects again when that breaks."""

    breaks: tuple[type[Exception], ...] = ()
    """The errors of a broken connection."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        super().__init__(name="goscheduler-etcd-watch", daemon=True)
        self._heard = heard
        self._stopping = threading.Event()

    def run(self) -> None:
        """Watch until :meth:`stop`."""
        while not self._stopping.is_set():
            with suppress(*self.breaks):
                self._listen()
            self._stopping.wait(1.0)

    def _listen(self) -> None:
        for result in self._results():
            if self._stopping.is_set():
                return
            self._hear(result)

    def _results(self) -> Iterator[dict[str, Any]]:
        """Connect, and yield the messages of the server."""
        raise NotImplementedError

    def _hear(self, result: dict[str, Any]) -> None:
        if result.get("created"):
            self._heard("")  # the key may have changed before
        for event in result.get("events", ()):
            self._heard(base64.b64decode(event["kv"].get("value", "")).decode("utf-8", "replace"))

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        self._hang_up()

    def _hang_up(self) -> None:
        """End the connection, from another thread."""
        raise NotImplementedError
