"""The parts of a running scheduler: its stores, executors and clock, its loop, and its identity.

The dictionaries of stores and executors are replaced, never changed, so that any thread may read them without a lock.
"""

from __future__ import annotations

import itertools
import math
import platform
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import uuid4

from goscheduler._chance import CHANCE
from goscheduler._resolver import FOREIGN, IMPORTING, NOT_LOADED_YET, MissingFunction, UnresolvedFunction
from goscheduler.clock import Clock
from goscheduler.errors import survivable
from goscheduler.event_bus import EventBus
from goscheduler.events import EventCode, JobSuspensionEvent, SchedulerEvent
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.enclosure import Enclosure
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.logs import GuardedLogger
from goscheduler.runs.model import Outcome, Run, Settlement
from goscheduler.runs.records import Retention
from goscheduler.schedulers._announce import announce_start
from goscheduler.schedulers._blackouts import Blackouts
from goscheduler.schedulers._calendars import Calendars
from goscheduler.schedulers._cancellation import RunningRuns
from goscheduler.schedulers._following import Following
from goscheduler.schedulers._health import Inspector
from goscheduler.schedulers._lease import Leases
from goscheduler.schedulers._loop_state import LoopState
from goscheduler.schedulers._outages import Outages
from goscheduler.schedulers._reconciliation import Reconciler
from goscheduler.schedulers._statistics import Statistics
from goscheduler.tasks import PROCESS_TASKS, TaskRegistry, unknown_task

#: A wall clock that moves more than this against the monotonic one has been set.
CLOCK_TOLERANCE = timedelta(seconds=5)

#: Why a job that goes by a function is suspended where only tasks are run.
NOT_REGISTERED = "it goes by a function of its own, and this scheduler runs registered tasks only"

if TYPE_CHECKING:
    import logging

    from goscheduler.executors.around import Around, Carrier
    from goscheduler.job import Job
    from goscheduler.runs.tally import Tally
    from goscheduler.schedulers._bulk import BulkActs
    from goscheduler.schedulers._inbox import Inbox
    from goscheduler.schedulers._jobs import Jobs
    from goscheduler.schedulers._only_adds import LateStores
    from goscheduler.schedulers._settle import Settler


class Engine:
    """The parts of one scheduler."""

    def __init__(self, clock: Clock, bus: EventBus, logger: GuardedLogger) -> None:
        self.clock = clock
        self.bus = bus
        self.logger = logger
        self.late_stores: LateStores | None = None
        """What opens the stores of a scheduler that only adds, at the first look; None of any other."""
        self.stores = {}
        self.executors: dict[str, BaseExecutor] = {}
        self.tasks = TaskRegistry(PROCESS_TASKS)
        """The tasks that were registered with this scheduler, and through it those of the process."""
        self.leases = Leases(self)
        self.jobs: Jobs
        """What can be done to the jobs of this scheduler; set by the scheduler, as what follows is."""
        self.bulk: BulkActs
        self.inbox: Inbox
        self.calendars = Calendars(self)
        """The calendars that jobs refer to by name."""
        self.following = Following(self)
        """The jobs that follow others."""
        self.blackouts = Blackouts(self)
        """When jobs are held back or left out."""
        self.settler: Settler
        self.stopped = threading.Event()
        """Set while the scheduler is stopped, from the end of a shutdown to the next start."""
        self.stopped.set()
        self.observing = False
        """Whether this only looks into stores: it fires nothing and has no lease."""
        self.report: Callable[[Run, Outcome], None] = _nobody_listens
        self.state: Callable[[], str] = _has_no_state
        """Tells how other processes are to see this one: "running" or "paused"."""
        self.change_state: Callable[[str], None] = _nobody_changes
        """Does what another process asks of this one: "pause", "resume" or "drain"."""
        self.wake: Callable[[], None] = _nobody_sleeps
        """Ends the rest of the loop, also of one that is paused."""
        self.sleep: Callable[[float], object] | None = _sleep
        """Waits some seconds for others; None where one thread drives all of them, and nothing comes of waiting."""
        self.poll_interval = math.inf
        """The longest rest of the loop between two rounds, in seconds."""
        self.random_number: Callable[[], float] = CHANCE.random
        """Gives random numbers from 0 to 1, for the jitter of retries."""
        self.retention = Retention()
        """How long the stores keep records of finished attempts."""
        self.host = platform.node()
        self.arounds: tuple[Around, ...] = ()
        """What encloses each attempt, from the outside in."""
        self.carrier: Carrier | None = None
        """What gives jobs and runs texts to carry, if somebody follows them from process to process."""
        self.tally: Tally | None = None
        """The counters by schedule and task, once something reads them; they go on over restarts."""
        self.registries: set[str] = set()
        """Names of the registries of schedules that this scheduler was given."""
        self.hears_ends: tuple[Callable[[Sequence[Settlement]], None], ...] = ()
        """What is told how runs ended, after that was written, on the settling thread; it must not raise."""
        self.begin_life()

    def begin_life(self) -> None:
        """Become a new owner: runs that an earlier start of this scheduler has claimed are not ours."""
        self.owner = uuid4().hex
        self._run_numbers = itertools.count(1)
        self._rounds = itertools.count()
        self._run_prefix = f"{self.owner[:16]}-"
        self.outages = Outages()
        self.loop = LoopState()
        self.running = RunningRuns(self)
        self.reconciler = Reconciler(self)
        self.statistics = Statistics(self)
        self.inspector = Inspector(self)
        self.leases.begin()
        self.blackouts.forget()
        self.chores_due_at: float | None = None
        """When the loop looks after the stores again (monotonic), None if it never did; see ``_housekeeping``."""
        self.prune_due_at = 0.0
        self.orphans_due_at = 0.0
        self.missing_executors: dict[str, set[str]] = {}
        """Alias of a shared store → the executors that its due jobs wait for and that no process has."""
        self._clocks: tuple[datetime, float] | None = None
        self._tasks_at_start = self.tasks.edition
        self._tasks_seen: dict[str, tuple[object, ...]] = {}
        self.new_executors: dict[str, set[str]] = {}
        """Store → executors that came while it did not answer: its suspended jobs that name them can be released."""
        self.revoked: set[tuple[str, int]] = set()
        """Ids and fences of runs of ours that are not to be started any more, because their job was removed."""
        self.last_room: dict[str, int] = {}
        """Executor alias → its room when it was asked last."""
        self._lock = threading.Lock()

    def new_run_id(self) -> str:
        """Return an id that no other run of any process has."""
        return f"{self._run_prefix}{next(self._run_numbers):x}"

    @property
    def stores(self) -> dict[str, BaseJobStore]:
        """The stores; those of a scheduler that only adds are opened by the first look at them."""
        if self.late_stores is not None:
            self.late_stores.open()
        return self.known_stores

    @stores.setter
    def stores(self, stores: dict[str, BaseJobStore]) -> None:
        self.known_stores = stores
        """The stores, also those that are not open yet."""

    def enclose_by(self, enclosures: Sequence[Enclosure]) -> None:
        """Put what users gave around each run, inside of what others have put there, and nothing else of theirs."""
        others = [around for around in self.arounds if not isinstance(around, Enclosure)]
        self.arounds = (*others, *enclosures)

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
            self.logger.warning(
                "The clock was set ahead by %s, or the machine slept; late jobs follow their misfire rules", jump
            )

    def obstacle(self, job: Job, executors: Collection[str] = ()) -> str | None:
        """Return why a job cannot be run here at this moment, or None.

        A job of a task is given the function that is registered now. ``executors`` count as if they were here: they
        were a moment ago.
        """
        if job.options.executor not in self.executors and job.options.executor not in executors:
            return f'there is no executor named "{job.executor}"'
        names = getattr(job.trigger, "calendar_names", ())  # what a pickle had may be no trigger of ours
        if names and self.calendars.awaits(names):
            return NOT_LOADED_YET
        if job.task is None:
            if type(job.func) is MissingFunction or type(job.func) is UnresolvedFunction:
                return self._obstacle_to_function(job)
            return NOT_REGISTERED if self.tasks.registered_only else None
        func = self.tasks.find(job.task)
        if func is None:
            return unknown_task(job.task)
        job.func = func
        return None

    def _obstacle_to_function(self, job: Job) -> str | None:
        """Return why a job has no function; give it one that has been imported since the job was read."""
        func: Callable[..., Any] = job.func
        if isinstance(func, UnresolvedFunction):
            func = self.tasks.resolver.find(func.ref)
        if isinstance(func, UnresolvedFunction):
            self.tasks.resolver.load(func.ref)
            return NOT_LOADED_YET
        if isinstance(func, MissingFunction):
            return func.reason
        job.func = func
        return None

    def release_suspended(self, alias: str, store: BaseJobStore, fits: Callable[[Job, str], bool]) -> None:
        """Let the suspended jobs of a store fire again for which ``fits(job, reason)``."""
        for job_id, reason in store.suspensions().items():
            job = store.lookup_job(job_id)
            if job is not None and fits(job, reason) and store.release(job_id):
                self.logger.info('Job "%s" (%s) is no longer suspended', job.name, job_id, extra={"job_id": job_id})
                self.emit([JobSuspensionEvent(EventCode.JOB_RELEASED, job_id, alias, reason)])

    def release_known_tasks(self, alias: str, store: BaseJobStore) -> None:
        """Let the jobs of a store fire again whose function or executor has come since the store last answered."""
        # Read before looking and noted after it: neither a task that comes meanwhile nor a store that raises is missed.
        edition = self.tasks.edition
        if self._tasks_seen.get(alias, self._tasks_at_start) != edition:
            self.release_suspended(alias, store, self._is_known_by_now)
            self._tasks_seen[alias] = edition
        if alias in self.new_executors:
            executors = self.new_executors[alias]
            self.release_suspended(alias, store, lambda job, _: job.executor in executors)
            del self.new_executors[alias]

    def _is_known_by_now(self, job: Job, reason: str) -> bool:
        temporary = reason.startswith((FOREIGN, IMPORTING)) if job.task is None else reason == unknown_task(job.task)
        return temporary and self.obstacle(job) in (None, NOT_LOADED_YET)

    def is_loadable_by_now(self, job: Job, reason: str) -> bool:
        """Tell whether a job that was suspended because of a slow import can be tried here."""
        return reason.startswith(IMPORTING) and self.obstacle(job) in (None, NOT_LOADED_YET)

    def may_start(self, run: Run) -> bool:
        """Tell whether a run that was handed over may still be started; if so, that is its start."""
        if not self.running.begin(run):
            return False
        if self.bus.hears_starts:
            announce_start(self, run)
        return True

    def logger_of(self, executor: str) -> logging.Logger:
        """Return what the runs of an executor are logged with."""
        found = self.executors.get(executor)
        return cast("logging.Logger", self.logger) if found is None else found._logger

    def room(self) -> dict[str, int]:
        """Return executor alias → how many runs it can take now.

        Each time another one comes first: a store that cannot serve all of them in one round begins with that.
        """
        executors = [] if self.observing else list(self.executors.items())
        first = next(self._rounds) % max(1, len(executors))
        ordered = executors[first:] + executors[:first]
        self.last_room = {alias: self._room_of(alias, executor) for alias, executor in ordered}
        return self.last_room

    def _room_of(self, alias: str, executor: BaseExecutor) -> int:
        try:
            return int(executor.room())
        except BaseException as error:
            if not survivable(error):
                raise
            self.logger.exception('Executor "%s" could not tell its capacity; it gets no runs in this round', alias)
            return 0

    def emit(self, events: Sequence[SchedulerEvent]) -> None:
        """Post events, if there are any."""
        if events:
            self.bus.post(events)

    def emit_scheduler_event(self, code: EventCode, alias: str | None = None) -> None:
        """Post an event about the scheduler itself."""
        if self.bus.wants(code):
            self.bus.post([SchedulerEvent(code, alias)])


_Component = TypeVar("_Component")


def _replaced(
    components: dict[str, _Component], alias: str, component: _Component | None
) -> dict[str, _Component]:
    others = {key: value for key, value in components.items() if key != alias}
    return others if component is None else {**others, alias: component}


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


def _has_no_state() -> str:
    return ""


def _nobody_changes(action: str) -> None:
    """A scheduler that was not started cannot be asked."""


def _nobody_sleeps() -> None:
    """A scheduler that was not started does not rest."""


def _nobody_listens(run: Run, outcome: Outcome) -> None:
    raise AssertionError(f"run {run.id} ended before its scheduler was started")
