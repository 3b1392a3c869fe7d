"""What only the stores know: when schedules fire next, how many jobs and dead letters there are, what is due.

A look costs each store a few questions, so it is kept for :data:`LOOK_SECONDS`, however often it is asked for.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.errors import described
from goscheduler.logs import guarded_logger
from goscheduler.runs.model import JobState
from goscheduler.runs.processes import process_of
from goscheduler.runs.queries import MOST_LETTERS, JobQuery, next_time
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.tally import DISPATCH, MARK, MOST_SERIES, OWN_TASKS
from goscheduler.telemetry import catalog
from goscheduler.telemetry.families import Family, Sample
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.processes import Process
    from goscheduler.schedulers.base import BaseScheduler
    from goscheduler.telemetry.catalog import Metric

LOOK_SECONDS = 15.0
#: Jobs of a state are counted up to here.
COUNT_CAP = 10_000
STUCK_AFTER = timedelta(minutes=5)
COUNTED_STATES = (
    JobState.SCHEDULED, JobState.WAITING, JobState.RUNNING, JobState.PAUSED, JobState.SUSPENDED, JobState.COMPLETED,
    JobState.FAILED,
)  # fmt: skip

_logger = guarded_logger("goscheduler.telemetry")


class Schedules(NamedTuple):
    """The schedules that there are, as far as they were found."""

    families: list[Family]
    alive: frozenset[str] | None
    """Their ids; None if these are not all, because a store did not answer or has too many."""


class Kept:
    """Keeps what a function has found for a while, and lets one thread at a time look again."""

    def __init__(self, scheduler: BaseScheduler) -> None:
        self._clock = scheduler.clock
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, object]] = {}

    def get(self, name: str, look: Callable[[], object]) -> object:
        """Return what ``look`` has found, at most :data:`LOOK_SECONDS` ago."""
        with self._lock:
            known = self._found.get(name)
            if known is not None and self._clock.monotonic() - known[0] < LOOK_SECONDS:
                return known[1]
            found = look()
            self._found[name] = self._clock.monotonic(), found
            return found


def schedules_of(scheduler: BaseScheduler, marks: Iterable[str], ids: Iterable[str]) -> Schedules:
    """Return when schedules fire next: the jobs of registries, by their tags, and those that are named."""
    found: dict[str, Job] = {}
    stores = _open_stores(scheduler)
    complete = len(stores) == len(scheduler.engine.stores)
    for alias, store in stores:
        try:
            of_store = list(_schedules_in(store, marks, ids))
        except Exception as error:
            complete = False
            _tell(alias, error)
            continue
        found.update((job.id, job) for job in of_store)
        complete = complete and len(of_store) < MOST_SERIES
    following = sorted((job_id, next_time(job)) for job_id, job in found.items() if next_time(job) is not None)
    ran = sorted((job_id, job.last_run) for job_id, job in found.items() if job.last_run is not None)
    families = [_moments(catalog.NEXT_RUN, following), _moments(catalog.LAST_RUN, ran)]
    return Schedules(families, frozenset(found) if complete and scheduler.running else None)


def _schedules_in(store: BaseJobStore, marks: Iterable[str], ids: Iterable[str]) -> Iterator[Job]:
    for mark in marks:
        yield from store.find_jobs(JobQuery(tag=mark, sort="id", limit=MOST_SERIES)).jobs
    for job_id in ids:
        job = store.lookup_job(job_id)
        if job is not None:
            yield job


def _moments(metric: Metric, moments: Iterable[tuple[str, datetime | None]]) -> Family:
    samples = [Sample((job_id,), moment.timestamp()) for job_id, moment in moments if moment is not None]
    return Family(metric, samples[:MOST_SERIES])


def marks_in(scheduler: BaseScheduler) -> set[str]:
    """Return the tags of registries that the first jobs of each store bear, for who does not run any of them."""
    marks: set[str] = set()
    for alias, store in _open_stores(scheduler):
        try:
            jobs = store.find_jobs(JobQuery(limit=MOST_SERIES)).jobs
        except Exception as error:
            _tell(alias, error)
            continue
        marks.update(tag for job in jobs for tag in job.tags if tag.startswith(MARK))
    return marks


def cluster_families(scheduler: BaseScheduler) -> list[Family]:
    """Return what all processes together have to do."""
    samples: dict[Metric, list[Sample]] = {}
    for alias, store in _open_stores(scheduler):
        try:
            for metric, sample in list(_samples_of(scheduler, alias, store)):
                samples.setdefault(metric, []).append(sample)
        except Exception as error:
            _tell(alias, error)
    return [Family(metric, sorted(found, key=lambda sample: sample.labels)) for metric, found in samples.items()]


def _samples_of(
    scheduler: BaseScheduler, alias: str, store: BaseJobStore
) -> Iterator[tuple[Metric, Sample]]:
    now = scheduler.clock.now()
    for state in COUNTED_STATES:
        number = store.count_jobs(JobQuery(state=state), COUNT_CAP).number
        yield catalog.JOBS, Sample((alias, state.value), number)
    due = store.get_next_run_time()
    yield catalog.OLDEST_DUE, Sample((alias,), 0.0 if due is None else max(0.0, (now - due).total_seconds()))
    letters = sum(group.size for group in store.letter_groups(HistoryQuery(limit=MOST_LETTERS)))
    yield catalog.DEAD_LETTERS, Sample((alias,), letters)
    for use in store.limit_usage(now)[:MOST_SERIES]:
        yield catalog.LIMIT_IN_USE, Sample((alias, use.name), use.live)
        yield catalog.LIMIT_WAITING, Sample((alias, use.name), use.waiting)
    yield from _samples_of_processes(alias, store, now)
    yield from _samples_of_messages(scheduler, alias, store, now)


def _samples_of_processes(alias: str, store: BaseJobStore, now: datetime) -> Iterator[tuple[Metric, Sample]]:
    if not store.shared:
        return
    processes = [process_of(owner, alias) for owner in store.owners(now)]
    states = Counter({"running": 0})
    states.update("unknown" if each.report is None else each.report.state or "unknown" for each in processes)
    for state, number in sorted(states.items()):
        yield catalog.PROCESSES, Sample((alias, state), number)
    skew = skew_of(processes, now)
    if skew is not None:
        yield catalog.CLOCK_SKEW, Sample((alias,), skew)


def skew_of(processes: Iterable[Process], now: datetime) -> float | None:
    """Return by how many seconds the clocks of processes differ at least; None if none tells the time."""
    told = [
        (each.report.written_at, each.expires_at)
        for each in processes
        if each.report is not None and each.report.written_at is not None
    ]
    ahead = [(written_at - now).total_seconds() for written_at, _ in told]
    # A store notes by its own clock when a lease ends, and a process by its own when it renewed it.
    lengths = [(ends - written_at).total_seconds() for written_at, ends in told if ends is not None] or [0.0]
    return max(0.0, *ahead, max(lengths) - min(lengths)) if told else None


def _samples_of_messages(
    scheduler: BaseScheduler, alias: str, store: BaseJobStore, now: datetime
) -> Iterator[tuple[Metric, Sample]]:
    announced = {task for owner in store.owners(now) for task in owner.tasks} if store.shared else set()
    tasks = {*scheduler.engine.tasks.names(), *announced}
    ours = sorted(task for task in tasks if task.startswith(OWN_TASKS) and not task.startswith(DISPATCH))
    live = store.live_runs() if ours else []
    limit = to_micros(now - STUCK_AFTER)
    for task in ours:
        name = task.removeprefix(OWN_TASKS)
        stuck = sum(run.job.task == task and to_micros(run.due_at) < limit for run in live)
        yield catalog.PENDING, Sample((alias, name), store.count_waiting(task))
        yield catalog.STUCK, Sample((alias, name), stuck)


def _open_stores(scheduler: BaseScheduler) -> list[tuple[str, BaseJobStore]]:
    """Return the stores that can be asked; one that does not answer is left alone as long as the scheduler does so."""
    if not scheduler.running:
        return []
    outages = scheduler.engine.outages
    return [(alias, store) for alias, store in sorted(scheduler.engine.stores.items()) if alias not in outages]


def _tell(alias: str, error: Exception) -> None:
    _logger.debug('Job store "%s" could not be read for metrics: %s', alias, described(error))
