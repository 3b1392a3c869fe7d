"""Tools for testing jobs, triggers and stores without waiting.

- :class:`ManualScheduler` fires when the test says so: ``scheduler.advance("3d")``
- :class:`ManualClock` is the clock that it goes by
- :class:`EventRecorder` keeps the events of any scheduler and waits for one without sleeping
- :class:`StoreContract` (in ``goscheduler.testing.contract``) is the suite that a job store has to pass
- :class:`StoreMachine` (in ``goscheduler.testing.model``) drives a job store with random steps, beside a model
- ``goscheduler.testing.plugin`` is the plug-in of pytest, which brings fixtures for the first three

Nothing in the package itself imports this. The names are loaded when they are first used: pytest loads the plug-in at
its start, also in projects whose tests need none of this.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goscheduler.testing.clock import ManualClock
    from goscheduler.testing.recorder import EventRecorder
    from goscheduler.testing.scheduler import ManualScheduler

__all__ = ["EventRecorder", "ManualClock", "ManualScheduler"]

_HOMES = {"EventRecorder": "recorder", "ManualClock": "clock", "ManualScheduler": "scheduler"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
