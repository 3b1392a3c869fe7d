"""A store with jobs of several kinds, and the operations on it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from operation_doubles import ADMIN, fail, nothing

from goscheduler import Limit
from goscheduler.documents.memory import MemoryDocumentStore
from goscheduler.errors import MessageRejected
from goscheduler.locks.memory import MemoryLocks
from goscheduler.messages import MessageScheduler
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.periodic import Schedule, ScheduleRegistry
from goscheduler.testing import ManualScheduler


@pytest.fixture
def scheduler():
    scheduler = ManualScheduler()
    scheduler.start()
    add = scheduler.add_job
    add(nothing, "interval", hours=1, id="plain", tags=["billing"], args=[1], kwargs={"password": "hush", "n": 2},
        metadata={"team": "blue"}, limits=[Limit("api", concurrency=2)])  # fmt: skip
    add(nothing, "cron", hour=3, id="nightly", tags=["reports"])
    add(nothing, "interval", hours=1, id="other", tags=["reports"])
    add(fail, "interval", minutes=1, id="failing", args=[17], tags=["billing"], dead_letter=True)
    scheduler.advance(timedelta(minutes=1))
    scheduler.run_due()
    scheduler.pause_job("failing", by="ops", reason="it fails")
    yield scheduler
    scheduler.shutdown()


@pytest.fixture
def messages(scheduler):
    """A front of messages on the same scheduler, whose transport refuses those that are called "bad"."""

    def publish(event_name, message):
        if event_name == "bad":
            raise MessageRejected("nobody wants it")

    front = MessageScheduler(scheduler=scheduler, transport=publish, workers=0)
    front.start()
    return front


@pytest.fixture
def source(scheduler, messages):
    scheduler.register("greet", nothing)
    registry = ScheduleRegistry()
    registry.register(Schedule(id="cleanup", cron="0 * * * *", job="greet"))
    now = scheduler.clock.now()
    crontab = MemoryDocumentStore([
        {"_id": "due", "sleepUntil": now}, {"_id": "later", "sleepUntil": now + timedelta(hours=1)},
    ])  # fmt: skip
    return Source(
        scheduler, messages=messages, schedules=registry, documents={"crontab": crontab}, locks=MemoryLocks()
    )


@pytest.fixture
def operations(source):
    return Operations(source)


@pytest.fixture
def call(operations):
    """Calls an operation as an admin who may see everything."""

    def call(name, principal=ADMIN, /, **arguments):
        return operations.call(name, principal, arguments)

    return call
