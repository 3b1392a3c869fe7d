"""A scheduler with one good job, which must go on firing whatever else is tried."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.testing import EventRecorder, ManualScheduler


def good() -> str:
    return "good"


class Bystander:
    """The good job of a scheduler, and a way to see that it still fires."""

    def __init__(self, scheduler: ManualScheduler) -> None:
        self._scheduler = scheduler
        self._recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
        scheduler.add_job(good, "interval", minutes=1, id="bystander")

    def assert_alone_and_firing(self) -> None:
        """Fail unless the good job is the only one and fires on time."""
        assert [job.id for job in self._scheduler.get_jobs()] == ["bystander"]
        self.assert_firing()

    def assert_firing(self) -> None:
        """Fail unless the good job fires on time."""
        before = len(self._recorder.of(EVENT_JOB_EXECUTED, "bystander"))
        self._scheduler.advance("3m")
        assert len(self._recorder.of(EVENT_JOB_EXECUTED, "bystander")) == before + 3


@pytest.fixture(params=["stopped", "running"])
def scheduler(request: pytest.FixtureRequest) -> Iterator[ManualScheduler]:
    """A scheduler before its start, and one that runs: both must refuse the same."""
    scheduler = ManualScheduler()
    if request.param == "running":
        scheduler.start()
    yield scheduler
    if scheduler.running:
        scheduler.shutdown()


@pytest.fixture
def bystander(scheduler: ManualScheduler) -> Bystander:
    return Bystander(scheduler)
