"""How etcd is asked: in the words of its HTTP gateway, whichever client carries them.

A call is a path such as ``kv/txn`` and a payload as the gateway takes it: the fields of etcd's protocol by their names,
bytes in base64. The answer has the same form. So the store and the locks are written once, for every client.
"""

from __future__ import annotations

import base64
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

CONNECT_SECONDS = 5.0
#: How long the watch may be silent before it is begun anew, in case that nobody is there any more.
WATCH_SILENCE_SECONDS = 300.0

Within = tuple[float, float]
"""How many seconds a connection may take, and an answer."""


class Wire(ABC):
    """A client, and how it is used. Every call has a deadline, and is made once."""

    client: Any
    address: str

    @abstractmethod
    def open(self, seconds: float) -> str:
        """Get ready, and return the version of the server.

        :raises StoreUnavailable: if none answers
        :raises GoSchedulerError: if it is none that can be used, or does not let us in
        """

    @abstractmethod
    def post(self, path: str, payload: dict[str, Any], within: Within) -> Any:
        """Return the answer to a call.

        :raises StoreUnavailable: if there is none, or the same may work later
        :raises GoSchedulerError: if the server refuses
        """

    @abstractmethod
    def watch(self, key: str, heard: Callable[[str], None]) -> Watch:
        """Return a watch over a key, in base64. It has to be started."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections of the client."""

    def abandon(self) -> None:  # noqa: B027 - a client may have nothing that can be left
        """Forget connections that belong to the parent of this forked process."""


class Watch(threading.Thread):
    """Hears a key on a connection of its own, and takes another when that breaks."""

    breaks: tuple[type[Exception], ...] = ()
    """What is raised when it breaks."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        super().__init__(name="goscheduler-etcd-watch", daemon=True)
        self._heard = heard
        self._stopping = threading.Event()

    def run(self) -> None:
        """Listen until told to stop."""
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
        """Connect, and yield what the server says."""
        raise NotImplementedError

    def _hear(self, result: dict[str, Any]) -> None:
        if result.get("created"):
            self._heard("")  # whatever was missed before
        for event in result.get("events", ()):
            self._heard(base64.b64decode(event["kv"].get("value", "")).decode("utf-8", "replace"))

    def stop(self) -> None:
        """Listen no more."""
        self._stopping.set()
        self._hang_up()

    def _hang_up(self) -> None:
        """End the connection, from another thread."""
        raise NotImplementedError
