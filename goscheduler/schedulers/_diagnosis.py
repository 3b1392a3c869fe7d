"""Where a job stands, and why it is not running now: facts, and rules that make a state or a sentence of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.errors import survivable
from goscheduler.runs.model import JobState, OutcomeKind, Run, Source
from goscheduler.runs.processes import read_report
from goscheduler.runs.queries import RunCounts
from goscheduler.runs.records import HistoryQuery, stats_from
from goscheduler.runs.transitions import JOB_REMOVED

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.limits import Limit
    from goscheduler.runs.model import Owner
    from goscheduler.runs.records import Record
    from goscheduler.schedulers._engine import Engine

#: So many records are read of a job that is gone.
RECORDS = 100
NO_RUNS = RunCounts()
#: What a process says of its state that fires nothing and is not about to.
RESTING = frozenset({"paused", "draining"})


class StateFacts(NamedTuple):
    """What the state of a job follows from, as it can be had of many jobs at once."""

    job: Job
    now: datetime
    fired: bool = False
    """Whether somebody fires the jobs of its store."""
    started: int = 0
    """How many of its runs go on."""
    queued: int = 0
    """How many wait in an executor for their turn."""
    due: int = 0
    waiting: int = 0
    """How many pending runs are due, and how many are not."""
    has_executor: bool = True
    """Whether some process has its executor, as far as is known; true where no process fires at all."""
    gone: bool = False
    """Whether it is not in its store any more."""


class Diagnosis(NamedTuple):
    """The facts about one job at one moment."""

    job: Job
    now: datetime
    firing: bool
    """Whether this scheduler fires at all."""
    observing: bool = False
    """Whether this scheduler never fires."""
    only_adds: bool = False
    """Whether it never fires because it was started only to add."""
    others_fire: bool = False
    """Whether another process fires the jobs of its store, as far as is known."""
    started: Sequence[Run] = ()
    """Runs of the job that go on, or that another process has."""
    unknown: int = 0
    """Of how many of them it is not known whether they have begun: no process has reported them yet."""
    queued: Sequence[Run] = ()
    """Runs that wait in an executor for their turn."""
    pending: Sequence[Run] = ()
    room: int | None = None
    """How many runs its executor can take now; None if there is no such executor here."""
    outage: bool = False
    blackout: str = ""
    """Why it is held back or left out now, if it is."""
    others: Sequence[Owner] = ()
    """The processes that share the store, this one included if it may fire; none are known if it is not shared."""
    records: Sequence[Record] | None = None
    """What the history has of a job that is not in its store any more, newest first; None of one that is."""

    @property
    def next_run_time(self) -> datetime | None:
        return self.job.next_run_time if self.records is None else None

    @property
    def able(self) -> Sequence[Owner]:
        """The processes that have the executor of the job, as far as is known."""
        return [owner for owner in self.others if self.job.executor in owner.executors]

    @property
    def fired(self) -> bool:
        """Whether somebody fires the jobs of its store, as far as is known."""
        return self.firing or self.others_fire

    @property
    def deserted(self) -> bool:
        """Whether no process is known that could fire the jobs of its store, this one included."""
        return self.observing and not self.others

    @property
    def facts(self) -> StateFacts:
        due = sum(run.due_at <= self.now for run in self.pending)
        return StateFacts(
            self.job, self.now, self.fired, len(self.started), len(self.queued), due, len(self.pending) - due,
            self.room is not None or bool(self.able) or self.deserted, self.records is not None,
        )  # fmt: skip


def collect_facts(engine: Engine, job: Job, firing: bool, gone: bool = False) -> Diagnosis:
    """Ask everybody who knows something about a job, the history too about one that is ``gone``."""
    now = engine.clock.now()
    alias = job._jobstore_alias
    store = None if alias is None else engine.stores.get(alias)
    if alias is None or store is None:
        return Diagnosis(job, now, firing=False)
    live = store.live_runs(job.id)
    queued = [run for run in live if engine.leases.is_ours(run.owner) and not engine.running.started_at(run)]
    started = [run for run in live if run not in queued]
    owners = store.owners(now) if store.shared else ()
    return Diagnosis(
        job, now, firing, engine.observing, engine.late_stores is not None, _others_fire(engine, alias, owners),
        started, _count_unknown(engine, started, owners), queued, store.pending_runs(job.id),
        engine.room().get(job.executor), alias in engine.outages,
        engine.blackouts.told_of(job, alias, store, now), owners,
        store.history(HistoryQuery(job.id, limit=RECORDS)) if gone else None,
    )


def _others_fire(engine: Engine, alias: str, owners: Sequence[Owner]) -> bool:
    """Tell whether a process other than this one fires the jobs of a store: it lives and does not say that it is
    paused."""
    ours = engine.leases.owner_of(alias)
    return any(owner.id != ours and not _is_resting(owner) for owner in owners)


def _is_resting(owner: Owner) -> bool:
    report = read_report(owner.report)
    return report is not None and report.state in RESTING


def _count_unknown(engine: Engine, runs: Sequence[Run], owners: Sequence[Owner]) -> int:
    elsewhere = {run.id for run in runs if not engine.leases.is_ours(run.owner)}
    if not elsewhere or not owners:
        return 0
    reports = [report for report in (read_report(owner.report) for owner in owners) if report is not None]
    return len(elsewhere.difference(run.id for report in reports for run in report.runs))


def refresh(job: Job, found: Diagnosis) -> None:
    """Have a job that somebody holds show what was found, so that it does not contradict its state."""
    if found.records is None and found.job is not job:
        job.next_run_time, job.stats, job.suspended = found.job.next_run_time, found.job.stats, found.job.suspended
    elif found.records and len(found.records) < RECORDS:  # else there may be more of them
        job.stats = stats_from(found.records)


def state_facts_of(engine: Engine, alias: str, jobs: Sequence[Job], firing: bool) -> list[StateFacts]:
    """Return the facts of jobs of one store, which is asked a constant number of times.

    A run that another process has counts as started: who asks for many does not ask each.
    """
    now, store = engine.clock.now(), engine.stores.get(alias)
    if store is None:
        return [StateFacts(job, now) for job in jobs]
    counts = store.run_counts([job.id for job in jobs], now)
    owners = store.owners(now) if store.shared else ()
    fired = firing or _others_fire(engine, alias, owners)
    executors = set(() if engine.observing else engine.executors).union(*(owner.executors for owner in owners))
    deserted = engine.observing and not owners
    begun = None if store.shared else Counter(run.job.id for run in engine.running.running())
    found = []
    for job in jobs:
        live, due, waiting = counts.get(job.id, NO_RUNS)
        started = live if begun is None else min(live, begun[job.id])
        known = deserted or job.executor in executors
        found.append(StateFacts(job, now, fired, started, live - started, due, waiting, known))
    return found


def state_of(found: Diagnosis) -> JobState:
    """Return the state of a job, the most telling one first."""
    if found.records is None:
        return state_by(found.facts)
    return _state_by_runs(found.facts) or _state_of_gone(found.job, found.records)


def state_by(facts: StateFacts) -> JobState:
    """Return the state of a job that is in its store, the most telling one first."""
    return _state_by_runs(facts) or _state_at_rest(facts.job)


def _state_by_runs(facts: StateFacts) -> JobState | None:
    """Return the state of a job that is to run; None if nothing of it waits or goes on."""
    job, gone = facts.job, facts.gone
    time = None if gone else getattr(job, "next_run_time", None)
    if job.pending:
        return JobState.PENDING
    if facts.started:
        return JobState.RUNNING
    if job.suspended is not None and not gone:
        return JobState.SUSPENDED
    if facts.queued or facts.due or (facts.fired and time is not None and time <= facts.now):
        return JobState.QUEUED if facts.has_executor else JobState.NO_EXECUTOR
    return JobState.SCHEDULED if facts.waiting or time is not None else None


def _state_at_rest(job: Job) -> JobState:
    """Return the state of a job that nothing waits for."""
    if job.stats.finished_at is None:
        return JobState.PAUSED
    return JobState.COMPLETED if job.stats.last_outcome is OutcomeKind.SUCCEEDED else JobState.FAILED


def _state_of_gone(job: Job, records: Sequence[Record]) -> JobState:
    """Return how a job has ended that is not in its store any more: by itself, or because somebody removed it."""
    if not records or _was_to_fire_again(job, records[0]):
        return JobState.REMOVED
    return JobState.COMPLETED if records[0].outcome is OutcomeKind.SUCCEEDED else JobState.FAILED


def _was_to_fire_again(job: Job, last: Record) -> bool:
    """Tell whether a job would have fired after its last record, going by the definition that is known of it."""
    if last.reason.startswith(JOB_REMOVED.strip()):
        return True  # so its last run was never started
    if job.next_run_time is not None and last.scheduled_at < job.next_run_time:
        return True  # a run that somebody asked for before the first fire time
    return job.trigger.get_next_fire_time(last.scheduled_at, last.scheduled_at) is not None


def why_not_running(found: Diagnosis) -> str:
    """Return in a sentence why a job is not running now."""
    state = state_of(found)
    if state is JobState.PENDING:
        return "It waits for the scheduler to be started."
    if state is JobState.RUNNING:
        return _why_running(found)
    if state is JobState.SUSPENDED:
        return f"It is suspended: {found.job.suspended}."
    if state is JobState.PAUSED:
        return _why_paused(found.job)
    if state in (JobState.COMPLETED, JobState.FAILED):
        return f"It has fired for the last time, at {_shown(found.job.stats.finished_at)}, and {state.value}."
    return _why_not_started(found)


def _why_running(found: Diagnosis) -> str:
    begun = len(found.started) - found.unknown
    if not begun:
        runs = _counted(found.unknown, "run")
        return f"A process has {runs} of it; whether that is running is not known yet{_and_waiting(found)}."
    return f"It is running: {_counted(begun, 'run')}{_and_waiting(found)}."


def _why_paused(job: Job) -> str:
    by, reason = job.stats.paused_by, job.stats.pause_reason
    if not by:
        return "It is paused: it was added or left without a next run time."
    return f"It was paused by {by}: {reason}." if reason else f"It was paused by {by}."


def _and_waiting(found: Diagnosis) -> str:
    due = [run for run in found.pending if run.due_at <= found.now]
    return f", and {len(due)} more to follow when one has ended" if due else ""


def _why_not_started(found: Diagnosis) -> str:
    """Say what a job waits for that could run."""
    time = _earliest(found)
    if time is not None and time > found.now:
        put_off = [run for run in found.pending if run.due_at == time]
        if put_off:
            return _why_put_off(found, put_off[0])
        alone = f"; {_nobody_fires(found)}" if found.only_adds and found.deserted else ""
        return f"It is not due until {_shown(time)}{_closed(found)}{alone}."
    hindrance = _hindrance(found)
    if hindrance:
        return hindrance
    if found.pending:
        return _why_held(found, found.pending[0])
    return "It is due, and about to be started."


def _closed(found: Diagnosis) -> str:
    """Say that a blackout is in force now, or that the calendar of the trigger is closed."""
    if found.blackout:
        return f"; {found.blackout}"
    reason = closed_at(found.job, found.now)
    return f"; its calendar is closed now: {reason}" if reason else ""


def closed_at(job: Job, moment: datetime) -> str:
    """Return why nothing of a job is to run at a moment, by the calendar of its trigger; nothing if it may, or if its
    trigger cannot tell here."""
    try:
        return job.trigger.closed(moment)
    except BaseException as error:  # a user's trigger may raise anything
        if not survivable(error):
            raise
        return ""


def _hindrance(found: Diagnosis) -> str:
    """Say what keeps this scheduler, or all, from starting anything of the job; nothing if nothing does."""
    job, able = found.job, found.able
    if found.deserted and not found.outage:
        return f"It is due, but {_nobody_fires(found)}."
    if found.room is None and not able:
        return f'It is due, but no process that is known here has its executor "{job.executor}".'
    if found.outage:
        return f'It is due, but its job store "{job._jobstore_alias}" does not answer.'
    if not found.fired:
        if not found.observing:
            return "It is due, but the scheduler is paused."
        return _ALL_REST
    if found.queued:
        return f'It is queued in the executor "{job.executor}", whose workers are busy.'
    if (found.room == 0 and len(able) <= 1) or _is_full_everywhere(found):
        return f'It is due, but the executor "{job.executor}" is full.'
    return ""


def _is_full_everywhere(found: Diagnosis) -> bool:
    """Tell whether all processes that have the executor of the job have reported that it has no room."""
    if found.room is not None or not found.able:
        return False
    reports = [read_report(owner.report) for owner in found.able]
    uses = [None if report is None else report.executors.get(found.job.executor) for report in reports]
    return all(use is not None and use.room <= 0 for use in uses)


_ALL_REST = "It is due, but all processes that share its job store are paused."


def _nobody_fires(found: Diagnosis) -> str:
    nobody = "no process fires the jobs of its store"
    return f"{nobody}, and this one only adds" if found.only_adds else nobody


def _why_put_off(found: Diagnosis, run: Run) -> str:
    """Say why a pending run is not due yet."""
    time = _shown(run.due_at)
    if run.source is Source.RETRY:
        return f"It is not due until {time}, when it is tried again."
    rates = [limit for limit in found.job.limits if limit.rate is not None]
    if rates and found.job.stats.last_outcome is not OutcomeKind.SNOOZED:
        return f"It waits until {time} for a limit: {_names_of(rates)}."
    return f"It was put off until {time}."


def _why_held(found: Diagnosis, run: Run) -> str:
    limits = found.job.limits
    if limits:
        names = _names_of(limits)
        return f"It has been due since {_shown(run.scheduled_at)} and waits for a limit: {names}."
    return "It is due, and about to be started."


def _names_of(limits: Sequence[Limit]) -> str:
    return ", ".join(f'"{limit.name}"' for limit in limits)


def _earliest(found: Diagnosis) -> datetime | None:
    times = [run.due_at for run in (*found.pending, *found.queued)]
    if found.job.next_run_time is not None:
        times.append(found.job.next_run_time)
    return min(times, default=None)


def _shown(time: datetime | None) -> str:
    return "an unknown time" if time is None else time.strftime("%Y-%m-%d %H:%M:%S %Z").strip()


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
