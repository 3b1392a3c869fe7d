"""Tells systemd how a worker fares, by the socket that it names: started, alive, stopping.

Without such a socket nothing is sent and no thread is started.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from goscheduler.errors import described
from goscheduler.logs import guarded_logger

if TYPE_CHECKING:
    from goscheduler.schedulers._health import Probe

SOCKET, WATCHDOG_MICROS, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"

_logger = guarded_logger("goscheduler.worker")


class Systemd:
    """The service manager that has started this process, if it wants to hear of it."""

    def __init__(self, environment: Mapping[str, str], liveness: Callable[[], Probe]) -> None:
        self._address = environment.get(SOCKET, "")
        self._seconds = _watchdog_seconds(environment) if self._address else None
        self._liveness = liveness
        self._stopped = threading.Event()

    def ready(self) -> None:
        """Say that the worker has started; from now on say that it is alive, for as long as its loop turns."""
        self._send("READY=1")
        if self._seconds is not None:
            watch = threading.Thread(target=self._watch, args=(self._seconds,), name="goscheduler-watchdog")
            watch.daemon = True
            watch.start()

    def stopping(self) -> None:
        """Say that the worker is shutting down."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Say nothing any more."""
        self._stopped.set()

    def _watch(self, seconds: float) -> None:
        """Say it twice within the time after which systemd would end the worker."""
        while not self._stopped.is_set():
            found = self._liveness()
            if found.ok:
                self._send("WATCHDOG=1")
            else:
                _logger.error("systemd is not told that this worker is alive: %s", found.reason)
            self._stopped.wait(seconds / 2)

    def _send(self, state: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(state.encode("ascii"), address)
        except OSError as error:
            _logger.warning("systemd could not be told %s: %s", state, described(error))


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return within how many seconds systemd wants to hear of this process again, or None."""
    micros, pid = environment.get(WATCHDOG_MICROS, ""), environment.get(WATCHDOG_PID, "")
    if not micros.isdecimal() or int(micros) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(micros) / 1e6
