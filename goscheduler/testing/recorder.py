"""Keeps the events of a scheduler, and waits for one without sleeping."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from goscheduler.events import EVENT_ANY


class EventRecorder:
    """A listener that remembers: ``recorder = EventRecorder(scheduler)``."""

    def __init__(self, scheduler: Any = None, mask: int = EVENT_ANY) -> None:
        self._events: list[Any] = []
        self._changed = threading.Condition()
        if scheduler is not None:
            scheduler.add_listener(self, mask)

    def __call__(self, event: Any) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    @property
    def events(self) -> list[Any]:
        """What was heard so far, in order."""
        with self._changed:
            return list(self._events)

    @property
    def codes(self) -> list[int]:
        """The codes of what was heard so far, in order."""
        return [event.code for event in self.events]

    def of(self, mask: int, job_id: str | None = None) -> list[Any]:
        """Return the events whose code is in ``mask``, of one job or of all."""
        return [event for event in self.events if _matches(event, mask, job_id)]

    def wait_for(
        self,
        mask: int,
        job_id: str | None = None,
        *,
        count: int = 1,
        timeout: float = 60.0,
        where: Callable[[Any], bool] = lambda event: True,
    ) -> Any:
        """Return the ``count``-th event that fits, as soon as there is one.

        :raises TimeoutError: if it does not come within ``timeout`` seconds
        """

        def fitting() -> list[Any]:
            return [event for event in self._events if _matches(event, mask, job_id) and where(event)]

        with self._changed:
            if not self._changed.wait_for(lambda: len(fitting()) >= count, timeout):
                raise TimeoutError(
                    f"waited {timeout} seconds for event {mask!r} of job {job_id!r}, number {count}; "
                    f"heard {[(event.code, getattr(event, 'job_id', None)) for event in self._events][-20:]}"
                )
            return fitting()[count - 1]


def _matches(event: Any, mask: int, job_id: str | None) -> bool:
    return bool(event.code & mask) and (job_id is None or getattr(event, "job_id", None) == job_id)
