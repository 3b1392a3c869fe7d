"""What tests of single stores need, beside the contract."""

from __future__ import annotations

import pytest

from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, JobMaker
from goscheduler.testing.scheduler import ManualScheduler


@pytest.fixture
def scheduler():
    return ManualScheduler(clock=ManualClock(NOW))


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


@pytest.fixture
def opened(scheduler):
    """Return a function that starts a store; it is shut down after the test."""
    stores = []

    def start(store):
        store.start(scheduler, "default")
        stores.append(store)
        return store

    yield start
    for store in stores:
        store.shutdown()
