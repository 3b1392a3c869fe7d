"""Blackouts in the stores: written, read by every process, asked when a job fires.

A blackout is a note of each store that it is about. A process reads them before it fires for the first time, and with
each round of housekeeping, so another process's blackout counts within a quarter of the lease. Where there are none,
that is all that they cost.
"""

from __future__ import annotations

from datetime import datetime
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
    planner_in,
    read_blackout,
)
from goscheduler.runs.queries import Note
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.plan import InBlackout
    from goscheduler.schedulers._engine import Engine

_PAGE = 100
LONGEST_TAG = 255


class Blackouts:
    """What one scheduler knows of the blackouts in its stores."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, dict[str, Blackout]] = {}
        """Alias of a store → its blackouts by id, once they have been read."""

    def forget(self) -> None:
        """Read the notes again before the next firing: another life begins."""
        self._known = {}

    def planner(self, alias: str, store: BaseJobStore) -> InBlackout | None:
        """Return what plans the jobs of a store that are due in a blackout; None if it has none."""
        known = self._known.get(alias)
        if known is None:
            known = self._known[alias] = _read(store)
        return planner_in(tuple(known.values())) if known else None

    def look(self) -> None:
        """Read the notes of the stores that others may have written."""
        for alias, store in self._engine.stores.items():
            if not store.shared or alias in self._engine.outages:
                continue
            try:
                self._known[alias] = _read(store)
            except BaseException as error:
                if not survivable(error):
                    raise
                self._engine.logger.warning(
                    'Job store "%s" could not tell its blackouts: %s; those that were known go on',
                    alias, described(error),
                )  # fmt: skip

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
        """Remove a blackout. Jobs that it has put off to its end fire now.

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
        for job in store.get_due_jobs(blackout.end):
            if _was_put_off(job, blackout):
                try:
                    self._engine.jobs.edit(job.id, alias, edit)
                except JobLookupError:
                    continue  # it was removed meanwhile

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


def _was_put_off(job: Job, blackout: Blackout) -> bool:
    due = job.next_run_time
    return due is not None and to_micros(due) == to_micros(blackout.end) and blackout.is_about(job)


def _due_now(job: Job, blackout: Blackout, now: datetime) -> Job:
    if not _was_put_off(job, blackout):
        return job
    edited = copy_with(job)
    edited.next_run_time = now.astimezone((job.next_run_time or now).tzinfo)
    return edited


