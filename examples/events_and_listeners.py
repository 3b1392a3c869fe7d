"""Listen to events: one thread calls a listener, in order, with the events whose codes are in its mask."""

from __future__ import annotations

import logging
import threading

from goscheduler import BackgroundScheduler
from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # the failure below is meant; the listener tells of it
heard_both = threading.Semaphore(0)


def divide(a: int, b: int) -> float:
    return a / b


def listener(event: JobExecutionEvent) -> None:
    if event.exception:
        print(f"{event.job_id} failed: {event.exception!r}")
    else:
        print(f"{event.job_id} returned {event.retval}")
    heard_both.release()


scheduler = BackgroundScheduler()
scheduler.add_listener(listener, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
scheduler.start()
for name, divisor in (("by-two", 2), ("by-zero", 0)):
    scheduler.add_job(divide, args=[10, divisor], id=name)  # no trigger: now, once
    heard_both.acquire(timeout=60)
scheduler.shutdown()
