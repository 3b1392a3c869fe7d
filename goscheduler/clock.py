"""The only module that reads the clock.

Due times are wall time and go through :meth:`Clock.now`; durations go through :meth:`Clock.monotonic`, which no clock
change can disturb. Everything else in the package takes a time as a parameter, or a :class:`Clock`.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """The time source of a scheduler. ``goscheduler.testing.ManualClock`` is one that tests move by hand."""

    def now(self) -> datetime:
        """Return the present moment as an aware datetime in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary point; never goes back."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM_CLOCK = SystemClock()


class Deadline:
    """A limit that several steps share: each asks how much is left of it."""

    __slots__ = ("_at", "_clock")

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._at = None if seconds is None else clock.monotonic() + seconds

    def left(self, at_least: float = 0.0) -> float | None:
        """Return the seconds that are left, but not less than ``at_least``; None for no limit."""
        return None if self._at is None else max(at_least, self._at - self._clock.monotonic())
