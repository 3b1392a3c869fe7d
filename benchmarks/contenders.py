"""The same code drives both contenders: only the import root differs, as for somebody who changes over."""

from __future__ import annotations

import importlib
import itertools
import logging
import threading
from typing import Any

WORKERS = 10
PATIENCE = 300


def background_scheduler(root: str) -> Any:
    """Return a stopped BackgroundScheduler of ``root``: memory store, ten threads, late runs run."""
    logging.disable(logging.CRITICAL)
    pool = importlib.import_module(f"{root}.executors.pool")
    schedulers = importlib.import_module(f"{root}.schedulers.background")
    return schedulers.BackgroundScheduler(
        executors={"default": pool.ThreadPoolExecutor(WORKERS)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )


class ExecutedCounter:
    """Counts EXECUTED events, from whichever threads they come, and tells when ``expected`` were heard."""

    def __init__(self, root: str, scheduler: Any, expected: int) -> None:
        self.expected = expected
        self._tickets = itertools.count(1)
        self._complete = threading.Event()
        scheduler.add_listener(self._hear, importlib.import_module(f"{root}.events").EVENT_JOB_EXECUTED)

    def _hear(self, event: object) -> None:
        if next(self._tickets) == self.expected:
            self._complete.set()

    def wait(self) -> None:
        """Return once all were heard."""
        if not self._complete.wait(PATIENCE):
            raise TimeoutError(f"only {self.heard()} of {self.expected} runs were heard of within {PATIENCE} s")

    def heard(self) -> int:
        """Return how many events came; call it once, at the end."""
        return next(self._tickets) - 1

    def verify(self) -> None:
        """Raise unless exactly as many events came as expected. To be called after shutdown."""
        heard = self.heard()
        if heard != self.expected:
            raise AssertionError(f"{heard} EXECUTED events for {self.expected} runs")


def noop() -> None:
    """Do nothing, so that only the scheduler is measured."""
