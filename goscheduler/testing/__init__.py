"""Tools for testing jobs, triggers and stores without waiting.

- :class:`ManualScheduler` fires when the test says so: ``scheduler.advance("3d")``
- :class:`ManualClock` is the clock that it goes by
- :class:`EventRecorder` keeps the events of any scheduler and waits for one without sleeping
- :class:`StoreContract` (in ``goscheduler.testing.contract``) is the suite that a job store has to pass
- :class:`StoreMachine` (in ``goscheduler.testing.model``) drives a job store with random steps, beside a model

Nothing in the package itself imports this.
"""

from goscheduler.testing.clock import ManualClock
from goscheduler.testing.recorder import EventRecorder
from goscheduler.testing.scheduler import ManualScheduler

__all__ = ["EventRecorder", "ManualClock", "ManualScheduler"]
