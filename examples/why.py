"""Ask why a job is not running, and see how a finished job has ended."""

from __future__ import annotations

import logging

from goscheduler import Limit
from goscheduler.testing import ManualScheduler

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # the failures below are meant


def call(outcome: str) -> str:
    if outcome == "fail":
        raise ConnectionError("the server does not answer")
    return outcome


with ManualScheduler() as scheduler:
    scheduler.add_job(call, "cron", hour=9, args=["report"], id="report")
    scheduler.add_job(call, "interval", hours=1, args=["render"], id="render", executor="gpu")
    scheduler.add_job(call, "interval", hours=1, args=["fail"], id="sync", retry=3)
    scheduler.add_job(call, "interval", hours=1, args=["mail"], id="mail")
    scheduler.pause_job("mail", by="Ada")
    for name in ("first", "second"):
        scheduler.add_job(call, "interval", hours=1, args=[name], id=name, limits=Limit("api", rate="1/10m"))
    once = scheduler.add_job(call, "date", args=["fail"], id="once", auto_remove=False)

    scheduler.advance("1h")
    for job in sorted(scheduler.get_jobs(), key=lambda job: job.id):
        print(f"{job.id:7} {job.state.value:10} {scheduler.why(job.id)}")
    print(f"once has run {once.run_count} time: {once.last_error}")
