"""The plug-in of pytest: fixtures for schedulers whose time a test moves. Installing the package is enough.

pytest imports this module at its start, so it imports nothing else of the package before a test asks for a fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from goscheduler.testing import EventRecorder, ManualScheduler

MARKER = (
    "goscheduler(start=None, **options): where the clock of manual_scheduler begins, a datetime or text, and the "
    "options of that scheduler"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    _keep_the_clock_from_freezegun()


@pytest.fixture
def manual_scheduler(request: pytest.FixtureRequest) -> Iterator[ManualScheduler]:
    """A scheduler without threads that has been started: ``manual_scheduler.advance("3d")`` runs what is due."""
    from goscheduler.testing import ManualScheduler

    marker = request.node.get_closest_marker("goscheduler")
    options = {} if marker is None else dict(marker.kwargs)
    if marker is not None and marker.args:
        raise pytest.UsageError("the marker goscheduler takes names: @pytest.mark.goscheduler(start='2026-03-29')")
    start = options.pop("start", None)
    with ManualScheduler(**options, **({} if start is None else {"clock": _clock_at(start)})) as scheduler:
        yield scheduler


@pytest.fixture
def event_recorder(request: pytest.FixtureRequest) -> EventRecorder:
    """A listener that keeps events: those of ``manual_scheduler`` if the test has that, else add it to a scheduler."""
    from goscheduler.testing import EventRecorder

    uses = "manual_scheduler" in request.fixturenames
    return EventRecorder(request.getfixturevalue("manual_scheduler") if uses else None)


@pytest.fixture
def run_jobs() -> Callable[..., dict[str, Any]]:
    """Runs what was added to a scheduler, once, on this thread: ``run_jobs(scheduler)`` returns results by job id.

    The scheduler may be of any kind, and need not have been started. No time has to pass, and paused jobs are left
    out. What a job raises comes out; there are no retries. Jobs that these jobs add are run as well. ``run_jobs(
    scheduler, "mail")`` runs one job, also again.
    """
    from goscheduler.testing._running import JobRunner

    return JobRunner()


def _clock_at(start: Any) -> Any:
    from datetime import timezone

    from goscheduler.testing import ManualClock
    from goscheduler.times import convert_to_datetime

    moment = convert_to_datetime(start, timezone.utc, "start")
    return ManualClock() if moment is None else ManualClock(moment)


def _keep_the_clock_from_freezegun() -> None:
    """Have the clock of the package left alone: if monotonic time stands still, a wait never ends, or takes no time."""
    config = sys.modules.get("freezegun.config")
    if config is not None:
        _leave_the_clock_alone(config)
    elif not any(isinstance(finder, _FreezegunFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _FreezegunFinder())


def _leave_the_clock_alone(config: ModuleType) -> None:
    config.configure(extend_ignore_list=["goscheduler.clock"])


class _FreezegunFinder:
    """Waits until a test imports freezegun, which takes longer to import than most users should wait for it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "freezegun.config":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_configure(module: ModuleType) -> None:
                load(module)
                _leave_the_clock_alone(module)

            spec.loader.exec_module = load_and_configure  # type: ignore[method-assign]
        return spec
