"""Schedulers that are shut down after the test, and jobs that are let go."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import behaviour_doubles  # noqa: E402
import retry_doubles  # noqa: E402
from behaviour_doubles import LOCAL_STORES, Gate, within  # noqa: E402

from goscheduler.schedulers.background import BackgroundScheduler  # noqa: E402
from goscheduler.testing import ManualScheduler  # noqa: E402


@pytest.fixture
def gates():
    """A maker of jobs that wait to be let go; at the end all of them are."""
    made = []

    def make():
        made.append(Gate())
        return made[-1]

    yield make
    for gate in made:
        gate.release()


@pytest.fixture
def gate(gates):
    return gates()


@pytest.fixture
def schedulers():
    """A maker of schedulers; at the end all that run are shut down."""
    made = []

    def make(kind=BackgroundScheduler, **options):
        made.append(kind(**{"timezone": "UTC", **options}))
        return made[-1]

    yield make
    for scheduler in made:
        if scheduler.running:
            within(60, partial(scheduler.shutdown, wait=False, timeout=1))


@pytest.fixture
def background(schedulers):
    """A BackgroundScheduler that is not started yet."""
    return schedulers()


@pytest.fixture
def jobcalls():
    """The calls of ``behaviour_doubles.note``."""
    behaviour_doubles.calls.clear()
    return behaviour_doubles.calls


@pytest.fixture(autouse=True)
def _nothing_played():
    """Let ``retry_doubles.play`` begin anew in every test."""
    retry_doubles.played.clear()


@pytest.fixture(params=LOCAL_STORES, ids=["memory", "simple"])
def local_store(request):
    """The class of a store of one process: the one in memory, and one with only the simple methods of the port."""
    return request.param


@pytest.fixture
def scheduler(local_store):
    """A started scheduler on a store of either kind. Many files have one of their own by this name."""
    with ManualScheduler(jobstores={"default": local_store()}) as scheduler:
        yield scheduler
