"""What has to hold when a simulation is over: nothing is missing, nothing is stuck, and the history is complete."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from sim_book import Chain, Violation, counts_as_attempt
from sim_workload import UNTIL

from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing.clock import START

if TYPE_CHECKING:
    from sim_workload import JobPlan
    from sim_world import World

EVERYTHING = HistoryQuery(limit=1_000_000)


def check_at_the_end(world: World) -> None:
    """Raise a violation if something does not add up."""
    _check_stuck(world)
    _check_targets(world)
    _check_history(world)
    letters = Counter(letter.run.id for letter in world.truth.dead_letters(EVERYTHING))
    for run_id, chain in world.book.chains.items():
        if chain.outs:
            _check_chain(run_id, chain, letters[run_id])


def _check_stuck(world: World) -> None:
    live, pending = world.truth.live_runs(), world.truth.pending_runs()
    if live:
        raise Violation("stuck", f"{[(run.job.id, run.id[-3:], (run.owner or '')[-4:]) for run in live]} are live")
    if pending:
        raise Violation("stuck", f"{[(run.job.id, run.id[-3:]) for run in pending]} wait")
    for job in world.truth.get_all_jobs():
        if job.next_run_time is not None:
            raise Violation("stuck", f"{job.id} is due at {job.next_run_time}, suspended: {job.suspended}")
    for process in world.all_processes:
        if process in world.processes and process.last_round <= UNTIL:
            raise Violation("stuck", f"{process.name} does no rounds although all has healed")


def _check_targets(world: World) -> None:
    """Every fire time became a run or a record, exactly once."""
    for key, fate in world.people.generations.items():
        job = world.people.jobs[key[0]]
        targets = targets_of(job)
        strange = [time for time in world.book.times[key] if round((time - START).total_seconds(), 3) not in targets]
        if strange:
            raise Violation("fired at a time that nobody asked for", f"{key[0]} at {strange[0]}")
        first = world.book.first.get(key)
        if fate == "added" and first is None:
            raise Violation("missing", f"{key[0]} was added, and is not in the store")
        undisturbed = world.people.touched[key[0]] <= {"add", "run_now", "modify", "cancel", "redrive"}
        if first is not None and undisturbed:
            expected = sum(time >= round((first - START).total_seconds(), 3) for time in targets)
            if world.book.accounted[key] != expected:
                raise Violation("missing", f"{key[0]}: {world.book.accounted[key]} of {expected} fire times")


def targets_of(job: JobPlan) -> set[float]:
    """Return when a job is to fire, in seconds since the start."""
    if job.every is None:
        return {round(job.first, 3)}
    times, moment, every = set(), timedelta(seconds=job.first), timedelta(seconds=job.every)
    while moment <= timedelta(seconds=UNTIL - 1):
        times.add(round(moment.total_seconds(), 3))
        moment += every
    return times


def _check_history(world: World) -> None:
    """Every end that was accepted stands in the history, once."""
    history = world.truth.history(EVERYTHING)
    records = Counter((record.run_id, record.fence) for record in history if record.owner is not None)
    for run_id, chain in world.book.chains.items():
        for attempt in chain.ends:
            times = records[run_id, attempt.run.fence]
            if times != 1:
                raise Violation("history", f"{run_id[-3:]}/{attempt.run.fence} is there {times} times")
        for out in chain.outs:
            if out.ended is None:
                raise Violation("history", f"{run_id[-3:]}/{out.run.fence} never ended")


def _check_chain(run_id: str, chain: Chain, letters: int) -> None:
    """A run has succeeded, was called off, or is a dead letter: one of these."""
    if not chain.ends or chain.redriven:
        return
    last = chain.ends[-1]
    job, kind = last.run.job, last.outcome.kind
    name = f"{job.id} {run_id[-3:]}, {kind.value} at the end"
    if letters > 1 or (letters and kind in (OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED, OutcomeKind.MISSED)):
        raise Violation("dead letter", f"{name}: there are {letters}")
    called_off = chain.over == "dropped" or bool(chain.cancel_requests) or chain.removed
    attempts = job.retry.max_attempts if job.retry is not None else 1
    used = sum(map(counts_as_attempt, chain.ends))
    if kind in (OutcomeKind.FAILED, OutcomeKind.TIMED_OUT):
        if used < attempts and not called_off:
            raise Violation("missing", f"{name}: {used} of {attempts} attempts were made")
        if used > attempts:
            raise Violation("attempts counted wrongly", f"{name}: {used} of {attempts}")
        if used == attempts and not letters:
            raise Violation("dead letter", f"{name}: there is none")
    elif kind is OutcomeKind.SNOOZED and not called_off:
        raise Violation("missing", f"{name}: it was put back and never run")

