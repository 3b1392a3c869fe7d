"""The health of the scheduler, in the standard service for it, ``grpc.health.v1``. It needs no rights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped, unused-ignore]

from goscheduler.errors import described
from goscheduler.logs import guarded_logger

if TYPE_CHECKING:
    from goscheduler.rpc.calls import Ask

#: Seconds between two looks.
INTERVAL = 5.0
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING

_logger = guarded_logger("goscheduler.rpc")


def read_health(ask: Ask) -> Mapping[str, Any]:
    """Return how the scheduler fares: status, message, latency_ms, pending, stuck, details."""
    found: Mapping[str, Any] = ask("health")
    return found


class HealthReporter:
    """Looks now and then how the scheduler fares, and lets the standard service tell it."""

    def __init__(self, look: Callable[[], Mapping[str, Any]], names: Sequence[str], interval: float = INTERVAL) -> None:
        self._look = look
        self._names = names
        self._interval = interval
        self._servicer = health.HealthServicer()
        self._stopped = threading.Event()
        self._trouble = ""
        self._told: int | None = None
        self._set(health_pb2.HealthCheckResponse.UNKNOWN)

    def add_to(self, server: Any) -> None:
        """Add the service to a server, and begin to look."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        threading.Thread(target=self._follow, name="goscheduler-grpc-health", daemon=True).start()

    def stop(self) -> None:
        """Tell from now on that nothing is served, and look no more."""
        self._stopped.set()
        self._servicer.enter_graceful_shutdown()

    def _follow(self) -> None:
        while not self._stopped.is_set():
            self._set(self._status())
            self._stopped.wait(self._interval)

    def _status(self) -> int:
        try:
            status = int(NOT_SERVING if self._look()["status"] == "unhealthy" else SERVING)
            self._trouble = ""
            return status
        except Exception as error:
            self._log_once(described(error))
            return int(NOT_SERVING)

    def _log_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            _logger.warning("The health of the scheduler could not be told; told as not serving: %s", trouble)

    def _set(self, status: int) -> None:
        if status == self._told:
            return  # whoever watches hears of changes only
        self._told = status
        for name in self._names:
            self._servicer.set(name, status)
