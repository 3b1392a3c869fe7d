"""Schedulers with jobs of every kind and with none, and clients that ask for their pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from operation_doubles import fail, nothing
from page_doubles import ADMIN, TestClient, pages_app
from web_page_ids import ODD_IDS

from goscheduler import Limit
from goscheduler.testing import ManualScheduler


@pytest.fixture
def empty():
    with ManualScheduler() as scheduler:
        yield scheduler


@pytest.fixture
def full():
    """A scheduler that has run for a while: jobs that go well, fail, are paused, suspended, due and gone."""
    with ManualScheduler() as scheduler:
        add = scheduler.add_job
        add(nothing, "interval", minutes=10, id="plain", tags=["billing"], args=[1], kwargs={"password": "hush"},
            metadata={"team": "blue"}, limits=[Limit("api", concurrency=2, rate="5/1m")])  # fmt: skip
        add(nothing, "cron", hour=3, id="nightly", tags=["reports"], timezone="Europe/Berlin")
        add(fail, "interval", minutes=1, id="failing", args=[17], tags=["billing"], dead_letter=True)
        add(fail, "interval", minutes=7, id="retried", args=[18], retry=2)
        add(nothing, "date", id="once")
        for job_id in ODD_IDS:
            add(nothing, "interval", hours=1, id=job_id, name=job_id, tags=[job_id], description=job_id)
        scheduler.advance(timedelta(minutes=30))
        scheduler.pause_job("nightly", by="ann", reason="the numbers are audited")
        scheduler.run_now("plain")
        yield scheduler


@pytest.fixture
def client():
    """Makes a client of the pages on a scheduler."""

    def client(scheduler, principal=ADMIN, root=""):
        return TestClient(pages_app(scheduler, principal, root), follow_redirects=True, raise_server_exceptions=True)

    return client
