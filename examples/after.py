"""Run jobs after other jobs: one after another, several after one, one after several, and when one has failed."""

from __future__ import annotations

import logging

from goscheduler import current_run
from goscheduler.testing import ManualScheduler

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)

broken = True


def extract() -> None:
    if broken:
        raise ConnectionError("the source does not answer")
    print("extract")


def step() -> None:
    print(f"{current_run().job_id} after {', '.join(sorted(current_run().upstream))}")


# A clock that the program moves shows days of work at once.
with ManualScheduler() as scheduler:
    scheduler.add_job(extract, "cron", hour=2, id="extract", retry=2)
    scheduler.add_job(step, after="extract", id="orders")
    scheduler.add_job(step, after="extract", id="customers", delay="10m")
    scheduler.add_job(step, after=["orders", "customers"], id="report")
    scheduler.add_job(step, after="extract", on="failure", id="alert")
    scheduler.advance("1d")
    print(scheduler.why("report"))
    broken = False
    scheduler.advance("1d")
    print(scheduler.why("report"))
