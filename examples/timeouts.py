"""End runs that take too long, and cancel runs by hand."""

from __future__ import annotations

import logging
import threading

from goscheduler import BackgroundScheduler, Retry, current_run, fixed
from goscheduler.events import EVENT_JOB_CANCELLED, EVENT_JOB_EXECUTED
from goscheduler.testing import EventRecorder

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # the timeouts below are meant
started = threading.Event()


def crawl() -> str:
    """Hang on the first attempt, but check whether the run was told to end."""
    while current_run().attempt == 1:
        current_run().check()
        threading.Event().wait(0.01)
    return f"crawled at attempt {current_run().attempt}"


def copy_rows(count: int) -> None:
    for row in range(count):
        current_run().check()
        current_run().progress(row / count, f"row {row}")
        started.set()
        threading.Event().wait(0.01)


scheduler = BackgroundScheduler(job_defaults={"timeout": 60})
recorder = EventRecorder(scheduler)
scheduler.start()

scheduler.add_job(crawl, id="crawl", timeout=2, retry=Retry(max_attempts=2, backoff=fixed(0.05)))
print(recorder.wait_for(EVENT_JOB_EXECUTED, "crawl").retval)
for record in reversed(scheduler.runs("crawl")):
    print(f"  attempt {record.attempt}: {record.outcome.value}")

scheduler.add_job(copy_rows, args=[100_000], id="copy")
started.wait(timeout=60)
(run,) = scheduler.live_runs("copy")
print(f"copy is {run.state}, at {run.progress_note.split()[0]} something")
print(f"told to end: {scheduler.cancel_run(run.id, 'the disk is full')}")
recorder.wait_for(EVENT_JOB_CANCELLED, "copy")
print(f"copy {scheduler.runs('copy')[0].outcome.value}: {scheduler.runs('copy')[0].reason}")
scheduler.shutdown()
