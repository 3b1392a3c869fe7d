"""A scheduler without threads, whose time a test moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from goscheduler.config import SchedulerConfig
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.debug import DebugExecutor
from goscheduler.schedulers.base import STATE_RUNNING, BaseScheduler
from goscheduler.testing.clock import ManualClock
from goscheduler.times import parse_duration

if TYPE_CHECKING:
    from goscheduler.schedulers._patience import Patience

#: More rounds than this at one moment mean that something is due again and again without time passing.
MAX_ROUNDS = 100_000


class ManualScheduler(BaseScheduler):
    """Fires when told, on the caller's thread, and tells listeners at once.

    ``with ManualScheduler() as scheduler:`` starts and shuts it down. Time zones default to UTC.
    """

    def __init__(self, gconfig: Mapping[str, Any] | None = None, **options: Any) -> None:
        defaults = {"clock": ManualClock(), "timezone": "UTC", "event_dispatch": "sync"}
        super().__init__(gconfig, **{**defaults, **options})

    def _apply(self, config: SchedulerConfig) -> None:
        super()._apply(config)
        if not isinstance(self.clock, ManualClock):
            raise TypeError(f"a ManualScheduler needs a ManualClock, got {type(self.clock).__name__} instead")
        self.engine.sleep = None  # who else uses the store may be driven by the same thread

    _woken = False

    def run_due(self) -> int:
        """Run everything that is due at the present moment, and return how many rounds that took."""
        for rounds in range(MAX_ROUNDS):
            if self.engine.leases.seconds_until_due() <= 0:
                self.engine.leases.renew_all()
            self._woken = False
            wait = self._process_jobs()
            if self.task_registry.resolver.wait_for_imports():
                continue
            settled = self.engine.settler.settle_reported()
            if wait is None or (wait > 0 and not self._woken and not (self.engine.loop.wants_capacity and settled)):
                return rounds + 1
        raise RuntimeError("jobs keep coming due although no time passes")

    def advance(self, duration: timedelta | float | str) -> None:
        """Let time pass, running every job at its time: ``advance("3d")``, ``advance(90)``."""
        self.advance_to(self.clock.now() + parse_duration(duration))

    def advance_to(self, moment: datetime) -> None:
        """Let time pass until ``moment``, running every job at its time."""
        self.run_due()
        while (next_stop := self._next_due()) is not None and self.clock.now() < next_stop <= moment:
            self._move_to(next_stop)
            self.run_due()
        self._move_to(moment)
        self.run_due()

    def __enter__(self) -> ManualScheduler:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.running:
            self.shutdown()

    def wakeup(self) -> None:
        """Have :meth:`run_due`, if it is at work, look once more."""
        self._woken = True

    def _next_due(self) -> datetime | None:
        """Return the next moment, as of the last round, at which something is due."""
        idle = min(self.engine.loop.seconds_until_due, self.engine.leases.seconds_until_due())
        return None if self.state != STATE_RUNNING or math.isinf(idle) else self.clock.now() + timedelta(seconds=idle)

    def _move_to(self, moment: datetime) -> None:
        clock = self.clock
        assert isinstance(clock, ManualClock)
        clock.advance(max(timedelta(0), moment - clock.now()))

    def _create_default_executor(self) -> BaseExecutor:
        return DebugExecutor()

    def _start_settling(self) -> None:
        """Nothing to start: :meth:`run_due` settles."""

    def _start_leases(self, patience: Patience) -> None:
        """Take the leases; :meth:`run_due` renews them."""
        self.engine.leases.renew_all()

    def _begin_loop(self) -> None:
        """Nothing to begin: the test is the loop."""

    def _end_loop(self, timeout: float | None) -> None:
        """Nothing to end."""
