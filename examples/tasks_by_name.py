"""Jobs that name a task: one process adds them, another one has the function, and a rename changes no stored job."""

from __future__ import annotations

import logging

from goscheduler import BackgroundScheduler, task
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_RELEASED, EVENT_JOB_SUSPENDED
from goscheduler.testing import EventRecorder

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # the warning about an unknown task is meant


@task("sendEmail", aliases=["send_email"])  # it was called send_email once, and records say so
def send(to: str, subject: str) -> str:
    return f"sent {subject!r} to {to}"


scheduler = BackgroundScheduler()
recorder = EventRecorder(scheduler)
scheduler.start()

scheduler.add_job("sendEmail", id="new", kwargs={"to": "ada@example.org", "subject": "hello"})
print(recorder.wait_for(EVENT_JOB_EXECUTED, "new").retval)
scheduler.add_job("send_email", id="old", args=["bob@example.org", "hello again"])
print(recorder.wait_for(EVENT_JOB_EXECUTED, "old").retval)

scheduler.add_job("resize", id="later", args=["cat.jpg"])
print(f"suspended: {recorder.wait_for(EVENT_JOB_SUSPENDED, 'later').reason}")


@scheduler.register("resize")
def resize(picture: str) -> str:
    return f"resized {picture}"


recorder.wait_for(EVENT_JOB_RELEASED, "later")
print(recorder.wait_for(EVENT_JOB_EXECUTED, "later").retval)
scheduler.shutdown()
