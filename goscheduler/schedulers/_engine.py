"""What a scheduler works with while it runs: its stores, its executors, its clock, and who it is.

The dictionaries of stores and executors are replaced, never changed, so that any thread may read them without a lock.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import uuid4

from goscheduler.bus import EventBus
from goscheduler.clock import Clock
from goscheduler.errors import survivable
from goscheduler.events import EventCode, SchedulerEvent
from goscheduler.executors.base import BaseExecutor
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.logs import GuardedLogger
from goscheduler.runs.model import Outcome, Run
from goscheduler.schedulers._outages import Outages

#: A wall clock that moves more than this against the monotonic one has been set.
CLOCK_TOLERANCE = timedelta(seconds=5)


class Engine:
    """The parts of one scheduler."""

    def __init__(self, clock: Clock, bus: EventBus, logger: GuardedLogger) -> None:
        self.clock = clock
        self.bus = bus
        self.logger = logger
        self.stores: dict[str, BaseJobStore] = {}
        self.executors: dict[str, BaseExecutor] = {}
        self.outages = Outages()
        self.report: Callable[[Run, Outcome], None] = _nobody_listens
        self.draw: Callable[[], float] = random.random
        """Gives random numbers from 0 to 1, for the jitter of retries."""
        self.hungry = False
        """Whether work was left for want of room; the next end of a run then calls for another round."""
        self.revoked: set[str] = set()
        """Ids of runs that are not to be started any more, because their job was removed."""
        self.idle_seconds = math.inf
        """How long, as of the last round, nothing is due."""
        self.sleeping_until = 0.0
        """Timestamp of the moment when the loop looks for work by itself."""
        self.begin_life()

    def begin_life(self) -> None:
        """Become somebody new: what an earlier start of this scheduler has claimed is not ours."""
        self.owner = uuid4().hex
        self._run_numbers = itertools.count(1)
        self._run_prefix = f"{self.owner[:16]}-"
        self.outages = Outages()
        self._clocks: tuple[datetime, float] | None = None
        self.revoked = set()
        self.hungry = False
        self._lock = threading.Lock()

    def new_run_id(self) -> str:
        """Return an id that no other run of any process has."""
        return f"{self._run_prefix}{next(self._run_numbers):x}"

    def put_store(self, alias: str, store: BaseJobStore | None) -> BaseJobStore | None:
        """Set the store ``alias``, or take it out; return the one that was there."""
        with self._lock:
            before = self.stores.get(alias)
            self.stores = _replaced(self.stores, alias, store)
            return before

    def put_executor(self, alias: str, executor: BaseExecutor | None) -> BaseExecutor | None:
        """Set the executor ``alias``, or take it out; return the one that was there."""
        with self._lock:
            before = self.executors.get(alias)
            self.executors = _replaced(self.executors, alias, executor)
            return before

    def watch_clock(self) -> None:
        """Say so when the wall clock has been set since the last round."""
        before, self._clocks = self._clocks, (self.clock.now(), self.clock.monotonic())
        if before is None:
            return
        passed = timedelta(seconds=self._clocks[1] - before[1])
        jump = self._clocks[0] - before[0] - passed
        if jump < -CLOCK_TOLERANCE:
            self.logger.warning("The clock was set back by %s; jobs keep their times, and wait that much longer", -jump)
        elif jump > CLOCK_TOLERANCE:
            self.logger.warning("The clock was set ahead by %s, or the machine slept; late jobs meet their rules", jump)

    def has_executor(self, alias: str) -> bool:
        """Tell whether there is an executor by this alias at this moment."""
        return alias in self.executors

    def may_start(self, run: Run) -> bool:
        """Tell whether a run that was handed over may still be started."""
        return not self.revoked or run.id not in self.revoked

    def room(self) -> dict[str, int]:
        """Return executor alias → how many runs it can take now."""
        return {alias: self._room_of(alias, executor) for alias, executor in self.executors.items()}

    def _room_of(self, alias: str, executor: BaseExecutor) -> int:
        try:
            return int(executor.room())
        except BaseException as error:
            if not survivable(error):
                raise
            self.logger.exception('Executor "%s" cannot tell its room; it gets nothing for now', alias)
            return 0

    def tell(self, events: Sequence[SchedulerEvent]) -> None:
        """Post events, if there are any."""
        if events:
            self.bus.post(events)

    def tell_of_scheduler(self, code: EventCode, alias: str | None = None) -> None:
        """Post an event about the scheduler itself."""
        if self.bus.wants(code):
            self.bus.post([SchedulerEvent(code, alias)])


_Component = TypeVar("_Component")


def _replaced(
    components: dict[str, _Component], alias: str, component: _Component | None
) -> dict[str, _Component]:
    others = {key: value for key, value in components.items() if key != alias}
    return others if component is None else {**others, alias: component}


def _nobody_listens(run: Run, outcome: Outcome) -> None:
    raise AssertionError(f"run {run.id} ended before its scheduler was started")
