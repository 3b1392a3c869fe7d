"""A store with jobs of several kinds, and the operations on it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from operation_doubles import ADMIN, fail, nothing

from goscheduler import Limit
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
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
def operations(scheduler):
    return Operations(Source(scheduler))


@pytest.fixture
def call(operations):
    """Calls an operation as an admin who may see everything."""

    def call(name, principal=ADMIN, **arguments):
        return operations.call(name, principal, arguments)

    return call
