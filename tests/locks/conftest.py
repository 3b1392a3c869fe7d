"""An empty place for locks on each kind of server, and a process that holds or wants them."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from lock_places import KINDS, Place

from goscheduler.locks import _acquiring, lock
from goscheduler.locks._find import close_connections
from goscheduler.locks.memory import MemoryLocks


@pytest.fixture(autouse=True)
def _no_sweeps_by_chance(monkeypatch):
    monkeypatch.setattr(_acquiring, "SWEEPS", 0.0)


@pytest.fixture
def place_of(url_of):
    """Return an empty place of some kind."""

    def place(kind):
        where = MemoryLocks() if kind == "memory" else url_of(kind)
        with lock(where, "first"):  # makes the connection and the table, which is not to count as time of a short lock
            return Place(kind, where)

    yield place
    for thread in threading.enumerate():
        if thread.name == "goscheduler-locks":
            thread.join(60)  # or it would give a connection back to a pool that nobody closes any more
    close_connections()


@pytest.fixture
def place(request, place_of):
    return place_of(request.param)


def pytest_collection_modifyitems(items):
    """Let the tests on some kinds of servers run beside those on others, but not beside each other."""
    for item in items:
        kind = next((kind for kind in KINDS if f"[{kind}" in item.name), None)
        if item.path.parent == Path(__file__).parent and kind is not None:
            item.add_marker(pytest.mark.xdist_group(f"locks-{KINDS.index(kind) % 2}"))
