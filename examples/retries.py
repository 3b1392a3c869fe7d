"""Retry failed runs, keep those that fail for good, and redrive them after the cause is fixed."""

from __future__ import annotations

import logging

from goscheduler import BackgroundScheduler, GiveUp, Retry, current_run, exponential
from goscheduler.events import EVENT_JOB_DEAD_LETTERED, EVENT_JOB_EXECUTED
from goscheduler.testing import EventRecorder

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # the failures below are meant
customers: set[str] = set()


def fetch() -> str:
    if current_run().attempt < 3:
        raise ConnectionError("the server does not answer")
    return f"fetched at attempt {current_run().attempt}"


def bill(customer: str) -> str:
    if customer not in customers:
        raise GiveUp(f"there is no {customer}")  # no use in trying again
    return f"billed {customer}"


scheduler = BackgroundScheduler(job_defaults={"retry": Retry(max_attempts=5, backoff=exponential(0.05), jitter=0.1)})
recorder = EventRecorder(scheduler)
scheduler.start()

scheduler.add_job(fetch, id="fetch")
print(recorder.wait_for(EVENT_JOB_EXECUTED, "fetch").retval)

scheduler.add_job(bill, args=["Ada"], id="bill")
recorder.wait_for(EVENT_JOB_DEAD_LETTERED, "bill")
for letter in scheduler.dead_letters():
    print(f"dead letter of {letter.record.job_id}: {letter.reason}")

customers.add("Ada")
print(f"redriven: {scheduler.redrive_all()}")
print(recorder.wait_for(EVENT_JOB_EXECUTED, "bill").retval)
for record in scheduler.runs("bill"):
    print(f"  attempt {record.attempt} by {record.source.value}: {record.outcome.value}")
scheduler.shutdown()
