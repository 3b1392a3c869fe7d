"""Ends calls to a database that does not answer although the connection looks alive.

A link that swallows packets keeps psycopg waiting for ever: neither the timeouts of the server nor those of TCP help.
So another thread shuts the socket down. PyMySQL has its own timeouts and does not need it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from goscheduler.clock import SYSTEM_CLOCK

#: The pause between two checks for overdue calls.
CHECK_SECONDS = 0.5


class Watchdog:
    """Watches the calls of one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[int, tuple[float, int]] = {}
        """Number of a thread → when its call has to be over, and the descriptor of its socket."""
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @contextmanager
    def over(self, connection: Any, seconds: float) -> Iterator[None]:
        """Shut the connection down if the block takes longer."""
        descriptor = _descriptor(connection)
        if descriptor is None:
            yield
            return
        me = threading.get_ident()
        with self._lock:
            self._calls[me] = (SYSTEM_CLOCK.monotonic() + seconds, descriptor)
            if self._thread is None:
                self._begin()
        try:
            yield
        finally:
            with self._lock:
                self._calls.pop(me, None)

    def stop(self) -> None:
        """End the thread, if there is one."""
        self._stopped.set()
        with self._lock:
            self._thread = None

    def _begin(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stopped,), name="goscheduler-sql-watchdog", daemon=True
        )
        self._thread.start()

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(CHECK_SECONDS):
            self._end_overdue(SYSTEM_CLOCK.monotonic())

    def _end_overdue(self, now: float) -> None:
        with self._lock:  # so that no connection is closed, and its descriptor given to another, in between
            for thread, (deadline, descriptor) in list(self._calls.items()):
                if deadline <= now:
                    del self._calls[thread]
                    _shut_down(descriptor)


def _descriptor(connection: Any) -> int | None:
    driver = connection.connection.driver_connection
    return driver.fileno() if type(driver).__module__.partition(".")[0] == "psycopg" else None


def _shut_down(descriptor: int) -> None:
    """Shut a socket down, and leave it to its owner to close it."""
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        try:
            copy.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is down already
