"""A job that takes longer than its interval, and several fire times that have gathered."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta, timezone

from goscheduler import BackgroundScheduler
from goscheduler.events import EVENT_JOB_MAX_INSTANCES

logging.getLogger("goscheduler").setLevel(logging.ERROR)  # a skipped run is logged as a warning
skipped = threading.Event()
finish = threading.Event()
caught_up = threading.Event()
runs: list[str] = []


def slow() -> None:
    runs.append("slow")
    finish.wait(timeout=60)


def catch_up(expected: int, name: str) -> None:
    runs.append(name)
    if runs.count(name) == expected:
        caught_up.set()


scheduler = BackgroundScheduler()
scheduler.add_listener(lambda event: skipped.set(), EVENT_JOB_MAX_INSTANCES)
scheduler.start()

# One instance at a time (the default): while the first run goes on, the next ones are skipped, and an event says so.
scheduler.add_job(slow, "interval", seconds=0.1, id="slow")
skipped.wait(timeout=60)
print(f"slow: {runs.count('slow')} running, the next run was skipped")
scheduler.remove_job("slow")
finish.set()

# Three fire times have gathered. With coalescing (the default) they become one run, without it three.
two_and_a_half_hours_ago = datetime.now(timezone.utc) - timedelta(hours=2.5)
for name, coalesce, expected in (("one for all", True, 1), ("each of them", False, 3)):
    caught_up.clear()
    scheduler.add_job(
        catch_up, "interval", hours=1, args=[expected, name], start_date=two_and_a_half_hours_ago,
        next_run_time=two_and_a_half_hours_ago, coalesce=coalesce, max_instances=3,
    )
    caught_up.wait(timeout=60)
    print(f"{name}: {runs.count(name)} run(s) for 3 fire times")
scheduler.shutdown()
