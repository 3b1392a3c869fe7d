"""One round of the scheduler: what happens when a job is due.

For each store: ask it to fire what is due and to hand out what is pending, as much as there is room for; notify the
listeners; hand the runs to their executors. The store has written everything before anything is started, so a crash at
any point leaves runs that are owned by us, and that are handed out again when our lease has lapsed.

A store that raises is skipped for a while; the other stores go on. No error in a round ends the loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from goscheduler._resolver import NOT_LOADED_YET
from goscheduler.errors import survivable
from goscheduler.events import EventCode
from goscheduler.executors.call import cancelled, failed, snoozed
from goscheduler.jobstores.base import Claimed, Fired, FireRequest
from goscheduler.runs.model import Source
from goscheduler.runs.plan import FiringPlanner, admit
from goscheduler.schedulers._announce import announce_firing, announce_submissions
from goscheduler.schedulers._backfill import reason_not_to_start
from goscheduler.schedulers._housekeeping import look_after_stores
from goscheduler.schedulers._lease import RENEW_AFTER
from goscheduler.schedulers._removal import acknowledge_revocations, apply_cancel_requests

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run
    from goscheduler.schedulers._engine import Engine

#: The wait after a round in which a store reported due jobs and returned none.
EMPTY_ROUND_WAIT_SECONDS = 0.5
#: The wait before a store is asked again for cancel requests, in seconds.
CANCEL_POLL_RETRY_SECONDS = 1.0
#: The delay of a run that cannot start here although its job could when it fired, in seconds.
OBSTACLE_WAIT_SECONDS = 10.0
#: The delay of a run whose function is being imported, in seconds.
IMPORT_WAIT_SECONDS = 1.0


class RoundResult(NamedTuple):
    """What one round in one store has left for the next."""

    wait: float
    """Seconds until the store needs another look."""
    out_of_capacity: bool = False
    """Whether work was left because the executors were full."""
    blocked: bool = False
    """Whether runs were left that wait for others to end."""


def process_due(engine: Engine, retry_interval: float) -> float:
    """Fire what is due in every store, and return the seconds until the next round."""
    loop = engine.loop
    loop.begin_round(engine.clock.monotonic())
    engine.watch_clock()
    until_leases = engine.leases.look()
    results = [process_store_safely(engine, alias, store, retry_interval) for alias, store in engine.stores.items()]
    wait = min(until_leases, *(result.wait for result in results), engine.running.look())
    blocked = any(result.blocked for result in results)
    out_of_capacity = any(result.out_of_capacity for result in results)
    loop.stores_processed(seconds_until_due=wait, wants_capacity=blocked or out_of_capacity)
    until_housekeeping = look_after_stores(engine, busy=out_of_capacity or wait <= 0)
    wait = min(wait, until_housekeeping, engine.poll_interval)
    loop.end_round(sleeping_until=engine.clock.now().timestamp() + wait, now=engine.clock.monotonic())
    return 0.0 if blocked and loop.runs_ended_during_round() else wait


def process_store_safely(engine: Engine, alias: str, store: BaseJobStore, retry_interval: float) -> RoundResult:
    """Process one store, unless it is out; if it raises, leave it alone for a while."""
    pause = engine.outages.remaining(alias, engine.clock.monotonic())
    if pause:
        return RoundResult(pause)
    if not engine.leases.may_claim(alias, store):  # not asked, so nothing can be said about its answering
        return RoundResult(engine.leases.length * RENEW_AFTER)
    try:
        result = process_store(engine, alias, store)
    except BaseException as error:
        if not survivable(error):
            raise
        return RoundResult(note_outage(engine, alias, error, retry_interval))
    if engine.outages.ended(alias):
        engine.logger.info('Job store "%s" answers again', alias)
        engine.emit_scheduler_event(EventCode.SCHEDULER_RECOVERED, alias)
    return result


def process_store(engine: Engine, alias: str, store: BaseJobStore) -> RoundResult:
    """Fire and claim, announce, hand over."""
    if store.detected_failover():
        engine.reconciler.mark_uncertain(alias)
    engine.reconciler.reconcile(alias, store)
    engine.release_known_tasks(alias, store)
    request = fire_request(engine, alias, store)
    if alias in engine.loop.claim_first:
        claimed = claim(engine, alias, store, request)
        request = request.after(claimed.runs)
        if claimed.runs:
            engine.loop.claim_first.discard(alias)
    fired = engine.statistics.timed(alias, store.fire_due, request)
    engine.statistics.count_fired(alias, fired)
    announce_firing(engine, alias, fired)
    take_over(engine, alias, store, fired.runs)
    hand_over(engine, alias, fired.runs, planned=True)
    if fired.error is not None:
        raise fired.error
    engine.blackouts.check_holds(alias, store)
    claimed = claim(engine, alias, store, request.after(fired.runs))
    if fired.runs and claimed.more:
        engine.loop.claim_first.add(alias)  # or firings might take all the room for ever
    # A round may take its time: a slow store, or an executor that runs jobs on the thread of the loop.
    passed = max(0.0, (engine.clock.now() - request.now).total_seconds())
    wait = max(0.0, seconds_until_next(fired.now or request.now, fired, claimed) - passed)
    return RoundResult(min(wait, store.poll_after()), fired.more, claimed.more)


def fire_request(engine: Engine, alias: str, store: BaseJobStore) -> FireRequest:
    """Return what a store is asked for in this round."""
    now, owner, room = engine.clock.now(), engine.leases.owner_of(alias), engine.room()
    # With the executors of this round: one that is removed meanwhile would suspend jobs that other processes can run.
    in_blackout = engine.blackouts.planner(alias, store)
    planner = FiringPlanner(owner, partial(engine.obstacle, executors=room), engine.new_run_id, in_blackout)
    return FireRequest(now, owner, room, planner, admit, engine.tasks.names() if store.shared else ())


def note_outage(engine: Engine, alias: str, error: BaseException, retry_interval: float) -> float:
    """Take note that a store has raised, and return the seconds until it is asked again."""
    engine.reconciler.mark_uncertain(alias)
    engine.statistics.count_store_error(alias)
    first = alias not in engine.outages
    pause = engine.outages.failed(alias, engine.clock.monotonic(), retry_interval)
    engine.logger.warning(
        'Error getting due jobs from job store "%s": %s; trying again in %.1f seconds', alias, error, pause,
        exc_info=error if first else None,
    )
    if first:
        engine.emit_scheduler_event(EventCode.SCHEDULER_DEGRADED, alias)
    return pause


def claim(engine: Engine, alias: str, store: BaseJobStore, request: FireRequest) -> Claimed:
    """Claim pending runs, announce them, hand them over; pass on cancel requests."""
    claimed = engine.statistics.timed(alias, store.claim_runs, request)
    engine.statistics.count_claimed(alias, claimed.runs)
    called_off = apply_cancel_requests(engine, claimed.to_cancel)
    announce_submissions(engine, alias, claimed.runs)
    take_over(engine, alias, store, claimed.runs)
    hand_over(engine, alias, claimed.runs)
    if called_off:
        acknowledge_revocations(engine, store, request.owner, called_off)
    if claimed.error is not None:
        raise claimed.error
    return claimed


def hear(engine: Engine) -> float:
    """Read cancel requests for our runs while nothing fires; return the seconds until the next read."""
    wait = math.inf
    for alias, store in engine.stores.items():
        if not engine.reconciler.has_runs(alias):
            continue
        try:
            if engine.leases.may_claim(alias, store):
                owner = engine.leases.owner_of(alias)
                planner = FiringPlanner(owner, engine.obstacle, engine.new_run_id)
                claim(engine, alias, store, FireRequest(engine.clock.now(), owner, {}, planner, admit))
            wait = min(wait, store.poll_after(), engine.poll_interval)
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not tell cancel requests: %s; asking again', alias, error)
            wait = min(wait, CANCEL_POLL_RETRY_SECONDS)
    return wait


def take_over(engine: Engine, alias: str, store: BaseJobStore, runs: Sequence[Run]) -> None:
    """Note that these runs are ours, if the store is shared."""
    if store.shared and runs:
        engine.reconciler.track(alias, runs)


def hand_over(engine: Engine, alias: str, runs: Sequence[Run], planned: bool = False) -> None:
    """Submit each run to its executor. A run that cannot be submitted gets an outcome; none is lost.

    Those that were ``planned`` a moment ago can be run here, unless their executor was removed since.
    """
    for run in runs:
        run.job._jobstore_alias = alias
        executor = engine.executors.get(run.job.options.executor)
        obstacle = None if planned and executor is not None else engine.obstacle(run.job)
        if executor is None or obstacle is not None:
            # Where its executor is gone nothing hands the run out until there is one again.
            wait = IMPORT_WAIT_SECONDS if obstacle is NOT_LOADED_YET else OBSTACLE_WAIT_SECONDS
            engine.report(run, snoozed(obstacle or "", 0.0 if executor is None else wait))
            continue
        if run.source is Source.BACKFILL and _is_over(engine, alias, run):
            continue
        try:
            executor.submit(run)
        except BaseException as error:
            if not survivable(error):
                raise  # from a signal: the executor may well have taken the run
            engine.report(run, failed(error, reason=f'could not be submitted to executor "{run.job.executor}"'))


def _is_over(engine: Engine, alias: str, run: Run) -> bool:
    """Give a run of a backfill its outcome if it is not to start, or the store cannot tell; false if it may."""
    try:
        reason = reason_not_to_start(engine.stores[alias], run)
        if not reason:
            return False
        engine.report(run, cancelled(reason))
    except BaseException as error:
        if not survivable(error):
            raise
        engine.report(run, snoozed(f"its store could not tell whether it is to start: {error}",
                                   OBSTACLE_WAIT_SECONDS))  # fmt: skip
    return True


def seconds_until_next(now: datetime, fired: Fired, claimed: Claimed) -> float:
    """Return how long nothing is due. If executors were full, the end of a run wakes the loop earlier."""
    times = [time for time in (fired.next_due, claimed.next_due) if time is not None]
    if any(time <= now for time in times):
        return 0.0 if fired.runs or fired.records or claimed.runs else EMPTY_ROUND_WAIT_SECONDS
    return min(((time - now).total_seconds() for time in times), default=math.inf)
