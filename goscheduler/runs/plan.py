"""Decides what happens when a job is due; pure functions.

:func:`plan_firing` looks at a job, the moment, and how the job stands, and answers with a :class:`FiringPlan`: which
runs start, which wait, which fire times are recorded as missed or skipped, and when the job fires next. It knows no
store, no clock and no thread. A store calls it while it holds the job, and writes the answer in one step.

==========================  =========================================================================================
what is found               what is planned
==========================  =========================================================================================
one due time                a run
several, coalescing         one run for the newest; it says how many others it stands for
several, not coalescing     a run for each, oldest first; what exceeds ``max_instances`` waits its turn as a pending
                            run. Beyond :data:`CATCH_UP` the oldest are recorded as missed, together
later than the grace time   recorded as missed, not run
``max_instances`` live      by ``overlap``: recorded as skipped; waits; waits while those are told to end; runs too
its calendar is closed      recorded as skipped
a blackout is in force      held back or recorded as skipped, see :mod:`goscheduler.runs.blackouts`
one of its limits is full   a pending run that waits for the limit; skipped if one of the job waits already, unless the
                            job queues
the trigger has ended       no next time: the store removes the job, or keeps it as finished
it follows other jobs       no next time: the store keeps the job, which waits for them
the job cannot be run       suspended with the reason; nothing else changes
its module is not loaded    nothing changes: it stays due while the module is imported
==========================  =========================================================================================

:func:`admit` decides about a pending run in the same way: it may start, or it is held until something ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler._resolver import NOT_LOADED_YET
from goscheduler.errors import described, survivable
from goscheduler.runs.model import Attempt, Outcome, OutcomeKind, Run, Source, unchecked_tuple
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.limits import Ledger, Limit, Obstacle

#: How many gathered fire times are run one by one, at most, when a job does not coalesce; and how many runs of a job
#: that queues may wait.
CATCH_UP = 1000
#: What one step of priority is worth: a run that has waited so much longer goes before a more urgent one.
PRIORITY_STEP_US = 60_000_000
#: What the rank of a job of the usual priority adds to its due time.
DEFAULT_PRIORITY_OFFSET_US = 5 * PRIORITY_STEP_US

#: What the keys of jobs and of limits begin with.
JOB_KEY, LIMIT_KEY = "job:", "limit:"
#: Why a live run of a job that cancels its running instances is told to end.
REPLACED_BY_NEWER_RUN = "a newer run of its job takes its place"

_SCHEDULE = Source.SCHEDULE


class ConcurrencyState(NamedTuple):
    """The live and pending runs of a job, at the moment when a rule is applied to it."""

    live: int
    """Runs of the job that an owner has."""
    waiting: int
    """Fire times of the job that are pending runs; retries and runs that somebody asked for do not count."""
    fence: int
    """For the runs that start."""
    ledger: Ledger
    """How the limits of the job stand; what starts is entered."""


class FiringPlan(NamedTuple):
    """The writes of a store for one due job."""

    start: Sequence[Run] = ()
    """Runs that are ours at once."""
    wait: Sequence[Run] = ()
    """Runs that stay pending until an earlier one has ended."""
    records: Sequence[Attempt] = ()
    """What is not run, for the history."""
    next_run_time: datetime | None = None
    """The job's next fire time; None removes the job."""
    suspended: str | None = None
    """Why the job cannot be run. If set, the rest of the plan is empty and the job keeps its time."""
    cancel_live: bool = False
    """Whether the live runs of the job are to be told to end."""
    keep: bool = False
    """Whether a job without a next time is kept instead of being removed: as finished, unless it ``waits``."""
    wait_for: Refusal | None = None
    """What :func:`admit` would answer for the runs that wait, if a limit is in their way."""
    waits: bool = False
    """Whether a job without a next time waits for the end of others, and so has not finished."""


class Refusal(NamedTuple):
    """Why a pending run cannot start now."""

    key: str | None
    """Hold it until a run that counts under this key ends; see :func:`keys_of`."""
    until: datetime | None = None
    """Or put it off until then."""


#: Tells why a fire time is left out; nothing if it is not.
LeftOut = Callable[[datetime], str]
#: Plans a job that is due in a blackout; None if it is in none. Where blackouts of the past leave out times that have
#: gathered since it was due, the answer is what tells these.
InBlackout = Callable[["Job", ConcurrencyState, datetime, Callable[[], str]], FiringPlan | LeftOut | None]


class FiringPlanner:
    """Plans the firings of one round for one owner; what a store calls for each due job it has hold of."""

    __slots__ = ("_in_blackout", "_new_id", "_obstacle", "_owner")

    def __init__(
        self, owner: str, obstacle: Callable[[Job], str | None], new_id: Callable[[], str],
        in_blackout: InBlackout | None = None,
    ) -> None:  # fmt: skip
        self._in_blackout = in_blackout
        self._owner = owner
        self._obstacle = obstacle
        self._new_id = new_id

    def __call__(self, job: Job, concurrency: ConcurrencyState, now: datetime) -> FiringPlan:
        """Return the plan for ``job``. Never raises: a job that cannot be planned is suspended, the others go on."""
        obstacle = self._obstacle(job)
        if obstacle is NOT_LOADED_YET:
            return FiringPlan(next_run_time=job.next_run_time)
        if obstacle is not None:
            return FiringPlan(suspended=obstacle)
        try:
            held = None if self._in_blackout is None else self._in_blackout(job, concurrency, now, self._new_id)
            if isinstance(held, FiringPlan):
                return held
            return plan_firing(job, now, concurrency, self._owner, self._new_id, held)
        except BaseException as error:  # a user's trigger may raise anything
            if not survivable(error):
                raise
            return FiringPlan(suspended=f"its trigger {_named(job.trigger)} cannot be used: {described(error)}")


def plan_firing(
    job: Job, now: datetime, concurrency: ConcurrencyState, owner: str, new_id: Callable[[], str],
    left_out: LeftOut | None = None,
) -> FiringPlan:  # fmt: skip
    """Return what to do about a job whose ``next_run_time`` has come."""
    options = job.options
    due = job.next_run_time
    assert due is not None, "only a job with a next run time can be due"
    live, waiting, fence, _ = concurrency
    following = _following(job, due, now)
    alone = following is None or following > now
    unhindered = live < options.max_instances and not waiting and not options.limits and not job.trigger.closed(due)
    if alone and unhindered and options.misfire_grace_time is None:
        run = unchecked_tuple(Run, (new_id(), job, due, due, owner, fence, 1, _SCHEDULE, 0, 0))
        waits = following is None and job.trigger.upstream != ()
        keep = waits or not options.auto_remove
        return unchecked_tuple(FiringPlan, ((run,), (), (), following, None, False, keep, None, waits))
    times: Sequence[datetime] = (due,)
    bypassed = 0
    passed: list[Attempt] = []
    if not alone and left_out is None:
        times, bypassed, following = gathered(job, due, now)
    elif not alone and left_out is not None:
        times, bypassed, following = gathered(job, due, now, CATCH_UP)
        times, passed = _beside(job, times, now, new_id, left_out)
        if options.coalesce:
            times, bypassed = times[-1:], bypassed + max(0, len(times) - 1)
    runnable, records = _in_time(job, times, now, new_id)
    runnable, closed = _while_open(job, runnable, now, new_id)
    records += passed + closed
    coalesced = bypassed if options.coalesce and runnable else 0
    if bypassed > coalesced:
        records.insert(0, _record(job, due, now, OutcomeKind.MISSED, new_id(), bypassed))
    places = _placed(job, runnable, concurrency, now)
    records += [
        _record(job, time, now, OutcomeKind.SKIPPED, new_id(), 1 + coalesced, places.reason) for time in places.skip
    ]
    start = [Run(new_id(), job, time, time, owner, fence, coalesced=coalesced) for time in places.start]
    wait = [Run(new_id(), job, time, time, coalesced=coalesced) for time in places.wait]
    waits = following is None and job.trigger.upstream != ()
    return FiringPlan(
        start, wait, records, following, None, places.cancel_live, waits or not options.auto_remove, places.wait_for,
        waits,
    )  # fmt: skip


class _Places(NamedTuple):
    """Which of the times that could run do what."""

    start: Sequence[datetime]
    wait: Sequence[datetime] = ()
    skip: Sequence[datetime] = ()
    reason: str = ""
    cancel_live: bool = False
    wait_for: Refusal | None = None


def _placed(job: Job, times: Sequence[datetime], concurrency: ConcurrencyState, now: datetime) -> _Places:
    options = job.options
    live, waiting, _, ledger = concurrency
    free = len(times) if options.overlap == "allow" else max(0, options.max_instances - live)
    if waiting and options.overlap == "queue":
        free = 0  # those that came earlier go first
    count, obstacle = 0, None
    while count < min(free, len(times)):
        obstacle = ledger.obstacle(options.limits, now)
        if obstacle is not None:
            break
        ledger.take(options.limits, now)
        count += 1
    start, rest = times[:count], times[count:]
    if not rest:
        return _Places(start)
    if obstacle is not None and waiting and options.overlap != "queue":
        return _Places(start, (), rest, f"a run of it waits already: {obstacle.reason}")
    if free > 0:
        return _Places(start, rest, wait_for=None if obstacle is None else _refusal(obstacle))
    return _overlapping(job, rest, live, waiting)


def _overlapping(job: Job, times: Sequence[datetime], live: int, waiting: int) -> _Places:
    """Place times of a job that has as many runs as it may have."""
    if job.overlap == "queue":
        room = max(0, CATCH_UP - waiting)
        return _Places((), times[:room], times[room:], f"{waiting} runs of it wait already")
    if job.overlap == "cancel_running":
        count = len(times) - (0 if waiting else 1)
        reason = "a run of it waits already" if waiting else "a newer run takes its place"
        return _Places((), times[count:], times[:count], reason, cancel_live=live > 0)
    return _Places((), (), times, f"maximum number of running instances reached ({job.max_instances})")


def admit(run: Run, concurrency: ConcurrencyState, now: datetime) -> Refusal | None:
    """Return None, having entered it into the ledger, if a pending run may start; else what it has to wait for."""
    options = run.job.options
    if concurrency.live >= options.max_instances and options.overlap != "allow":
        return Refusal(_job_key(run.job.id))
    if not options.limits:
        return None
    obstacle = concurrency.ledger.obstacle(options.limits, now)
    if obstacle is None:
        concurrency.ledger.take(options.limits, now)
        return None
    return _refusal(obstacle)


def _refusal(obstacle: Obstacle) -> Refusal:
    return Refusal(None if obstacle.until else limit_key(obstacle.limit), obstacle.until)


def keys_of(run: Run, limits: Sequence[Limit] | None = None) -> list[str]:
    """Return what the run counts under while it is live: when it ends, a run that is held under one of them may go.

    ``limits`` are those under which it was started, if its job may have got others since.
    """
    limits = run.job.limits if limits is None else limits
    return [_job_key(run.job.id), *(limit_key(limit.name) for limit in limits)]


def _job_key(job_id: str) -> str:
    return f"{JOB_KEY}{job_id}"


def limit_key(name: str) -> str:
    """Return the key of :func:`keys_of` that stands for a limit."""
    return f"{LIMIT_KEY}{name}"


def limit_of_key(key: str) -> str | None:
    """Return the name of the limit that a key of :func:`keys_of` stands for, None for the key of a job."""
    return key.removeprefix(LIMIT_KEY) if key.startswith(LIMIT_KEY) else None


def rank_of(job: Job, due: int) -> int:
    """Return where something of ``job`` that is due at ``due`` (µs) stands among all that are: the lowest goes first.

    The more urgent one goes first, then the one that is due longer; but nothing waits for ever behind more urgent ones.
    """
    return rank(due, job.options.priority)


def rank(due: int, priority: int) -> int:
    """Return the rank of a job or run of this priority; see :func:`rank_of`."""
    return due + priority * PRIORITY_STEP_US


def next_fence(fence: int, now: datetime) -> int:
    """Return a fence above the one that a job or run has.

    It is not below the present moment in microseconds, so that it also grows where a job was removed and added again.
    """
    return max(fence + 1, to_micros(now))


def gathered(
    job: Job, due: datetime, now: datetime, keep: int | None = None
) -> tuple[Sequence[datetime], int, datetime | None]:
    """Return the newest of the fire times that have gathered by ``now``, how many are older, and the next."""
    backlog = job.trigger.backlog(due, now, keep or (1 if job.coalesce else CATCH_UP))
    following = _following(job, backlog.latest[-1], now)
    if following is not None and following <= now:  # too many to count: go on from now
        following = job.trigger.get_next_fire_time(None, now)
    return backlog.latest, backlog.count - len(backlog.latest), following


def _in_time(
    job: Job, times: Sequence[datetime], now: datetime, new_id: Callable[[], str]
) -> tuple[Sequence[datetime], list[Attempt]]:
    """Return the times that are not too late, and a record for each of the others."""
    grace = job.misfire_grace_time
    if grace is None:
        return times, []
    late = [time for time in times if (now - time).total_seconds() > grace]
    return times[len(late) :], [_record(job, time, now, OutcomeKind.MISSED, new_id()) for time in late]


def _beside(
    job: Job, times: Sequence[datetime], now: datetime, new_id: Callable[[], str], left_out: LeftOut
) -> tuple[Sequence[datetime], list[Attempt]]:
    """Return the times that are not left out, and a record for the others that have the same reason."""
    others: dict[str, list[datetime]] = {}
    for time in times:
        others.setdefault(left_out(time), []).append(time)
    kept = others.pop("", [])
    skipped = OutcomeKind.SKIPPED
    return kept, [_record(job, out[0], now, skipped, new_id(), len(out), why) for why, out in others.items()]


def _while_open(
    job: Job, times: Sequence[datetime], now: datetime, new_id: Callable[[], str]
) -> tuple[Sequence[datetime], list[Attempt]]:
    """Return the times at which the calendar of the trigger is open, and a record for each of the others."""
    reasons = {time: reason for time in times if (reason := job.trigger.closed(time))}
    if not reasons:
        return times, []
    skipped = OutcomeKind.SKIPPED
    records = [_record(job, time, now, skipped, new_id(), reason=f"closed: {why}") for time, why in reasons.items()]
    return [time for time in times if time not in reasons], records


def _following(job: Job, previous: datetime, now: datetime) -> datetime | None:
    following = job.trigger.get_next_fire_time(previous, now)
    if following is not None and following <= previous and to_micros(following) <= to_micros(previous):
        raise ValueError(f"after {previous} it answered {following}, which is not later")
    return following


def _record(
    job: Job, time: datetime, now: datetime, kind: OutcomeKind, run_id: str, count: int = 1, reason: str = ""
) -> Attempt:
    reason = reason or f"missed by {now - time}"
    return Attempt(Run(run_id, job, time, time), Outcome(kind, reason=reason), now, count)


def _named(trigger: object) -> str:
    try:
        return str(trigger)
    except Exception:
        return type(trigger).__name__
