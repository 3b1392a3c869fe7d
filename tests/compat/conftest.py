"""A scheduler whose time stands still, and functions that its jobs run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from goscheduler.testing import EventRecorder, ManualScheduler


@pytest.fixture
def scheduler() -> Iterator[ManualScheduler]:
    """A stopped scheduler; the test starts it if it wants to."""
    scheduler = ManualScheduler()
    yield scheduler
    if scheduler.running:
        scheduler.shutdown()


@pytest.fixture
def running(scheduler: ManualScheduler) -> ManualScheduler:
    scheduler.start()
    return scheduler


@pytest.fixture
def recorder(scheduler: ManualScheduler) -> EventRecorder:
    return EventRecorder(scheduler)
