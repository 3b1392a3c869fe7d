"""Let jobs share limits, queue instead of being skipped, and go by priority."""

from __future__ import annotations

import logging

from goscheduler import Limit
from goscheduler.testing import ManualScheduler

logging.getLogger("goscheduler").setLevel(logging.ERROR)


def call(name: str) -> None:
    print(f"{scheduler.clock.now():%H:%M:%S} {name}")


# A clock that the program moves shows minutes of work at once.
with ManualScheduler() as scheduler:
    # The provider allows three calls a minute, for all jobs together.
    api = Limit("api", rate="3/1m")
    for city in ("Berlin", "Paris", "Rome", "Oslo"):
        scheduler.add_job(call, args=[f"weather of {city}"], limits=api)
    scheduler.add_job(call, args=["storm warning"], limits=api, priority=0)
    scheduler.advance("2m")

    # One connection to the old database for all jobs. A run that waits for it is not skipped.
    database = Limit("database", concurrency=1)
    scheduler.add_job(call, "interval", minutes=1, args=["copy"], limits=database, overlap="queue")
    scheduler.advance("2m")
