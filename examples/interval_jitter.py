"""Jitter spreads jobs that would all start at once. It is added to a fixed grid, so it never adds up."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from goscheduler import IntervalTrigger

start = datetime(2026, 1, 1, tzinfo=timezone.utc)
trigger = IntervalTrigger(minutes=1, start_date=start, jitter=20)
print(trigger.explain())

# preview() shows the grid, without jitter; this is what a scheduler does.
times: list[datetime] = []
moment: datetime | None = start
while moment is not None and len(times) < 100:
    times.append(moment)
    moment = trigger.get_next_fire_time(moment, moment)
delays = [(time - start) % timedelta(minutes=1) for time in times]
print(f"{len(times)} runs in {(times[-1] - start) // timedelta(minutes=1)} minutes")
print(f"every run at most 20 s after its minute: {max(delays) <= timedelta(seconds=20)}")
print(f"not all of them on the minute: {max(delays) > timedelta(0)}")
