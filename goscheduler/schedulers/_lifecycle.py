"""The life of a scheduler: configured, started, paused, resumed, shut down, started again, forked.

A scheduler class supplies only how to wait and how to be woken: ``wakeup``, which is enough for one that has a timer or
an event loop, and ``_begin_loop`` and ``_end_loop`` for one that has a loop of its own. The lock here guards the state;
no store, executor or listener of a running scheduler is called under it.
"""

from __future__ import annotations

import inspect
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from goscheduler._program import PROGRAM
from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import (
    InvalidArgument,
    OnlyAdds,
    SchedulerAlreadyRunningError,
    SchedulerNotRunningError,
    survivable,
)
from goscheduler.event_bus import EventBus
from goscheduler.events import EventCode, SchedulerEvent
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.context import owner_of_current_run
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.logs import GuardedLogger
from goscheduler.options import check_timeout
from goscheduler.runs.model import Outcome, Run
from goscheduler.schedulers import _process
from goscheduler.schedulers._bulk import BulkActs
from goscheduler.schedulers._components import Components
from goscheduler.schedulers._engine import Engine
from goscheduler.schedulers._inbox import Inbox
from goscheduler.schedulers._jobs import Jobs
from goscheduler.schedulers._only_adds import LateStores, refuse_to_add_in_vain
from goscheduler.schedulers._patience import GivenUp, Patience
from goscheduler.schedulers._runs import Runs
from goscheduler.schedulers._settings import (
    LOGGER,
    STATE_PAUSED,
    STATE_RUNNING,
    STATE_STOPPED,
    SchedulerSettings,
)
from goscheduler.schedulers._settle import Settler
from goscheduler.schedulers._tick import hear, process_due

#: Seconds that outcomes and events are given at the end, even when jobs have used up the limit of a shutdown. Only a
#: store or a listener that hangs needs them.
LAST_WORDS = 0.5

#: Seconds after which a round is tried again that was called for while another one went on.
ROUND_GOES_ON = 0.05

_GUARDED = GuardedLogger(LOGGER)


class SchedulerLifecycle(SchedulerSettings, ABC):
    """Base class of schedulers: configuration, start, pause, shutdown."""

    turned_by = ""
    """What the program has to call for jobs to run, beside :meth:`start`; empty if nothing."""

    def __init__(self, gconfig: Mapping[str, Any] | None = None, **options: Any) -> None:
        self.state, self._starting = STATE_STOPPED, None
        self._lock = threading.RLock()
        self._turn_lock = threading.Lock()
        self.engine = Engine(SYSTEM_CLOCK, EventBus(_GUARDED, self._overridden_dispatch()), _GUARDED)
        """The parts of this scheduler, for the fronts and surfaces of this package. No API: it may change any time."""
        self._components = Components(self.engine, self)
        self.engine.jobs = Jobs(self.engine, self._wake_unless_paused)
        self._runs = Runs(self.engine, self._wake_unless_paused)
        self.engine.bulk = BulkActs(self.engine, lambda: self.timezone)
        self.engine.inbox = Inbox(self.engine, self)
        self.engine.settler = Settler(self.engine, self._wake_unless_paused)
        self.engine.report, self.engine.wake = self.engine.settler.report, self._wake_if_started
        self.engine.state, self.engine.change_state = self._told_state, self._obey
        self.task_registry = self.engine.tasks
        """Where jobs of this scheduler find their functions."""
        self.task_registry.when_changed = self.task_registry.resolver.when_loaded = self._wake_unless_paused
        PROGRAM.made_scheduler(inspect.currentframe())
        self._additions: list[Patience] = []
        """Stores that are being added while the scheduler runs."""
        self.configure({} if gconfig is None else gconfig, **options)
        _process.remember(self)

    @property
    def running(self) -> bool:
        """True from :meth:`start` to :meth:`shutdown`, also while paused."""
        return self.state != STATE_STOPPED

    def start(self, paused: bool = False, *, only_adds: bool = False) -> None:
        """Start executors and stores, add the pending jobs, and begin to fire, unless ``paused``.

        With ``only_adds`` this process adds and changes jobs that others run. It never fires, has no thread and no
        lease, and opens the stores at the first call that needs them, in a forked child for itself.

        A store whose server cannot be reached is waited for, for ``start_timeout`` seconds or, without one, for as long
        as it takes; :meth:`shutdown` ends that, and then this returns as if the scheduler had been started before. If
        anything fails the scheduler is stopped again as if nothing had happened, and the error is raised.

        :raises SchedulerAlreadyRunningError: if it runs, or is being started
        :raises StoreUnavailable: if a store could not be reached within ``start_timeout``
        """
        if only_adds:
            self._start_to_add(paused)
            return
        _process.refuse_unfit_process()
        patience = self._begin_start()
        try:
            self._start_parts(patience)
            with self._lock:
                self._prepare_loop()
                self._turn_lock = threading.Lock()  # a round of an earlier start may hang
                self.engine.stopped.clear()
                self._starting, self.state = None, STATE_PAUSED if paused else STATE_RUNNING
        except GivenUp:
            self._logger.info("Scheduler was shut down before it had been started")
            return
        finally:
            self._end_start(patience)
        patience.tell_of_recovery()
        self._logger.info("Scheduler started")
        self.engine.emit_scheduler_event(EventCode.SCHEDULER_STARTED)
        self._begin_loop()

    def _start_to_add(self, paused: bool) -> None:
        if paused:
            raise InvalidArgument("a scheduler that only adds jobs never fires; leave out paused=True", field="paused")
        refuse_to_add_in_vain(self.engine.stores)
        patience = self._begin_start()
        with self._lock:
            LateStores(self.engine, self._components, self._little_patience).begin()
            self.engine.stopped.clear()
            self._starting, self.state = None, STATE_PAUSED
        self._end_start(patience)
        self._logger.info("Scheduler started; it only adds jobs, and opens its job stores at the first call")

    def _begin_start(self) -> Patience:
        """Keep other starts off, when a shutdown that is going on has ended."""
        while True:
            with self._lock:
                if self.state != STATE_STOPPED or self._starting is not None:
                    raise SchedulerAlreadyRunningError
                if self.engine.stopped.is_set():
                    self._starting = self._new_patience()
                    return self._starting
            self._await_shutdown()

    def _end_start(self, patience: Patience) -> None:
        with self._lock:
            if self._starting is patience:
                self._starting = None  # it has failed
            else:
                patience.succeeded = True
        patience.end()

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> Any:
        """Stop firing, and with ``wait`` let what has been started end, for at most ``timeout`` seconds.

        Events are delivered before it returns. Called from inside a job or a listener it returns at once, and the rest
        happens when that job or listener has ended. A start that is going on is given up. After a start with
        ``only_adds`` it adds the jobs that still wait, and raises what keeps them out when the scheduler has stopped.

        :raises SchedulerNotRunningError: if it is stopped
        """
        check_timeout(timeout)
        with self._lock:
            starting = self._starting
            if starting is None:
                if self.state == STATE_STOPPED:
                    raise SchedulerNotRunningError
                self.state = STATE_STOPPED
                self.engine.jobs.end()
        if starting is not None:
            return self._shut_down(partial(self._give_up, starting, wait, timeout))
        for addition in list(self._additions):
            addition.give_up()
        return self._shut_down(partial(self._finish_shutdown, wait, timeout))

    def _shut_down(self, finish: Callable[[], None]) -> Any:
        if self._is_called_from_inside():
            threading.Thread(target=finish, name="goscheduler-shutdown").start()
        else:
            finish()

    def _give_up(self, starting: Patience, wait: bool, timeout: float | None) -> None:
        """End a start; one that was too far advanced for that is followed by a shutdown."""
        deadline = Deadline(SYSTEM_CLOCK, timeout)
        starting.give_up()
        starting.wait_for_end(timeout)
        if starting.succeeded:
            with suppress(SchedulerNotRunningError):
                SchedulerLifecycle.shutdown(self, wait, deadline.left())

    def pause(self) -> None:
        """Stop firing; what runs goes on. What comes due meanwhile meets the misfire rule on :meth:`resume`."""
        self._change_state(STATE_RUNNING, STATE_PAUSED, EventCode.SCHEDULER_PAUSED, "Paused scheduler job processing")

    def resume(self) -> None:
        """Fire again.

        :raises OnlyAdds: if it was started with ``only_adds``
        """
        if self.engine.late_stores is not None:
            raise OnlyAdds
        self._change_state(STATE_PAUSED, STATE_RUNNING, EventCode.SCHEDULER_RESUMED, "Resumed scheduler job processing")
        self.wakeup()

    @abstractmethod
    def wakeup(self) -> None:
        """Ask for a round now. Callable from any thread."""

    def may_start(self, run: Run) -> bool:
        """Tell an executor whether a run that it was given may still be started."""
        return self.engine.may_start(run)

    def report(self, run: Run, outcome: Outcome) -> None:
        """Take the outcome of a run from an executor."""
        self.engine.settler.report(run, outcome)

    def ensure_default_executor(self) -> None:
        """Add the executor that is used when none by the alias "default" was configured."""
        if "default" not in self.engine.executors:
            self._components.add_executor("default", self._create_default_executor())

    def _create_default_executor(self) -> BaseExecutor:
        """Return the executor that is used when none by the alias "default" was configured."""
        return ThreadPoolExecutor()

    def _create_default_jobstore(self) -> BaseJobStore:
        """Return the store that is used when none by the alias "default" was configured."""
        return MemoryJobStore()

    def _create_lock(self) -> Any:
        """Return a lock that fits how this scheduler waits."""
        return threading.RLock()

    def _dispatch_event(self, event: SchedulerEvent) -> None:
        """Call the listeners with one event. Every event goes through here, on the thread that delivers."""
        self.engine.bus.deliver(event)

    def _overridden_dispatch(self) -> Callable[[SchedulerEvent], None] | None:
        """Return ``_dispatch_event`` where a subclass has its own; else the bus needs no detour."""
        overridden = type(self)._dispatch_event is not SchedulerLifecycle._dispatch_event
        return self._dispatch_event if overridden else None

    def _process_jobs(self) -> float | None:
        """Fire what is due. Return the seconds until the next round, None for "until woken".

        A round that is called for while another one goes on, which may be on another thread, has to wait its turn.
        """
        turn = self._turn_lock
        if not turn.acquire(blocking=False):
            return ROUND_GOES_ON
        try:
            if self.state == STATE_STOPPED:
                return None
            if self.state != STATE_RUNNING:
                return self._wait_while_paused()
            return process_due(self.engine, self.jobstore_retry_interval)
        except BaseException as error:
            if not survivable(error):
                raise
            self._logger.exception("A round of the scheduler failed; trying again in a second")
            return 1.0
        finally:
            turn.release()

    def _wait_while_paused(self) -> float | None:
        """Have runs that are to end do so also while nothing is fired."""
        engine = self.engine
        engine.loop.rest()  # first, so that a run that starts meanwhile is not overlooked
        wait = min(engine.leases.look(), hear(engine), engine.running.look())
        engine.loop.sleeping_until = engine.clock.now().timestamp() + wait
        return None if math.isinf(wait) else wait

    def _prepare_loop(self) -> None:
        """Get ready for :meth:`_begin_loop`; called while the state is about to change."""

    def _begin_loop(self) -> None:
        """Begin to call :meth:`_process_jobs`, waiting in between for as long as it says or until woken."""
        self._wake_unless_paused()

    def _end_loop(self, timeout: float | None) -> None:
        """Stop calling :meth:`_process_jobs`, and return when the last call has ended or ``timeout`` is over."""

    def _start_parts(self, patience: Patience) -> None:
        self.engine.begin_life()
        self.ensure_default_executor()
        if "default" not in self.engine.stores:
            self._components.add_store("default", self._create_default_jobstore(), patience)
        self._components.start(patience)
        try:
            self._start_settling()
            self.engine.jobs.begin(patience)
            self.engine.jobs.carry_out_deferred(patience)
            self.engine.jobs.release_all_suspended(patience)
            self._start_leases(patience)  # last: what was waited for before would outlast them
        except BaseException:
            self._stop_parts(wait=False, deadline=Deadline(self.clock, None))
            raise

    def _start_settling(self) -> None:
        self.engine.settler.start()

    def _start_leases(self, patience: Patience) -> None:
        if not self.engine.observing:
            self.engine.leases.start(patience)

    def _add_store(self, alias: str, store: BaseJobStore) -> None:
        """Add a store, and let it be of use if the scheduler runs."""
        patience = self._new_patience()
        self._additions.append(patience)
        try:
            self._components.add_store(alias, store, patience)
            if self.running:
                self._lease_or_remove(alias, patience)
            patience.tell_of_recovery()
        finally:
            self._additions.remove(patience)

    def _lease_or_remove(self, alias: str, patience: Patience) -> None:
        try:
            self._start_leases(patience)
        except BaseException:
            self._components.remove_store(alias, shutdown=True)
            raise

    def _new_patience(self) -> Patience:
        return Patience(self.engine, self._start_timeout, self._hint_while_waiting)

    def _little_patience(self) -> Patience:
        return Patience(self.engine, self._start_timeout or 0.0, self._hint_while_waiting)

    def _hint_while_waiting(self) -> str:
        """Return what else is to be said when the start has to wait for a store."""
        return ""

    def _finish_shutdown(self, wait: bool, timeout: float | None) -> None:
        try:
            deadline = Deadline(self.clock, timeout)
            self._end_loop(deadline.left())
            try:
                self._stop_parts(wait, deadline)
            finally:
                self._logger.info("Scheduler has been shut down")
                self.engine.emit_scheduler_event(EventCode.SCHEDULER_SHUTDOWN)
                self.engine.bus.close(deadline.left(at_least=LAST_WORDS))
        finally:
            self.engine.stopped.set()

    def _stop_parts(self, wait: bool, deadline: Deadline) -> None:
        """Stop the parts in the order in which work flows through them."""
        if self.engine.late_stores is not None:
            self.engine.late_stores.end()
            return
        with self.engine.running.watched(partial(hear, self.engine)):
            self._components.stop_executors(wait, deadline)
        self.engine.settler.stop(deadline.left(at_least=LAST_WORDS), insist=wait)
        self.engine.jobs.end()
        self.engine.leases.stop(self.engine.settler.untold())
        self._components.stop_stores()

    def _is_called_from_inside(self) -> bool:
        """Tell whether the caller is a job, a listener or a thread that a shutdown would wait for."""
        starting = self._starting
        return (
            (starting is not None and starting.is_current_thread())
            or self.engine.leases.is_ours(owner_of_current_run())
            or self.engine.bus.is_called_from_listener()
            or self.engine.settler.is_current_thread()
        )

    def _await_shutdown(self) -> None:
        """Wait for a shutdown that is going on; from inside what it waits for, that cannot be waited for."""
        if self._is_called_from_inside():
            raise SchedulerAlreadyRunningError
        self.engine.stopped.wait()

    def _change_state(self, old: int, new: int, code: EventCode, message: str) -> None:
        with self._lock:
            if self.state == STATE_STOPPED:
                raise SchedulerNotRunningError
            if self.state != old:
                return
            self.state = new
        self._logger.info(message)
        self.engine.emit_scheduler_event(code)

    def _told_state(self) -> str:
        if self.state == STATE_STOPPED:
            return "draining" if self._starting is None else "starting"
        return "running" if self.state == STATE_RUNNING else "paused"

    def _obey(self, action: str) -> None:
        """Do what another process asks for. To drain takes time, and the caller has a lease to renew meanwhile."""
        with suppress(SchedulerNotRunningError):
            if action == "drain":
                threading.Thread(target=self.shutdown, name="goscheduler-drain").start()
            else:
                (self.pause if action == "pause" else self.resume)()

    def _wake_unless_paused(self) -> None:
        if self.state == STATE_RUNNING:
            self.wakeup()

    def _wake_if_started(self) -> None:
        if self.state != STATE_STOPPED:
            self.wakeup()

    def _after_fork(self) -> None:
        """Become a stopped scheduler in a forked child: the threads stayed with the parent."""
        self._lock = threading.RLock()
        self.state = STATE_STOPPED
        self.engine.stopped.set()
        self._starting, self._additions = None, []
        self.engine.jobs = self.engine.jobs.in_child()
        self.engine.bus.forget_thread()
        self.engine.settler = Settler(self.engine, self._wake_unless_paused)
        self.engine.report = self.engine.settler.report
        self._components.forget()
        if self.engine.late_stores is not None:
            self.engine.late_stores.begin(in_child=True)
            self.engine.stopped.clear()
            self.state = STATE_PAUSED

    def __getstate__(self) -> Any:
        raise TypeError(
            "Schedulers cannot be serialized. Ensure that you are not passing a scheduler instance as an argument to a "
            "job, or scheduling an instance method where the instance contains a scheduler as an attribute."
        )
