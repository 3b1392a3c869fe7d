"""Blackouts in the stores: written, read by every process, asked when a job fires.

A blackout is a note of each store that it is about. A process reads them before it fires for the first time, and with
each round of housekeeping, so another process's blackout counts within a quarter of the lease. Where there are none,
that is all that they cost.

Who removes a blackout lets go what it holds, and others may put it off again meanwhile, because they do not know of
that yet. So they read the notes again after each round in which they have held something, and a process that finds a
blackout gone lets its jobs go as well. That does no harm to one that was let go: its history shows that it has fired.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from goscheduler.errors import GoSchedulerError, InvalidArgument, JobLookupError, described, nearest, shown, survivable
from goscheduler.job import copy_with
from goscheduler.options import check_job_id
from goscheduler.runs.blackouts import (
    ACTIONS,
    BLACKOUT,
    HOLD,
    LONGEST_REASON,
    MOST_BLACKOUTS,
    Blackout,
    held_by,
    planner_in,
    read_blackout,
)
from goscheduler.runs.queries import Note
from goscheduler.runs.records import HistoryQuery
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.plan import InBlackout
    from goscheduler.schedulers._engine import Engine

_PAGE = 100
LONGEST_TAG = 255
#: So many records of a job are looked at to tell whether it was put off; it has few while it is held.
_RECORDS = 1000
#: No blackout ends later: its end has to be a moment in every time zone.
LATEST_END = datetime.max.replace(tzinfo=timezone.utc) - timedelta(days=2)


class Blackouts:
    """What one scheduler knows of the blackouts in its stores."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, dict[str, Blackout]] = {}
        """Alias of a store → its blackouts by id, once they have been read."""
        self._holding: dict[str, dict[str, Blackout]] = {}
        """Alias of a store → the blackouts by which jobs were put off since the notes were read last."""

    def forget(self) -> None:
        """Read the notes again before the next firing: another life begins."""
        self._known, self._holding = {}, {}

    def planner(self, alias: str, store: BaseJobStore) -> InBlackout | None:
        """Return what plans the jobs of a store that are due in a blackout; None if it has none."""
        known = self._known.get(alias)
        if known is None:
            known = self._known[alias] = _read(store)
        return planner_in(tuple(known.values()), partial(self._note_hold, alias)) if known else None

    def _note_hold(self, alias: str, blackout: Blackout) -> None:
        self._holding.setdefault(alias, {})[blackout.id] = blackout

    def check_holds(self, alias: str, store: BaseJobStore) -> None:
        """Let go what was put off just now by a blackout that somebody had removed before; called after a firing."""
        if self._holding.get(alias):
            self._read_again(alias, store)

    def look(self) -> None:
        """Read the notes of the stores that others may have written, and let go what none of them holds any more."""
        for alias, store in self._engine.stores.items():
            if not store.shared or alias in self._engine.outages:
                continue
            try:
                self._read_again(alias, store)
            except BaseException as error:
                if not survivable(error):
                    raise
                self._engine.logger.warning(
                    'Job store "%s" could not tell its blackouts: %s; those that were known go on',
                    alias, described(error),
                )  # fmt: skip

    def _read_again(self, alias: str, store: BaseJobStore) -> None:
        before, now = self._known.get(alias), self._engine.clock.now()
        holding = self._holding.get(alias, {})
        found = _read(store)
        for blackout in {**(before or {}), **holding}.values():
            if blackout.id not in found and blackout.action == HOLD and blackout.is_in_force(now):
                self._let_go(alias, store, blackout)
        self._holding.pop(alias, None)  # not before: what raises is done again
        if self._known.get(alias) is before:  # else it was changed here meanwhile
            self._known[alias] = found

    def add(self, blackout: Blackout, jobstore: str | None) -> None:
        """Write a blackout into one store or all.

        :raises GoSchedulerError: if there are too many; nothing is written then
        """
        stores = self._stores(jobstore)
        for alias, store in stores.items():
            if len(_read(store)) >= MOST_BLACKOUTS:
                message = f'job store "{alias}" has {MOST_BLACKOUTS:,} blackouts; remove some that are over'
                raise GoSchedulerError(message)
        for alias, store in stores.items():
            store.put_note(Note(BLACKOUT, blackout.id, blackout.text))
            self._known[alias] = {**self._known.get(alias, _read(store)), blackout.id: blackout}
        self._engine.wake()

    def remove(self, blackout_id: str) -> None:
        """Remove a blackout. Jobs that it has put off to its end fire now; runs that wait for its end do so.

        :raises InvalidArgument: if there is none by this id
        """
        found = False
        for alias, store in self._engine.stores.items():
            known = _read(store)
            blackout = known.pop(blackout_id, None)
            if blackout is None:
                continue
            found = True
            store.remove_note(BLACKOUT, blackout_id)
            self._known[alias] = known
            if blackout.action == HOLD and blackout.is_in_force(self._engine.clock.now()):
                self._let_go(alias, store, blackout)
        if not found:
            message = f"there is no blackout {shown(blackout_id)}; blackouts() has those that there are"
            raise InvalidArgument(message, field="blackout_id", value=blackout_id)
        self._engine.wake()

    def _let_go(self, alias: str, store: BaseJobStore, blackout: Blackout) -> None:
        edit = partial(_due_now, blackout=blackout, now=self._engine.clock.now())
        woken = False
        for job in store.get_due_jobs(blackout.end):
            if not _may_be_put_off(job, blackout) or not _was_put_off(store, job, blackout):
                continue
            try:
                self._engine.jobs.edit(job.id, alias, edit)
                woken = True
            except JobLookupError:
                continue  # it was removed meanwhile
        if woken:
            self._engine.wake()

    def all(self, jobstore: str | None) -> list[Blackout]:
        """Return the blackouts that there are, as of now, those that end last first."""
        found: dict[str, Blackout] = {}
        for store in self._stores(jobstore).values():
            found.update(_read(store))
        return sorted(found.values(), key=lambda each: (each.end, each.id), reverse=True)

    def told_of(self, job: Job, alias: str, store: BaseJobStore, now: datetime) -> str:
        """Return why a job is held back or left out now; nothing if it is not."""
        known = None if self._engine.observing else self._known.get(alias)  # who fires nothing does not look again
        known = _read(store) if known is None else known
        found = next((each for each in known.values() if each.is_in_force(now) and each.is_about(job)), None)
        return "" if found is None else found.explain()

    def _stores(self, jobstore: str | None) -> dict[str, BaseJobStore]:
        stores = self._engine.stores
        if jobstore is not None and jobstore not in stores:
            raise KeyError(f"No such job store: {jobstore}")
        return {alias: store for alias, store in stores.items() if jobstore in (None, alias)}


def checked(
    start: datetime, end: datetime, now: datetime, tag: str | None, job_id: str | None, action: str, reason: str
) -> Blackout:
    """Return a blackout of arguments that make sense.

    :raises InvalidArgument: naming the one that does not
    """
    if action not in ACTIONS:
        hint = nearest(action, ACTIONS) if isinstance(action, str) else None
        meant = f"; did you mean {shown(hint)}?" if hint else ""
        message = f"action must be one of {', '.join(ACTIONS)}, got {shown(action)}{meant}"
        raise InvalidArgument(message, field="action", value=action)
    if to_micros(end) <= max(to_micros(start), to_micros(now)):
        message = f"end must lie after start, {start}, and in the future; got {end}"
        raise InvalidArgument(message, field="end", value=end)
    if to_micros(end) > to_micros(LATEST_END):
        message = f"end must not lie after {LATEST_END:%Y-%m-%d %H:%M} UTC, to be a moment in every zone; got {end}"
        raise InvalidArgument(message, field="end", value=end)
    if tag is not None and (not isinstance(tag, str) or not 0 < len(tag) <= LONGEST_TAG):
        message = f"tag must be a tag of jobs, or None for any, got {shown(tag)}"
        raise InvalidArgument(message, field="tag", value=tag)
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON or not reason.isprintable():
        message = f"reason must be at most {LONGEST_REASON} printable characters, got {shown(reason)}"
        raise InvalidArgument(message, field="reason", value=reason)
    job_id = None if job_id is None else check_job_id(job_id)
    return Blackout(f"{to_micros(end):016x}-{uuid4().hex[:8]}", start, end, action, tag, job_id, reason)


def _read(store: BaseJobStore) -> dict[str, Blackout]:
    found: dict[str, Blackout] = {}
    before: str | None = None
    while len(found) < MOST_BLACKOUTS:
        try:
            notes = store.notes(BLACKOUT, before, _PAGE)
        except NotImplementedError:  # a store that somebody else wrote
            break
        read = [read_blackout(note.text) for note in notes]
        found.update((each.id, each) for each in read if each is not None)
        if len(notes) < _PAGE:
            break
        before = notes[-1].key
    return found


def _may_be_put_off(job: Job, blackout: Blackout) -> bool:
    due = job.next_run_time
    return due is not None and to_micros(due) == to_micros(blackout.end) and blackout.is_about(job)


def _was_put_off(store: BaseJobStore, job: Job, blackout: Blackout) -> bool:
    """Tell by the history whether a job that is due at the end of a blackout is so because of it, and has not fired
    since; it may well have a fire time there anyway."""
    runs = [*store.live_runs(job.id), *store.pending_runs(job.id)]  # before the history: one may end meanwhile
    records = store.history(HistoryQuery(job.id, since=blackout.start, limit=_RECORDS))
    return held_by(blackout, runs, records)


def _due_now(job: Job, blackout: Blackout, now: datetime) -> Job:
    if not _may_be_put_off(job, blackout):
        return job
    edited = copy_with(job)
    edited.next_run_time = now.astimezone((job.next_run_time or now).tzinfo)
    return edited
