"""Deliberate defects. Each is applied in the processes of a run, and the checker has to find a violation.

A defect that survives shows a hole in the workload, in the faults or in the checker. Each entry names the cheapest run
that finds it. The same run without a defect has to be valid, or the violation would prove nothing.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

#: Share of the occasions on which a defect shows that would otherwise end everything at once.
SOMETIMES = 0.1
#: Seconds by which starts are delayed where a defect is about runs that are claimed and not started.
DELAY = 1.5
MESSAGE_DELAY = 3.0


class Mutant(NamedTuple):
    """A deliberate defect."""

    name: str
    breaks: str
    """What is wrong, in a sentence."""
    store: str
    faults: tuple[str, ...]
    apply: Callable[[], None]
    late_start: bool = False
    """Whether its processes start runs later than they could, with and without the defect."""


MUTANTS: dict[str, Mutant] = {}
#: Not a defect: a process that starts its runs later than it could.
LATE_START = "late_start"


def apply(name: str, store: str) -> None:
    """Break this process."""
    if name == LATE_START:
        start_late()
        return
    mutant = MUTANTS[name]
    if mutant.late_start:
        start_late()
    mutant.apply()


def mutant(breaks: str, store: str, *faults: str, late_start: bool = False) -> Callable[[Callable[[], None]], None]:
    """Enter a function among the defects."""

    def enter(function: Callable[[], None]) -> None:
        name = function.__name__
        MUTANTS[name] = Mutant(name, breaks, store, faults, function, late_start)

    return enter


def wrap(target: Any, name: str, wrapper: Wrapper) -> None:
    """Put something in the place of a function or method, which is given the one that was there."""
    setattr(target, name, wrapper(getattr(target, name)))


def now_and_then() -> bool:
    return random.random() < SOMETIMES


def start_late() -> None:
    from goscheduler.executors.pool import ThreadPoolExecutor

    def later(submit: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, run: threading.Timer(DELAY, submit, (self, run)).start()

    wrap(ThreadPoolExecutor, "submit", later)


def store_class(kind: str) -> Any:
    """Return the class of the stores of this process."""
    from goscheduler.jobstores.mongodb import MongoDBJobStore
    from goscheduler.jobstores.redis import RedisJobStore
    from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    return {"redis": RedisJobStore, "mongodb": MongoDBJobStore}.get(kind, SQLAlchemyJobStore)


# Leases


@mutant("a lease is renewed when it is over, and its owner does not know", "redis", "freeze_short")
def renewed_too_late() -> None:
    from goscheduler.schedulers._lease import Leases

    renewed_at: dict[str, float] = {}

    def seldom(renew: Callable[..., bool]) -> Callable[..., bool]:
        def renewed(self: Any, alias: str, store: Any, first: bool) -> bool:
            lease, now = self._leases.get(alias), self._engine.clock.monotonic()
            if lease is None or not lease.held or now - renewed_at.get(lease.owner, 0.0) > 1.2 * self.length:
                answer = renew(self, alias, store, first)
                renewed_at[self._leases[alias].owner] = now
                return answer
            lease.tried = now
            self._renewed(alias, lease, now)
            return True

        return renewed

    wrap(Leases, "_try_to_renew", seldom)


def _shorten(lease_of: Callable[[Any, timedelta], timedelta]) -> None:
    for kind in ("redis", "postgresql", "mongodb"):

        def shortened(renew: Callable[..., bool]) -> Callable[..., bool]:
            return lambda self, owner, now, lease: renew(self, owner, now, lease_of(now, lease))

        wrap(store_class(kind), "renew_owner", shortened)


@mutant("whether a lease is over is judged by the clock of its owner", "redis", "clock")
def lease_by_local_clock() -> None:
    def by_own_clock(now: Any, lease: timedelta) -> timedelta:
        # Of two clocks that differ, one takes the lease of the other for over, whichever is ahead.
        wrong = abs(now.timestamp() - time.time())
        return max(timedelta(milliseconds=1), lease - timedelta(seconds=wrong))

    _shorten(by_own_clock)


@mutant("the runs of living owners are given to others", "redis", "freeze_short")
def living_owners_given_up() -> None:
    _shorten(lambda now, lease: lease * 0.15)


@mutant("a pause of less than half a lease is taken for a crash", "redis", "freeze_short")
def pause_taken_for_crash() -> None:
    _shorten(lambda now, lease: lease * 0.35)


@mutant("a process that has lost its lease starts what it has queued", "redis", "freeze", late_start=True)
def lease_not_looked_at() -> None:
    from goscheduler.schedulers._lease import Leases

    Leases.has_lost = lambda self, run: False  # type: ignore[method-assign]


@mutant("a process that starts again is the same owner as before", "redis", "kill", "kill", "kill")
def owner_reused() -> None:
    from goscheduler.schedulers import _lease

    class Same:
        hex = sys.argv[sys.argv.index("--name") + 1] * 8

    _lease.uuid4 = lambda: Same  # type: ignore[assignment, misc]


# Firing and claiming


@mutant("due jobs are read without a lock", "postgresql", "freeze_short")
def claimed_without_lock() -> None:
    import re

    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    locking = re.compile(r"\s+FOR (NO KEY )?UPDATE( OF \w+)?( SKIP LOCKED)?")

    @event.listens_for(Engine, "before_cursor_execute", retval=True)
    def unlocked(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> tuple[str, Any]:
        return locking.sub("", statement), parameters


@mutant("a run is handed to its executor twice", "redis", "freeze_short")
def handed_over_twice() -> None:
    from goscheduler.schedulers import _tick

    def twice(hand_over: Callable[..., None]) -> Callable[..., None]:
        def handed(engine: Any, alias: str, runs: Any, planned: bool = False) -> None:
            hand_over(engine, alias, runs, planned)
            hand_over(engine, alias, [run for run in runs if now_and_then()], planned)

        return handed

    wrap(_tick, "hand_over", twice)


def _change_plans(change: Callable[[Any], Any]) -> None:
    from goscheduler.runs.plan import FiringPlanner

    def changed(plan: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, job, concurrency, now: change(plan(self, job, concurrency, now))

    wrap(FiringPlanner, "__call__", changed)


@mutant("a job moves on to its next time, and the run is not written", "redis", "freeze_short")
def moved_on_without_a_run() -> None:
    _change_plans(lambda plan: plan._replace(start=()) if plan.start and now_and_then() else plan)


@mutant("a firing that is skipped leaves no record", "redis", "freeze_short")
def skipped_without_a_record() -> None:
    _change_plans(lambda plan: plan._replace(records=()))


@mutant("each process counts the instances of a job for itself", "postgresql", "freeze_short")
def instances_counted_by_each() -> None:
    from goscheduler.runs import plan
    from goscheduler.schedulers import _tick
    from goscheduler.schedulers._cancellation import RunningRuns

    kept: list[Any] = []

    def keeping(init: Callable[..., None]) -> Callable[..., None]:
        def made(self: Any, engine: Any) -> None:
            init(self, engine)
            kept[:] = [self]

        return made

    def here(job: Any, concurrency: Any) -> Any:
        return concurrency._replace(live=sum(run.job.id == job.id for each in kept for run in each.running()))

    wrap(RunningRuns, "__init__", keeping)
    wrap(plan, "plan_firing", lambda f: lambda job, now, concurrency, *rest: f(job, now, here(job, concurrency), *rest))
    wrap(_tick, "admit", lambda f: lambda run, concurrency, now: f(run, here(run.job, concurrency), now))


@mutant("a place of a limit is given back twice", "redis", "freeze_short")
def place_given_back_twice() -> None:
    from goscheduler.runs.limits import Ledger

    def one_less(obstacle: Callable[..., Any]) -> Callable[..., Any]:
        def with_one_less(self: Any, limits: Any, now: Any) -> Any:
            counted, self._live = self._live, {name: live - 1 for name, live in self._live.items()}
            try:
                return obstacle(self, limits, now)
            finally:
                self._live = counted

        return with_one_less

    wrap(Ledger, "obstacle", one_less)


@mutant("a run that is handed out again has the same fence as before", "postgresql", "freeze")
def fence_not_raised() -> None:
    from goscheduler.jobstores.sqlalchemy import claiming as sql_claiming

    def kept(claimed: Callable[..., Any]) -> Callable[..., Any]:
        return lambda run, owner, fence: claimed(run, owner, fence)._replace(fence=run.fence or fence)

    wrap(sql_claiming, "claimed", kept)


# Ends of runs


@mutant("the end of a run is taken whatever fence it shows", "postgresql", "freeze", "freeze", "freeze")
def end_without_fence() -> None:
    from types import SimpleNamespace

    from goscheduler.jobstores.sqlalchemy import settling as sql_settling
    from goscheduler.jobstores.sqlalchemy import store as sql_store

    shown: dict[str, int] = {}

    def remembering(settle: Callable[..., Any]) -> Callable[..., Any]:
        def settled(work: Any, settlements: Any) -> Any:
            shown.update((each.attempt.run.id, each.attempt.run.fence) for each in settlements)
            return settle(work, settlements)

        return settled

    def agreeing(taken: Callable[..., Any]) -> Callable[..., Any]:
        def agreed(work: Any, run_ids: Any) -> Any:
            rows, held = taken(work, run_ids)
            return {
                run_id: SimpleNamespace(**{**row._mapping, "fence": shown.get(run_id, row.fence)})
                for run_id, row in rows.items()
            }, held

        return agreed

    wrap(sql_settling, "_taken", agreeing)
    original = sql_settling.settle
    wrap(sql_settling, "settle", remembering)
    for name, value in list(vars(sql_store).items()):
        if value is original:
            setattr(sql_store, name, sql_settling.settle)


@mutant("an outcome that cannot be written now is dropped", "redis", "reset", "reset", "reset")
def outcome_dropped() -> None:
    from goscheduler.schedulers._settle import RETRY_UNWRITTEN, Settler

    def forgetting(write: Callable[..., None]) -> Callable[..., None]:
        def written(self: Any, alias: str, settlements: Any) -> None:
            write(self, alias, settlements)
            if self._retry_after == RETRY_UNWRITTEN:
                self._unwritten.pop(alias, None)

        return written

    wrap(Settler, "_write", forgetting)


@mutant("a retry counts as two attempts", "redis", "freeze_short")
def retry_counted_twice() -> None:
    from goscheduler.runs import transitions

    wrap(transitions, "retried", lambda f: lambda run, due_at: f(run._replace(attempt=run.attempt + 1), due_at))


@mutant("a retry does not wait", "redis", "freeze_short")
def retry_at_once() -> None:
    from goscheduler.runs import transitions

    wrap(transitions, "retried", lambda f: lambda run, due_at: f(run, run.due_at))


def _change_failures(change: Callable[[Any], Any]) -> None:
    from goscheduler.runs import transitions

    wrap(transitions, "_after_failure", lambda f: lambda attempt, draw: change(f(attempt, draw)))


@mutant("a retry is forgotten when the failure is written", "redis", "freeze_short")
def retry_lost() -> None:
    _change_failures(lambda settlement: settlement._replace(follow_up=None) if now_and_then() else settlement)


@mutant("a dead letter is written apart from the end of its run, and gets lost", "redis", "freeze_short")
def dead_letter_lost() -> None:
    _change_failures(lambda settlement: settlement._replace(dead=None) if random.random() < 0.5 else settlement)


@mutant("the runs of a lost process are written off", "redis", "kill", "kill")
def crash_written_off() -> None:
    from goscheduler.schedulers import _housekeeping

    def ended(crashed: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: crashed(*args, **kwargs)._replace(follow_up=None, dead=None)

    wrap(_housekeeping, "crashed", ended)


@mutant("a removed job's queued runs are started", "redis", "freeze_short", "freeze_short", late_start=True)
def removed_runs_started() -> None:
    from goscheduler.runs.transitions import JOB_REMOVED
    from goscheduler.schedulers import _tick

    def heedless(apply_cancel_requests: Callable[..., Any]) -> Callable[..., Any]:
        def obeyed(engine: Any, wishes: Any) -> Any:
            wishes = list(wishes)
            apply_cancel_requests(engine, [wish for wish in wishes if not wish[1].startswith(JOB_REMOVED)])
            return [wish for wish in wishes if wish[1].startswith(JOB_REMOVED)]

        return obeyed

    wrap(_tick, "apply_cancel_requests", heedless)


# Messages, documents, locks


@mutant("a message counts as delivered before it is", "redis", "kill", "kill", "kill")
def message_acknowledged_first() -> None:
    from goscheduler.messages._executor import DeliveryExecutor

    def hasty(deliver: Callable[..., Any]) -> Callable[..., Any]:
        def delivered(self: Any, runs: Any, started_at: Any) -> list[None]:
            threading.Timer(MESSAGE_DELAY, deliver, (self, runs, started_at)).start()
            return [None] * len(runs)

        return delivered

    wrap(DeliveryExecutor, "_deliver_as", hasty)


@mutant("the lock of a document is over long before it is renewed", "redis", "freeze_short")
def document_hardly_locked() -> None:
    from goscheduler.documents._document_locks import DocumentLocks

    def soon(lock_end: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self: lock_end(self) - self._lock_duration * 0.9

    wrap(DocumentLocks, "_lock_end", soon)


@mutant("every holder of a lock gets the same fence", "redis", "freeze_short")
def lock_without_fence() -> None:
    from goscheduler.locks import _acquiring

    wrap(_acquiring, "Lock", lambda f: lambda backend, name, token, fence, *rest: f(backend, name, token, 1, *rest))


@mutant("each process has locks of its own", "redis", "freeze_short")
def lock_of_each_process() -> None:
    from goscheduler.locks import _acquiring

    wrap(_acquiring, "_ask", lambda f: lambda backend, name, *rest: f(backend, f"{name}-{os.getpid()}", *rest))
