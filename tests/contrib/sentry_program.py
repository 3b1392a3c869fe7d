"""A program that reports to Sentry: threads, a child process, a retry, a dead letter, a missed run.

Its argument is the DSN.
"""

from __future__ import annotations

import sys

import sentry_sdk

from goscheduler import BackgroundScheduler, RetryLater, current_run
from goscheduler.contrib.sentry import SentryCrons
from goscheduler.events import (
    EVENT_JOB_DEAD_LETTERED,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MISSED,
)
from goscheduler.testing import EventRecorder

DSN = sys.argv[1]


def well() -> None:
    sentry_sdk.set_tag("left behind", "by the job before")


def broken() -> None:
    raise ValueError(f"no paper in attempt {current_run().attempt}")


def patient() -> None:
    if current_run().attempt == 1:
        raise RetryLater(0)


def in_a_child() -> None:
    sentry_sdk.init(DSN, auto_enabling_integrations=False)
    try:
        sentry_sdk.capture_message("from the child")
    finally:
        sentry_sdk.flush()


def main() -> None:
    sentry_sdk.init(DSN, auto_enabling_integrations=False)
    scheduler = BackgroundScheduler(
        executors={"default": {"type": "threadpool", "max_workers": 1}, "children": {"type": "processpool"}},
        around=["goscheduler.contrib.sentry:scope"],
    )
    heard = EventRecorder(scheduler, EVENT_JOB_EXECUTED | EVENT_JOB_DEAD_LETTERED | EVENT_JOB_MISSED)
    SentryCrons(scheduler)
    daily = {"hours": 24, "start_date": "2026-01-01", "timezone": "UTC"}
    scheduler.add_job(well, "interval", id="well", timeout=90, **daily)
    scheduler.add_job(patient, "cron", hour=3, timezone="Europe/Oslo", id="Patient", retry=2)
    scheduler.add_job(broken, "interval", id="broken", dead_letter=True, **daily)
    scheduler.add_job(in_a_child, "interval", id="child", executor="children", **daily)
    scheduler.add_job(well, "date", run_date="2026-01-01", id="late", misfire_grace_time=1, tags=["watched"])
    scheduler.start()
    for job_id in ("well", "Patient", "broken", "child"):
        scheduler.run_now(job_id)
        heard.wait_for(EVENT_JOB_EXECUTED | EVENT_JOB_DEAD_LETTERED, job_id)
    heard.wait_for(EVENT_JOB_MISSED, "late")
    scheduler.shutdown()
    sentry_sdk.flush()


if __name__ == "__main__":
    main()
