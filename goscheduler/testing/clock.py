"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from goscheduler.times import parse_duration

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


class ManualClock:
    """Shows the time that it was set to; by default the first of January 2026 at midnight, UTC."""

    def __init__(self, now: datetime = START) -> None:
        self._now = _aware(now)
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, duration: timedelta | float | str) -> None:
        """Let time pass: a timedelta, seconds, or text such as ``"1h30m"``."""
        passed = parse_duration(duration)
        self._now += passed
        self._monotonic += passed.total_seconds()

    def set(self, now: datetime) -> None:
        """Set the wall clock, also back, as an administrator would: no time passes by it."""
        self._now = _aware(now)


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"the time must have a time zone, got {moment!r}")
    return moment.astimezone(timezone.utc)
