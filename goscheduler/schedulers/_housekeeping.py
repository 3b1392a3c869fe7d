"""Periodic work beside firing: lost owners, old records, orphaned jobs, missing executors.

It settles the runs of owners that were lost, forgets records that nobody wants any more, warns of jobs whose executor
no process has, and puts jobs and runs back in line that a store would not find any more.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from goscheduler.errors import shown, survivable
from goscheduler.events import EventCode, JobEvent
from goscheduler.runs.blackouts import BLACKOUT, KEPT
from goscheduler.runs.bulk import BULK
from goscheduler.runs.stats import STATS_KINDS
from goscheduler.runs.transitions import crashed
from goscheduler.schedulers._announce import announce_settlements, log_ends
from goscheduler.schedulers._bulk import take_up_abandoned
from goscheduler.schedulers._following import LOOK_AGAIN
from goscheduler.schedulers._inbox import drain_inboxes
from goscheduler.schedulers._lease import RENEW_AFTER
from goscheduler.schedulers._statistics import STATS_KEPT, write_statistics
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run, Settlement
    from goscheduler.schedulers._engine import Engine

#: How often old records are looked for, in seconds.
PRUNE_INTERVAL = 60.0
#: At most so many records are forgotten in one write.
BATCH = 500
#: A store with more to forget is asked again, for at most so many seconds; the rest waits for a while, not for long.
MAX_PRUNING_SECONDS = 0.05
PRUNE_AGAIN = 1.0
#: A job counts as one that waits for its executor when it has been due for so long: processes start one by one.
OVERDUE = timedelta(seconds=60)
#: How often strays are looked for among all jobs and runs, in seconds; how many are looked at in one go; and the pause
#: before the next ones are.
STRAYS_INTERVAL = 300.0
STRAYS_AT_ONCE = 500
STRAYS_AGAIN = 1.0
#: At most so many are named in the log.
NAMED = 10
#: Kinds of notes whose keys begin with the moment that they are about → for how long they are kept.
TIMED_NOTES = {
    BULK: timedelta(days=90), BLACKOUT: KEPT,
     **{STATS_KINDS[seconds]: kept for seconds, kept in STATS_KEPT.items()},
}  # fmt: skip
#: While there is work, all this is put off for so many seconds.
PUT_OFF = 2.0


def look_after_stores(engine: Engine, busy: bool) -> float:
    """Do what is due, and return the seconds until the next time. Who is ``busy`` does it somewhat later."""
    now = engine.clock.monotonic()
    if engine.chores_due_at is None:
        engine.chores_due_at = engine.prune_due_at = engine.orphans_due_at = now
    wait = engine.chores_due_at + (PUT_OFF if busy else 0.0) - now
    if engine.calendars.wanted:
        engine.calendars.read()
        engine.wake()
    if wait > 0 and not engine.following.hurried:
        return wait
    recover(engine)
    take_up_abandoned(engine)
    write_statistics(engine)
    engine.calendars.look()
    more_followers = engine.following.look()
    engine.blackouts.look()
    more_requests = drain_inboxes(engine)
    if engine.prune_due_at <= now:
        more = prune(engine)
        if not more:
            warn_of_missing_executors(engine)
        engine.prune_due_at = now + (PRUNE_AGAIN if more else PRUNE_INTERVAL)
    if engine.orphans_due_at <= now:
        more = requeue_orphans(engine)
        if not more:
            try_slow_imports_again(engine)
        engine.orphans_due_at = now + (STRAYS_AGAIN if more else STRAYS_INTERVAL)
    shared = any(store.shared for store in engine.stores.values())
    interval = engine.leases.length * RENEW_AFTER if shared else PRUNE_INTERVAL
    interval = min(interval, engine.prune_due_at - now, engine.orphans_due_at - now)
    interval = min(interval, LOOK_AGAIN) if more_followers else interval
    interval = 0.0 if more_requests else interval
    engine.chores_due_at = now + interval
    return interval


def recover(engine: Engine) -> None:
    """Settle the runs of owners whose lease has lapsed, in every shared store that answers and that we may use."""
    now = engine.clock.now()

    def decide(run: Run, host: str = "") -> Settlement:
        return crashed(run, now, engine.random_number, host)

    for alias, store in engine.stores.items():
        if not store.shared or alias in engine.outages or not engine.leases.may_claim(alias, store):
            continue
        try:
            settlements = store.recover_runs(now, decide)
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not search for lost runs: %s', alias, error, exc_info=error)
            continue
        log_ends(engine, settlements)
        engine.statistics.count_ends(alias, settlements)
        announce_settlements(engine, alias, settlements)
        engine.following.settled(alias, settlements)
        if settlements:
            engine.wake()


def prune(engine: Engine) -> bool:
    """Forget jobs that are over and records that the retention does not keep, in every store that answers.

    True if there is more to forget.
    """
    more = False
    for alias, store in engine.stores.items():
        if alias in engine.outages:
            continue
        try:
            _prune_jobs(engine, alias, store)
            _prune_notes(engine, store)
            more = _prune_store(engine, store) or more
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not delete old records: %s', alias, error, exc_info=error)
    return more


def _prune_jobs(engine: Engine, alias: str, store: BaseJobStore) -> None:
    removed = store.prune_finished_jobs(engine.retention, engine.clock.now(), BATCH)
    for job_id in removed:
        text = "Removed job %s, which has fired for the last time and was kept for long enough"
        engine.logger.info(text, job_id, extra={"job_id": job_id})
    if engine.bus.wants(EventCode.JOB_REMOVED):
        engine.emit([JobEvent(EventCode.JOB_REMOVED, job_id, alias) for job_id in removed])


def _prune_notes(engine: Engine, store: BaseJobStore) -> None:
    now = engine.clock.now()
    for kind, kept in TIMED_NOTES.items():
        store.prune_notes(kind, f"{to_micros(now - kept):016x}", BATCH)


def _prune_store(engine: Engine, store: BaseJobStore) -> bool:
    """Forget records for a short while; true if there are more."""
    end = engine.clock.monotonic() + MAX_PRUNING_SECONDS
    while store.prune_history(engine.retention, engine.clock.now(), BATCH) >= BATCH:
        if engine.clock.monotonic() >= end:
            return True
    return False


def warn_of_missing_executors(engine: Engine) -> None:
    """Say, once for each executor, that jobs of a shared store wait for one that no process has.

    Nobody asks a shared store for such jobs, so nobody comes across them when they are due.
    """
    for alias, store in engine.stores.items():
        if not store.shared or alias in engine.outages:
            continue
        try:
            _warn_of_missing_executors(engine, alias, store)
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not count due jobs: %s', alias, error, exc_info=error)


def _warn_of_missing_executors(engine: Engine, alias: str, store: BaseJobStore) -> None:
    now = engine.clock.now()
    known = {*engine.executors, *(name for owner in store.owners(now) for name in owner.executors)}
    missing = store.count_due_beside(known, now - OVERDUE)
    for executor in missing.keys() - engine.missing_executors.get(alias, set()):
        engine.logger.warning(
            'Job store "%s" has %d due jobs for the executor "%s", which no process has; they wait until a process '
            "with that executor starts", alias, missing[executor], executor,
        )  # fmt: skip
    engine.missing_executors[alias] = set(missing)


def try_slow_imports_again(engine: Engine) -> None:
    """Let the jobs fire that a process suspended because of a slow import: it may have died before that ended."""
    for alias, store in engine.stores.items():
        if not store.shared or alias in engine.outages:
            continue
        try:
            engine.release_suspended(alias, store, engine.is_loadable_by_now)
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not list suspended jobs: %s', alias, error, exc_info=error)


def requeue_orphans(engine: Engine) -> bool:
    """Put some jobs and runs back in line that nobody would find any more, in every shared store that answers.

    True if there are others to be looked at.
    """
    more = False
    for alias, store in engine.stores.items():
        if not store.shared or alias in engine.outages:
            continue
        try:
            put_back = store.requeue_orphans(STRAYS_AT_ONCE)
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not search for orphaned jobs: %s', alias, error, exc_info=error)
            continue
        more = more or put_back.more
        if put_back.ids:
            named = ", ".join(map(shown, put_back.ids[:NAMED])) + (", ..." if len(put_back.ids) > NAMED else "")
            engine.logger.warning(
                'Job store "%s" had %d jobs or runs that no queue listed, so no process would have run them; they are '
                "queued again: %s", alias, len(put_back.ids), named,
            )  # fmt: skip
            engine.wake()
    return more
