"""Looks at the stores of a scheduler, and at its loop, and says how they fare.

A store is asked on a thread of its own: one that hangs keeps nobody waiting for longer than a few seconds, and is not
asked again before it has answered. Several who ask at the same time, or shortly after each other, share one answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from goscheduler._urls import masked_text
from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import described
from goscheduler.runs.health import (
    Check,
    Health,
    HealthStatus,
    StoreFacts,
    clock_trouble,
    is_stuck,
    judge_store,
    merged,
    verdict,
)
from goscheduler.runs.model import JobState
from goscheduler.runs.processes import Process, process_of
from goscheduler.runs.queries import JobQuery, next_time
from goscheduler.schedulers._kept import KeptAnswer, fulfil

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run
    from goscheduler.schedulers._engine import Engine

#: An answer serves all who ask within so many seconds.
CACHED_SECONDS = 2.0
#: A store has to answer within so many seconds.
STORE_SECONDS = 5.0
#: The loop has to turn within so many times the poll interval, and so many seconds more.
POLLS, EXTRA_SECONDS = 3, 5.0
#: Jobs that wait are counted up to here; so many due ones are looked at.
COUNT_CAP = 10_000
DUE_JOBS = 200

T = TypeVar("T")


class Probe(NamedTuple):
    """The answer to a probe of an orchestrator."""

    ok: bool
    reason: str = ""
    """Why not."""


class Inspector:
    """Examines one scheduler."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asked: dict[str, Future[object]] = {}
        """Alias of a store → the question that it was asked last."""
        self._answers: dict[float, KeptAnswer[Health]] = {}
        """Seconds after which something counts as stuck → the answer."""
        self._ping: KeptAnswer[Probe] = _kept(engine)
        self._others: dict[str, KeptAnswer[object]] = {}
        """What others want to know of the stores → the answer."""
        self._lock = threading.Lock()

    def health(self, stuck_after: float) -> Health:
        """Return how the stores, the processes and their jobs fare."""
        with self._lock:
            shared = self._answers.setdefault(stuck_after, _kept(self._engine))
        return shared.get(partial(self._examine, stuck_after))

    def shared(self, about: str, ask: Callable[[], object]) -> Any:
        """Return what ``ask`` returns, or a text that says why it did not, in time: asked as a store is, and shared."""
        with self._lock:
            answer = self._others.setdefault(about, _kept(self._engine))
        return answer.get(lambda: _answer_of(self._ask(about, ask), Deadline(SYSTEM_CLOCK, STORE_SECONDS)))

    def readiness(self) -> Probe:
        """Tell whether the scheduler can work: it is started, its stores answer, its leases are young."""
        engine = self._engine
        if engine.stopped.is_set() or engine.state() == "draining":
            return Probe(False, "the scheduler does not run, or is shutting down")
        if not engine.observing:
            for alias, store in engine.stores.items():
                if not engine.leases.may_claim(alias, store):
                    return Probe(False, f'the lease in job store "{alias}" was not renewed for half its length')
        return self._ping.get(self._ping_stores)

    def liveness(self) -> Probe:
        """Tell whether the loop turns. No store is asked."""
        engine = self._engine
        turned_at = engine.loop.turned_at
        if engine.observing or engine.state() != "running" or turned_at is None:
            return Probe(True)
        resting = engine.clock.monotonic() - turned_at
        if resting <= POLLS * engine.poll_interval + EXTRA_SECONDS:
            return Probe(True)
        return Probe(False, f"the loop has not turned for {resting:.0f} seconds")

    def _ping_stores(self) -> Probe:
        answers = self._ask_all(lambda alias, store: _ping(store))
        for alias, answer in answers.items():
            if isinstance(answer, str):
                return Probe(False, f'job store "{alias}" does not answer: {answer}')
        return Probe(True)

    def _examine(self, stuck_after: float) -> Health:
        now = self._engine.clock.now()
        if self._engine.stopped.is_set():
            return _not_running(now)
        answers = self._ask_all(partial(self._look_into, now, stuck_after))
        found = {
            alias: StoreFacts(alias, answer) if isinstance(answer, str) else answer
            for alias, answer in answers.items()
        }  # fmt: skip
        checks = merged({alias: judge_store(facts, stuck_after) for alias, facts in found.items()})
        status, message = verdict(checks)
        facts = list(found.values())
        answered = not any(each.error for each in facts)
        return Health(
            status, max((each.latency for each in facts), default=0.0),
            sum(each.pending or 0 for each in facts) if answered else None,
            sum(each.stuck for each in facts) if answered else None,
            _details(facts), now, message, checks,
        )  # fmt: skip

    def _look_into(self, now: datetime, stuck_after: float, alias: str, store: BaseJobStore) -> StoreFacts:
        latency = _ping(store)
        due_jobs = store.find_jobs(JobQuery(due_before=now, limit=DUE_JOBS)).jobs
        oldest = next_time(due_jobs[0]) if due_jobs else None
        overdue = 0.0 if oldest is None else (now - oldest).total_seconds()
        processes = [process_of(owner, alias) for owner in store.owners(now)] if store.shared else []
        owners = {process.owner for process in processes}
        live, begun = store.live_runs(), self._begun(processes)
        return StoreFacts(
            alias, "", overdue, self._firing(store, processes),
            sum(begun.knows(run) and is_stuck(run, begun.at.get(run.id), now, stuck_after) for run in live),
            sum(run.owner not in owners for run in live) if store.shared else 0,
            *self._missing(store, due_jobs, processes), clock_trouble(processes, now),
            store.count_jobs(JobQuery(state=JobState.SCHEDULED), COUNT_CAP).number, latency,
        )  # fmt: skip

    def _missing(
        self, store: BaseJobStore, jobs: Sequence[Job], processes: Sequence[Process]
    ) -> tuple[list[str], list[str]]:
        """Return the executors and the tasks that jobs name and no process has; none if there is no process to have."""
        if store.shared:
            executors = {name for process in processes for name in process.executors}
            tasks = {name for process in processes for name in process.tasks}
        else:
            executors, tasks = set(self._engine.executors), set(self._engine.tasks.names())
        if not executors:
            return [], []
        wanted = {job.task for job in jobs if job.task is not None}
        return sorted({job.executor for job in jobs} - executors), sorted(wanted - tasks)

    def _firing(self, store: BaseJobStore, processes: Sequence[Process]) -> int | None:
        if store.shared:
            return sum(each.report is None or each.report.state in ("running", "starting") for each in processes)
        return None if self._engine.observing else int(self._engine.state() == "running")

    def _begun(self, processes: Sequence[Process]) -> _Begun:
        """Return when runs have begun: those of this process, and those that others tell of."""
        engine = self._engine
        complete = {each.owner for each in processes if each.report is not None and each.report.complete}
        at = {run.id: run.started_at for each in processes if each.report is not None for run in each.report.runs}
        ours = {} if engine.observing else {run.id: started_at for run, started_at in engine.running.begun()}
        return _Begun({**at, **ours}, complete, engine.leases.is_ours)

    def _ask_all(self, ask: Callable[[str, BaseJobStore], T]) -> dict[str, T | str]:
        """Ask every store, at the same time, and return its answer, or why there is none."""
        asked = {alias: self._ask(alias, partial(ask, alias, store)) for alias, store in self._engine.stores.items()}
        deadline = Deadline(SYSTEM_CLOCK, STORE_SECONDS)
        answers: dict[str, T | str] = {}
        for alias, question in asked.items():
            answer = _answer_of(question, deadline)
            answers[alias] = answer
        return answers

    def _ask(self, alias: str, ask: Callable[[], T]) -> Future[T] | None:
        """Ask a store on a thread of its own; None if it owes an answer to the last question."""
        before = self._asked.get(alias)
        if before is not None and not before.done():
            return None
        question: Future[T] = Future()
        self._asked[alias] = question  # type: ignore[assignment]
        threading.Thread(target=fulfil, args=(question, ask), name="goscheduler-health", daemon=True).start()
        return question


class _Begun(NamedTuple):
    """When runs have begun, and of whose runs that is known."""

    at: Mapping[str, datetime]
    complete: set[str]
    is_ours: Callable[[str | None], bool]

    def knows(self, run: Run) -> bool:
        return run.id in self.at or run.owner in self.complete or self.is_ours(run.owner)


def _kept(engine: Engine) -> KeptAnswer[T]:
    return KeptAnswer(engine.clock, CACHED_SECONDS)


def _answer_of(question: Future[T] | None, deadline: Deadline) -> T | str:
    silent = f"it has not answered within {STORE_SECONDS:g} seconds"
    if question is None:
        return silent
    try:
        return question.result(deadline.left())
    except StillWaiting:
        return silent
    except Exception as error:
        return masked_text(described(error))  # some drivers tell the whole URL


def _ping(store: BaseJobStore) -> float:
    """Return how many seconds a store takes for its cheapest answer."""
    begin = SYSTEM_CLOCK.monotonic()
    store.get_next_run_time()
    return SYSTEM_CLOCK.monotonic() - begin


def _not_running(now: datetime) -> Health:
    checks = [Check("store", HealthStatus.UNHEALTHY, "the scheduler does not run")]
    return Health(HealthStatus.UNHEALTHY, 0.0, None, None, {}, now, checks[0].message, checks)


def _details(found: Sequence[StoreFacts]) -> dict[str, object]:
    """Return figures of each store, under its alias where there are several."""
    told: dict[str, object] = {}
    for facts in found:
        prefix = "" if len(found) == 1 else f"{facts.jobstore}."
        told[f"{prefix}latency_ms"] = round(facts.latency * 1000, 1)
        if not facts.error:
            told[f"{prefix}overdue_seconds"] = round(facts.overdue, 1)
            told[f"{prefix}processes_firing"] = "unknown" if facts.firing is None else facts.firing
    return told
