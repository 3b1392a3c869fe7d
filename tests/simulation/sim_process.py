"""A process of the simulation: a real scheduler, whose threads are actors.

=====================  ======================================================================================
thread of the package  actor
=====================  ======================================================================================
``goscheduler``        "loop" calls ``_process_jobs`` and rests for as long as that says, or until it is woken
``-settler``           "settler" calls ``settle_reported`` when something was reported, or is to be tried again
``-lease``             "lease" calls ``renew_all`` after each pause that the leases ask for
``-<alias>_<n>``       "worker" runs one run
``-running``           "endings", while the scheduler shuts down
=====================  ======================================================================================
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from sim_kernel import Actor, Crash, Life
from sim_store import Connection, Lost
from sim_workload import LEASE

from goscheduler.executors import context
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.call import call
from goscheduler.jobstores.base import PartlySettled
from goscheduler.runs.model import Outcome, Run
from goscheduler.schedulers._cancellation import MAX_LOOK_SECONDS
from goscheduler.schedulers._patience import LONGEST_PAUSE, Patience
from goscheduler.schedulers._settle import LAST_PAUSE, LAST_TRIES
from goscheduler.schedulers._tick import hear
from goscheduler.schedulers.base import STATE_STOPPED, BaseScheduler
from goscheduler.testing.clock import START

if TYPE_CHECKING:
    from sim_world import World

POLL = 2.0
#: What a round costs beside its calls of the store, so that time passes also where it makes none.
ROUND_SECONDS = 0.0005


class NodeClock:
    """The clock of one machine: the wall clock may be wrong and be set, the monotonic one goes on."""

    def __init__(self, seconds: Callable[[], float], skew: float) -> None:
        self._seconds = seconds
        self.skew = skew

    def now(self) -> datetime:
        return START + timedelta(seconds=self._seconds() + self.skew)

    def monotonic(self) -> float:
        return self._seconds()


class Process(Life):
    """One start of a scheduler on a machine."""

    def __init__(self, world: World, node: int, number: int, clock: NodeClock) -> None:
        super().__init__(f"p{node}.{number}")
        self.world = world
        self.node = node
        self.clock = clock
        self.begun = False
        self.stopping = False
        """Whether it fires nothing any more."""
        self.reports_end = self.lease_ends = False
        """Whether the settler, and the renewal of the lease, are to end."""
        self.woken = False
        self.last_round = -1.0
        self._runs_told: tuple[dict[Any, Any], ...] = ({}, {}, {}, {})
        self.executor = SimExecutor(self)
        self.scheduler = SimScheduler(self)
        self.settler: Actor | None = None
        self.loop = world.kernel.tick(self, "loop", self._loop)

    def enter(self) -> None:
        """Put in place what the package keeps for the process as a whole."""
        context._told, context._progress, context._given_up, context._kept_back = self._runs_told

    def wake(self) -> None:
        """End the rest of the loop."""
        self.woken = True
        self.world.kernel.wake(self.loop)

    def spawn(self, name: str, body: Callable[[], object]) -> Actor:
        """Do something beside the rest."""
        if self.dead:
            raise Crash
        return self.world.kernel.spawn(self, name, body)

    def in_one_go(self) -> bool:
        return self.begun and not self.stopping and self.world.in_one_go(self)

    def _loop(self) -> float | None:
        """A round of the loop, or the start."""
        if not self.begun:
            self.scheduler.start()
            self.begun = True
        self.woken = False
        wait = None if self.stopping else self.scheduler._process_jobs()
        self.last_round = self.world.kernel.now
        if self.stopping:
            return None
        return ROUND_SECONDS if self.woken else math.inf if wait is None else max(wait, ROUND_SECONDS)

    def settle(self) -> float | None:
        """What the settling thread does when something was reported, or is to be tried again."""
        settler = self.scheduler.engine.settler
        if not settler._queue.empty() or settler._unwritten:
            settler.settle_reported()
        if self.reports_end:
            return None
        return 0.0 if not settler._queue.empty() else settler._retry_after if settler._unwritten else math.inf

    def renew(self) -> float | None:
        """What the thread does that renews the lease."""
        leases = self.scheduler.engine.leases
        if self.lease_ends:
            return None
        leases.renew_all()
        return leases._pause("default")

    def shut_down(self) -> None:
        """Stop in an orderly way."""
        self.scheduler.shutdown()
        self.world.kernel.kill(self)


class SimPatience(Patience):
    """Waits for stores in simulated time."""

    def _wait(self, alias: str, error: Exception) -> None:
        engine = self._engine
        assert engine.sleep is not None
        engine.sleep(self._outages.failed(alias, engine.clock.monotonic(), LONGEST_PAUSE))


class SimScheduler(BaseScheduler):
    """A scheduler whose threads are actors of a process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        world = process.world
        super().__init__(
            clock=process.clock, timezone="UTC", event_dispatch="sync", lease=LEASE, poll_interval=POLL,
            jobstores={"default": Connection(partial(world.ask, process), partial(world.subscribe, process))},
            executors={"default": process.executor}, logger=world.logger_of(process),
        )  # fmt: skip
        engine = self.engine
        engine.report, engine.sleep, engine.random_number = self.report, world.kernel.sleep, world.rng.random
        engine.host = process.name

    def wakeup(self) -> None:
        self._process.wake()

    def report(self, run: Run, outcome: Outcome) -> None:
        super().report(run, outcome)
        self._process.world.kernel.wake(self._process.settler)

    def _new_patience(self) -> Patience:
        return SimPatience(self.engine, None, self._hint_while_waiting)

    def _start_settling(self) -> None:
        process = self._process
        process.settler = process.world.kernel.tick(process, "settler", process.settle)

    def _start_leases(self, patience: Patience) -> None:
        leases = self.engine.leases
        for alias, store in self.engine.stores.items():
            patience.reach(alias, store, partial(leases._renew, alias, store, first=True))
        process = self._process
        process.world.kernel.tick(process, "lease", process.renew, leases._pause("default"))

    def _begin_loop(self) -> None:
        """The actor that has started the scheduler goes on with its rounds."""

    def _end_loop(self, timeout: float | None) -> None:
        process, kernel = self._process, self._process.world.kernel
        process.stopping = True
        kernel.wake(process.loop)
        while not process.loop.over:
            kernel.sleep(0.01)

    def _stop_parts(self, wait: bool, deadline: Any) -> None:
        process, kernel, settler = self._process, self._process.world.kernel, self.engine.settler
        ended: list[bool] = []

        def watch() -> None:
            while not ended:
                kernel.sleep(min(MAX_LOOK_SECONDS, self.engine.running.look()))
                hear(self.engine)

        process.spawn("endings", watch)
        self._components.stop_executors(wait, deadline)
        ended.append(True)
        process.reports_end = True
        kernel.wake(process.settler)
        while process.settler is not None and not process.settler.over:
            kernel.sleep(0.01)
        for _ in range(LAST_TRIES):
            settler.settle_reported()
            if not settler._unwritten:
                break
            kernel.sleep(LAST_PAUSE)
        settler.stop()
        self.engine.jobs.end()
        process.lease_ends = True
        self.engine.leases.stop(settler.untold())
        self._components.stop_stores()

    def forget(self) -> None:
        """Look stopped, so that nobody shuts it down when the interpreter ends."""
        self.state = STATE_STOPPED


class SimExecutor(BaseExecutor):
    """Runs each run in an actor of its own; what has no worker waits."""

    grace_seconds = 1.0

    def __init__(self, process: Process) -> None:
        self._process = process
        self._workers = process.world.plan.workers
        self._queue: list[Run] = []
        self._busy: dict[tuple[str, int], Run] = {}
        self._closed = False

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._logger = scheduler._logger

    def room(self) -> int:
        return self._workers + 1 - len(self._busy) - len(self._queue)

    def submit(self, run: Run) -> None:
        if self._process.dead:
            raise Crash
        if self._closed:
            self._put_back(run, "the executor was shut down")
            return
        self._queue.append(run)
        self._employ()

    def _employ(self) -> None:
        while self._queue and len(self._busy) < self._workers:
            run = self._queue.pop(0)
            self._busy[run.id, run.fence] = run
            self._process.spawn("worker", partial(self._work, run))

    def _work(self, run: Run) -> None:
        outcome = self._begin(run) or self._call(run)
        given_up = self._busy.pop((run.id, run.fence), None) is None
        if given_up:
            context.unmark_given_up(run)
        self._report(run, outcome)
        if not self._process.dead:
            self._employ()

    def _call(self, run: Run) -> Outcome:
        return call(run, self._host.clock)

    def cancel(self, run: Run, reason: str) -> bool:
        known = (run.id, run.fence) in self._busy
        if known:
            context.tell_to_end(run.id, reason)
        return known

    def give_up(self, run: Run) -> None:
        if self._busy.pop((run.id, run.fence), None) is not None:
            context.mark_given_up(run)
            self._process.world.given_up(run)
            self._employ()

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        self._closed = True
        while self._queue:
            self._put_back(self._queue.pop(0), "the executor was shut down")
        while wait and self._busy:
            self._process.world.kernel.sleep(0.05)


class Ear(logging.Handler):
    """Hears what a scheduler says: warnings for the time line, and errors of its own that it has survived."""

    def __init__(self, process: Process) -> None:
        super().__init__(logging.WARNING)
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        world = self._process.world
        if self._process.dead or world.kernel.stopped:
            return
        world.note(self._process, "says", record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (Lost, PartlySettled, Crash)) and not is_of_a_job(error):
            world.violate("an error of the scheduler itself", f"{type(error).__name__}: {error}")


class JobFailed(Exception):
    """What the jobs of the simulation raise."""


def is_of_a_job(error: BaseException) -> bool:
    return isinstance(error, (JobFailed, context.RunCancelled, TimeoutError))
