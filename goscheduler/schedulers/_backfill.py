"""Asks for the runs of fire times of the past, tells how far they are, and calls them off.

A note of the store says what was asked for. Who adds the runs writes its name into it, and with each portion the number
of those that it has added: if the note is not as it was left, another call has taken over or cancelled it, and this
one stops. A process that is killed at any step leaves a note and some runs; the same call goes on from there.

One that was taken over may still add the run that it was about to add, and that run may have ended meanwhile. So a
note tells that several calls have added runs, and then whoever is to start one looks into the history first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING
from uuid import uuid4

from goscheduler.errors import InvalidArgument, JobLookupError, RunLookupError, shown
from goscheduler.runs.backfill import (
    ADDING,
    BACKFILL,
    CALLED_OFF,
    CANCELLED,
    CLOCK_SKEW,
    DONE,
    GOING_ON,
    PORTION,
    Backfill,
    BackfillNote,
    BackfillProgress,
    Known,
    belongs_to,
    check_at_once,
    check_reprocess,
    id_of,
    jitter_of,
    key_and_number,
    key_of,
    left_out,
    read_note,
    runs_for,
    times_of,
    told_of_history,
)
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.queries import Note
from goscheduler.runs.records import HistoryQuery, Record
from goscheduler.schedulers._carrying import note_asking
from goscheduler.times import UTC, convert_to_datetime, from_micros, parse_duration, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._runs import Runs

_PAGE = 1000
#: So many backfills of one store are looked at.
MOST_NOTES = 1000
#: Notes of backfills that are over are forgotten after this time, when another one is begun.
KEPT = timedelta(days=90)
ADDED_TWICE = "it has ended before; two calls have added it to its backfill"


class Backfills:
    """The backfills of one scheduler, in all of its stores."""

    def __init__(self, engine: Engine, runs: Runs, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._runs = runs
        self._wake = wake

    def start(
        self, job: Job, start: datetime, end: datetime, reprocess: str, at_once: int, newest_first: bool, dry_run: bool
    ) -> Backfill:
        """Ask for runs of the fire times of a job from ``start`` on and before ``end``; go on with what was begun."""
        store = self._engine.stores[job._jobstore_alias or ""]
        now = self._engine.clock.now()
        key = key_of(job.id, start, end, check_reprocess(reprocess))
        times = times_of(job.trigger, start, _last(job, end, now))
        kept = store.read_note(BACKFILL, key)
        known = Known(_runs_of(store, job.id), list(_records(store, job.id, start)))
        number = _number(read_note(kept), key, known.runs)
        backfill_id = id_of(key, number)
        skipped = left_out(times, known, reprocess, backfill_id, jitter_of(job.trigger))
        wanted = [time for time in times if time not in skipped]
        if newest_first:
            wanted.reverse()
        since = known.since()
        allowed = check_at_once(at_once) if job.overlap == "allow" else min(check_at_once(at_once), job.max_instances)
        found = Backfill(
            backfill_id, tuple(wanted), skipped, allowed, since, told_of_history(times, since, reprocess)
        )  # fmt: skip
        if not dry_run:
            added = len(known.of(backfill_id))
            note = BackfillNote(
                number, job.id, start.isoformat(), end.isoformat(), reprocess, at_once, newest_first,
                len(wanted) + added, to_micros(now), uuid4().hex, added,
            )  # fmt: skip
            note = note.taking_over(read_note(kept))
            self._forget_old(store, now)
            self._add(store, key, kept, note, runs_for(job, backfill_id, wanted, at_once, now))
        return found

    def _add(self, store: BaseJobStore, key: str, kept: str | None, note: BackfillNote, runs: Sequence[Run]) -> None:
        """Add runs, portion by portion, until somebody else has written the note."""
        note = note.with_progress(note.added)
        mine = store.put_note(Note(BACKFILL, key, note.text), expected=kept)
        for first in range(0, len(runs), PORTION):
            portion = runs[first : first + PORTION]
            mine = mine and all(self._add_one(store, key, note, run) for run in portion)
            self._wake()
            if not mine:
                break
            before, note = note.text, note.with_progress(note.added + len(portion))
            mine = store.put_note(Note(BACKFILL, key, note.text), expected=before)
        current = None if mine else read_note(store.read_note(BACKFILL, key))
        if current is not None and current.state == CANCELLED and current.number == note.number:
            self._call_off(store, current.job_id, id_of(key, current.number))

    def _add_one(self, store: BaseJobStore, key: str, note: BackfillNote, run: Run) -> bool:
        """Add a run; false if somebody else has written the note."""
        if store.read_note(BACKFILL, key) != note.text:
            return False
        store.add_run(note_asking(self._engine, run), must_exist=True)
        return True

    def cancel(self, backfill_id: str) -> int:
        """Call off the runs of a backfill that wait, and return how many there were."""
        key, _, number = backfill_id.rpartition("-") if isinstance(backfill_id, str) else ("", "", "")
        for store in self._engine.stores.values():
            while (text := store.read_note(BACKFILL, key)) is not None:
                note = read_note(text)
                if note is None or str(note.number) != number:
                    break
                if store.put_note(Note(BACKFILL, key, note.cancelled().text), expected=text):
                    return self._call_off(store, note.job_id, backfill_id)
        raise RunLookupError(str(backfill_id))

    def _call_off(self, store: BaseJobStore, job_id: str, backfill_id: str) -> int:
        waiting = [run.id for run in store.pending_runs(job_id) if belongs_to(run.id, backfill_id)]
        return sum(self._runs.cancel(run_id, CALLED_OFF, only_pending=True) for run_id in waiting)

    def all(self, jobstore: str | None, job_id: str | None) -> list[BackfillProgress]:
        """Return how far the backfills have come, newest first."""
        found = [
            _progress(store, alias, key, note)
            for alias, store in self._engine.stores.items()
            if jobstore in (None, alias)
            for key, note in _notes(store)
            if job_id in (None, note.job_id)
        ]
        return sorted(found, key=lambda each: each.started_at, reverse=True)

    def _forget_old(self, store: BaseJobStore, now: datetime) -> None:
        for key, note in list(_notes(store)):
            if note.started_at < to_micros(now - KEPT) and not _is_under_way(note, key, _runs_of(store, note.job_id)):
                store.remove_note(BACKFILL, key)


def reason_not_to_start(store: BaseJobStore, run: Run) -> str:
    """Return why a run of a backfill is not to start for the first time, nothing if it is: its backfill is over, or it
    has ended already and this is the same once more, added by a call that another one had taken over from."""
    if run.attempt > 1 or run.crashes:
        return ""
    key, number = key_and_number(run.id)
    note = read_note(store.read_note(BACKFILL, key))
    since = None
    if note is not None:
        if str(note.number) != number or note.state == CANCELLED:
            return CALLED_OFF
        if not note.contested_since:
            return ""
        since = from_micros(note.contested_since, UTC) - CLOCK_SKEW
    records = _records(store, run.job.id, since)
    twice = any(each.run_id == run.id and each.outcome is not OutcomeKind.SNOOZED for each in records)
    return ADDED_TWICE if twice else ""


def moment_of(field: str, value: datetime | timedelta | str, now: datetime, zone: tzinfo) -> datetime:
    """Return a moment that is given as one, or as a length of time ago.

    :raises InvalidArgument: if it is neither
    """
    if isinstance(value, str):
        with suppress(InvalidArgument):  # no length of time, so it is to be a date and time
            value = parse_duration(value)
    if isinstance(value, timedelta):
        try:
            return now - value
        except OverflowError:
            message = f"{field} lies before the year 1: {shown(value)}"
            raise InvalidArgument(message, field=field, value=value) from None
    moment = convert_to_datetime(value, zone, field)
    if moment is None:
        raise InvalidArgument(f"{field} must be a date and time, or a length of time ago, got None", field=field)
    return moment


def job_of(job: Job | None, job_id: str) -> Job:
    """Return a job that is in a store.

    :raises JobLookupError: if there is none
    """
    if job is None or job._jobstore_alias is None:
        raise JobLookupError(job_id)
    return job


def _last(job: Job, end: datetime, now: datetime) -> datetime:
    """Return before which moment fire times are of the past: what is due is left to the schedule."""
    following: datetime | None = getattr(job, "next_run_time", None)
    return min((time for time in (end, now, following) if time is not None), key=to_micros)


def _number(note: BackfillNote | None, key: str, runs: Sequence[Run]) -> int:
    """Return the number of the backfill: that of the one that is under way, or else a new one."""
    if note is None:
        return 1
    return note.number if _is_under_way(note, key, runs) else note.number + 1


def _is_under_way(note: BackfillNote, key: str, runs: Sequence[Run]) -> bool:
    own = id_of(key, note.number)
    return note.state == ADDING or (note.state == GOING_ON and any(belongs_to(run.id, own) for run in runs))


def _runs_of(store: BaseJobStore, job_id: str) -> list[Run]:
    """Return what waits or goes on. The history is to be read behind this, so that no run is in neither."""
    return [*store.pending_runs(job_id), *store.live_runs(job_id)]


def _records(store: BaseJobStore, job_id: str, since: datetime | None) -> Iterator[Record]:
    query = HistoryQuery(job_id, since=since, limit=_PAGE)
    while page := store.history(query):
        yield from page
        if len(page) < _PAGE:
            return
        query = query._replace(before=page[-1].position)


def _notes(store: BaseJobStore) -> Iterator[tuple[str, BackfillNote]]:
    for each in store.notes(BACKFILL, limit=MOST_NOTES):
        note = read_note(each.text)
        if note is not None:
            yield each.key, note


def _progress(store: BaseJobStore, alias: str, key: str, note: BackfillNote) -> BackfillProgress:
    own = id_of(key, note.number)
    runs = {run.id: run for run in _runs_of(store, note.job_id) if belongs_to(run.id, own)}
    running = sum(run.owner is not None for run in runs.values())
    state = DONE if note.state == GOING_ON and not runs else note.state
    return BackfillProgress(
        own, note.job_id, state, datetime.fromisoformat(note.start), datetime.fromisoformat(note.end), note.reprocess,
        note.at_once, note.newest_first, note.times, len(runs) - running, running, note.added - len(runs),
        from_micros(note.started_at, UTC), alias,
    )  # fmt: skip


