"""A trigger of your own: one method that computes the next fire time from its arguments. No clock, no I/O."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from goscheduler.triggers.base import BaseTrigger


class DoublingTrigger(BaseTrigger):
    """Fires after one minute, then after two more, four more, eight more …, ``times`` times."""

    def __init__(self, start: datetime, times: int) -> None:
        self.start = start
        self.times = times

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        earliest = now if previous_fire_time is None else previous_fire_time + timedelta(microseconds=1)
        for turn in range(1, self.times + 1):
            moment = self.start + timedelta(minutes=2**turn - 1)
            if moment >= earliest:
                return moment
        return None

    def __str__(self) -> str:
        return f"doubling[{self.times} times from {self.start:%H:%M}]"


start = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
trigger = DoublingTrigger(start, times=4)
print(trigger)
print(*(f"{moment:%H:%M}" for moment in trigger.preview(10, after=start)))
