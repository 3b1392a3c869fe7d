"""Jobs that follow others: who they are, and their firing when those have ended.

A follower is written down as a note of its store too, so that a process knows which ends are of interest without
looking through the jobs. Who settles the end of such a run compares the follower's cursor with the ends that the
history has, and fires it in one step of the store. Housekeeping compares again:

======================================  ===============================================================================
a process dies, or                      what follows
======================================  ===============================================================================
before the end is written               nothing has ended; the run is recovered
after the end, before the firing        the next housekeeping of any process finds the end in the history, and fires
after the firing                        the cursor says that the end was followed
does not know of the follower yet       it reads the notes with its next housekeeping; the one that added it looks too
two processes fire at once              the second finds the cursor moved, and changes nothing
======================================  ===============================================================================

Of all processes one looks after a follower at a time, each in its turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from goscheduler.errors import described, survivable
from goscheduler.events import EventCode, JobSuspensionEvent
from goscheduler.job import copy_with
from goscheduler.options import parse_options
from goscheduler.runs.model import Source
from goscheduler.runs.queries import follows, is_readable
from goscheduler.schedulers._follower_notes import (
    KIND,
    REUSED_FOR,
    Follower,
    by_job,
    outdated,
    read_followers,
    write_follower,
)
from goscheduler.schedulers._lease import RENEW_AFTER
from goscheduler.schedulers._upstream import Upstream, check_upstream, circle_of, refuse_itself
from goscheduler.times import to_micros, utc_timestamp
from goscheduler.triggers.after import SLACK, AfterTrigger, End, after_words
from goscheduler.util import undefined

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Settlement
    from goscheduler.schedulers._engine import Engine

#: For so many seconds at once followers are looked after; the others come a second later.
LOOK_SECONDS = 0.25
LOOK_AGAIN = 1.0
#: At most so many are fired with one write.
BATCH = 50
#: How the reason begins for which a follower is suspended here.
WAITS_FOR = "waits for "


class _Due(NamedTuple):
    """What a follower is fired with."""

    ends: Mapping[str, Sequence[End]]
    covered: bool


class Following:
    """The followers in the stores of one scheduler."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._followers: dict[str, dict[str, frozenset[str]]] = {}
        """Alias → upstream job → its followers; nothing for a store that has none."""
        self._noted: dict[str, dict[str, tuple[Follower, ...]]] = {}
        """Alias → job → its notes, as they were read last."""
        self._read_at: dict[str, float] = {}
        """Alias → when they were."""
        self._left: dict[str, dict[str, None]] = {}
        """Alias → the followers that are still to be looked after, in this order."""
        self.hurried = False
        """Whether housekeeping is to look after followers now: an end had more of them than could be fired at once."""
        self._edition = 0
        self._lock = threading.Lock()

    # Adding

    def check(self, alias: str, job: Job, beside: Mapping[str, Job] | None = None) -> None:
        """Raise InvalidArgument if a job cannot wait for those it names; ``beside`` are added together with it."""
        if not job.trigger.upstream:
            return
        stores = self._engine.stores
        if alias in stores:
            check_upstream(job, stores[alias], beside or {}, stores)
        else:
            refuse_itself(job)

    def prepare(self, alias: str, job: Job, paused: bool) -> None:
        """Fill in what a follower needs before it is written: its cursors, its note, and that it queues by default."""
        if not isinstance(job.trigger, AfterTrigger):
            return
        job.trigger = self.placed(alias, job.id, job.trigger)
        if _is_open(job.options.overlap):
            job.options = parse_options({"overlap": "queue"}, job.options)
        if paused and job.stats.paused_by is None:
            job.stats = job.stats._replace(paused_by="add_job")

    def placed(self, alias: str, job_id: str, trigger: AfterTrigger) -> AfterTrigger:
        """Return the trigger with cursors behind all ends until now, unless it has some, and note that there is one."""
        store, now = self._engine.stores[alias], to_micros(self._engine.clock.now())
        if not trigger.placed:
            trigger = trigger.begun(Upstream(store).ends(trigger, now - SLACK), now)
        if alias not in self._noted:
            self._noted[alias] = by_job(read_followers(store))
        young = (each for each in self._noted[alias].get(job_id, ()) if now - each.noted_at < REUSED_FOR)
        noted = next((each for each in young if each.upstream == trigger.upstream), None)
        self._know(alias, noted or write_follower(store, job_id, trigger.upstream, now))
        return trigger

    def added(self, alias: str, job: Job) -> None:
        """Keep the jobs that a new follower waits for and that would be removed after they have fired once more."""
        store = self._engine.stores[alias]
        for upstream in job.trigger.upstream:
            found = store.lookup_job(upstream)
            if found is not None and is_readable(found) and _is_removed_soon(found):
                store.edit_job(upstream, _kept)

    def keep(self, alias: str | None, job: Job) -> None:
        """See to it that a job which is about to be written is kept after its last firing if others follow it."""
        if alias is not None and job.id in self._followers.get(alias, ()) and _is_removed_soon(job):
            job.options = parse_options({"auto_remove": False}, job.options)

    def _know(self, alias: str, follower: Follower) -> None:
        with self._lock:
            self._edition += 1
            known = dict(self._followers.get(alias, {}))
            for one in follower.upstream:
                known[one] = known.get(one, frozenset()) | {follower.job_id}
            self._followers = {**self._followers, alias: known}
            notes = self._noted.setdefault(alias, {})
            notes[follower.job_id] = tuple({*notes.get(follower.job_id, ()), follower})

    # Following

    def settled(self, alias: str, settlements: Sequence[Settlement]) -> None:
        """Fire what waits for the runs that have ended; what cannot be done now is done by housekeeping."""
        followers = self._followers.get(alias)
        if not followers:
            return
        ended = {each.attempt.run.job.id for each in settlements if each.follow_up is None}
        waiting = sorted({job_id for one in ended & followers.keys() for job_id in followers[one]})
        store = self._engine.stores.get(alias)
        if waiting and store is not None:
            left = dict.fromkeys(waiting)
            self._look_after(alias, store, left)
            if left:
                self._leave(alias, left)

    def _leave(self, alias: str, job_ids: Mapping[str, None]) -> None:
        """Let housekeeping look after followers, without delay unless it is at it already."""
        with self._lock:
            self.hurried = self.hurried or not any(self._left.values())
            self._left[alias] = {**self._left.get(alias, {}), **job_ids}
        self._engine.wake()

    def look(self) -> bool:
        """Find out who follows whom in every store that answers, and fire what was not fired when it should.

        True if the time for it was over before all followers were looked at.
        """
        self.hurried = False
        for alias, store in self._engine.stores.items():
            if alias in self._engine.outages:
                continue
            try:
                self._look(alias, store)
            except BaseException as error:
                if not survivable(error):
                    raise
                text = 'Job store "%s" could not tell which jobs follow others: %s'
                self._engine.logger.warning(text, alias, described(error))
        return any(self._left.get(alias) for alias in self._engine.stores if alias not in self._engine.outages)

    def _look(self, alias: str, store: BaseJobStore) -> None:
        with self._lock:
            left = self._left.pop(alias, {})
        try:
            if not left or self._is_old(alias):
                left |= dict.fromkeys(self._ours(alias, store, self._refreshed(alias, store)))
            self._look_after(alias, store, left)
        finally:
            with self._lock:
                self._left[alias] = {**left, **self._left.get(alias, {})}

    def _is_old(self, alias: str) -> bool:
        interval = self._engine.leases.length * RENEW_AFTER
        return self._engine.clock.monotonic() - self._read_at.get(alias, 0.0) >= interval

    def _refreshed(self, alias: str, store: BaseJobStore) -> Iterable[str]:
        """Read the notes of a store, and return the jobs that they are about."""
        edition, self._read_at[alias] = self._edition, self._engine.clock.monotonic()
        followers = read_followers(store)
        known: dict[str, frozenset[str]] = {}
        for each in followers:
            for one in each.upstream:
                known[one] = known.get(one, frozenset()) | {each.job_id}
        with self._lock:
            if edition == self._edition:
                self._noted[alias] = by_job(followers)
                if known or alias in self._followers:
                    self._followers = {**self._followers, alias: known}
        return {each.job_id for each in followers}

    def _ours(self, alias: str, store: BaseJobStore, followers: Iterable[str]) -> list[str]:
        """Return the followers that it is our turn to look after."""
        ids = sorted(followers)
        if not ids or not store.shared:
            return ids
        now, ours = self._engine.clock.now(), self._engine.leases.owner_of(alias)
        owners = sorted(owner.id for owner in store.owners(now))
        if ours not in owners:
            return ids
        turn = int(utc_timestamp(now) / max(0.1, self._engine.leases.length * RENEW_AFTER))
        place, number = owners.index(ours), len(owners)
        return [job_id for job_id in ids if (crc32(job_id.encode()) + turn) % number == place]

    def _look_after(self, alias: str, store: BaseJobStore, left: dict[str, None]) -> None:
        """Fire the followers that are due, and take each out of ``left``, until the time for it is over.

        An outage ends it too: each further question would take as long as this one, to no avail.
        """
        upstream, end = Upstream(store), self._engine.clock.monotonic() + LOOK_SECONDS
        while left:
            seen: list[str] = []
            due: dict[str, _Due] = {}
            for job_id in islice(left, BATCH):
                if not self._try(alias, store, job_id, partial(self._examine, alias, store, job_id, upstream, due)):
                    return
                seen.append(job_id)
                if self._engine.clock.monotonic() >= end:
                    break
            if due and not self._try(alias, store, next(iter(due)), partial(self._fire, store, due)):
                return
            for job_id in seen:
                del left[job_id]
            if self._engine.clock.monotonic() >= end:
                return

    def _try(self, alias: str, store: BaseJobStore, job_id: str, step: Callable[[], None]) -> bool:
        """Do something about followers; false if the store cannot be reached."""
        try:
            step()
        except BaseException as error:
            if not survivable(error):
                raise
            self._engine.logger.warning(
                'Job "%s" follows others, but job store "%s" could not tell whether they have ended (%s); it is '
                "looked at again soon", job_id, alias, described(error), extra={"job_id": job_id},
            )  # fmt: skip
            return not store.is_outage(error)
        return True

    def _examine(
        self, alias: str, store: BaseJobStore, job_id: str, upstream: Upstream, due: dict[str, _Due]
    ) -> None:
        """Put a follower among those that are ``due`` if all that it waits for has ended; suspend it if that cannot
        happen."""
        job = store.lookup_job(job_id)
        if job is not None and follows(job) and isinstance(job.trigger, AfterTrigger):
            ends = upstream.ends(job.trigger, to_micros(self._engine.clock.now()) - SLACK)
            if job.trigger.placed and job.trigger.missing(ends):
                self._suspend_or_release(alias, store, job, upstream)
            else:
                due[job_id] = _Due(ends, any(_is_unstarted(job_id, each) for each in store.pending_runs(job_id)))
        self._clean(alias, store, job_id, job)

    def _fire(self, store: BaseJobStore, due: Mapping[str, _Due]) -> None:
        now = self._engine.clock.now()
        edited = store.edit_jobs(list(due), lambda found: followed(found, *due[found.id], now))
        for job in edited.changed:
            self._engine.logger.debug('Job "%s" follows: %s', job.id, job.trigger, extra={"job_id": job.id})
        if edited.changed:
            self._engine.jobs._wake()

    def _suspend_or_release(self, alias: str, store: BaseJobStore, job: Job, upstream: Upstream) -> None:
        reason, suspended = obstacle_of(job, upstream), job.suspended
        if reason is None and suspended is not None and suspended.startswith(WAITS_FOR):
            if store.release(job.id):
                self._engine.emit([JobSuspensionEvent(EventCode.JOB_RELEASED, job.id, alias, suspended)])
            return
        may_be_kept = store.shared or store.keeps_objects  # others keep no reason with a job; ``why`` finds out
        if may_be_kept and reason is not None and suspended is None and job.next_run_time is None:
            store.edit_job(job.id, lambda found: _suspended(found, reason))
            text = 'Job "%s" is suspended: it %s; it goes on when that has changed'
            self._engine.logger.warning(text, job.id, reason, extra={"job_id": job.id})
            self._engine.emit([JobSuspensionEvent(EventCode.JOB_SUSPENDED, job.id, alias, reason)])

    def _clean(self, alias: str, store: BaseJobStore, job_id: str, job: Job | None) -> None:
        """Take away the notes that a job does not need any more."""
        notes, now = self._noted.get(alias, {}), to_micros(self._engine.clock.now())
        for each in outdated(notes.get(job_id, ()), job, now):
            store.remove_note(KIND, each.key)
            with self._lock:
                notes[job_id] = tuple(one for one in notes[job_id] if one != each)


def followed(job: Job, ends: Mapping[str, Sequence[End]], covered: bool, now: datetime) -> Job:
    """Return a follower as it is once these ends are followed; itself if there is nothing new in them.

    Its run is ``covered`` if one of it waits that has not started, which will see what these ends have left.
    """
    trigger = job.trigger
    if not isinstance(trigger, AfterTrigger) or not follows(job):
        return job
    if not trigger.placed:
        return copy_with(job, trigger=trigger.begun(ends, to_micros(now)))
    if trigger.missing(ends):
        return job
    edited = copy_with(job, trigger=trigger.behind(ends))
    if edited.next_run_time is None and not covered:
        edited.next_run_time = now + trigger.delay
    if edited.suspended is not None and edited.suspended.startswith(WAITS_FOR):
        edited.suspended = None
    return edited


def obstacle_of(job: Job, upstream: Upstream) -> str | None:
    """Return why a follower would wait for ever, or None."""
    for one in job.trigger.upstream:
        if upstream.job(one) is None:
            return f"{WAITS_FOR}'{one}', which does not exist"
    circle = circle_of(job, upstream.job)
    return f"{WAITS_FOR}itself: {circle}" if circle else None


def awaited_of(store: BaseJobStore, job: Job, now: datetime) -> list[str]:
    """Return in words what a follower still waits for; nothing of a job that is none."""
    trigger = job.trigger
    if not isinstance(trigger, AfterTrigger) or not follows(job):
        return []
    upstream = Upstream(store)
    missing = trigger.missing(upstream.ends(trigger, to_micros(now) - SLACK))
    return [_awaited(trigger, one, upstream.job(one), store) for one in missing]


def _awaited(trigger: AfterTrigger, upstream: str, job: Job | None, store: BaseJobStore) -> str:
    if job is None:
        return f"'{upstream}', which does not exist"
    done, cursor = after_words(trigger.on), trigger.cursors.get(upstream)
    times = [cursor.last.finished_at] if cursor is not None and cursor.last is not None else []
    success = store.stats_of(job).last_success
    times += [success] if success is not None and trigger.on != "failure" else []
    if not times:
        return f"'{upstream}', which has not {done} yet"
    return f"'{upstream}', which last {done} at {max(times).strftime('%Y-%m-%d %H:%M:%S %Z').strip()}"


def _is_open(option: object) -> bool:
    return option is undefined


def _is_unstarted(job_id: str, run: object) -> bool:
    return getattr(run, "source", None) is Source.SCHEDULE and getattr(run, "attempt", 0) == 1


def _is_removed_soon(job: Job) -> bool:
    """Tell whether a job fires once more, and is removed then."""
    time = getattr(job, "next_run_time", None)
    if time is None or not job.auto_remove or job.trigger.upstream:
        return False
    return job.trigger.get_next_fire_time(time, time) is None


def _kept(job: Job) -> Job:
    return copy_with(job, auto_remove=False)


def _suspended(job: Job, reason: str) -> Job:
    if job.next_run_time is not None or job.suspended is not None or not follows(job):
        return job
    edited = copy_with(job)
    edited.suspended = reason
    return edited
