"""What people ask of a store, and what is written for them: the side of the port that no firing needs.

Each method answers right for every store by what the other methods of the port return. A store that may hold many jobs
replaces it by one that reads no more than the answer needs: a page costs the same at any depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from goscheduler.errors import GoSchedulerError, InvalidArgument, JobLookupError
from goscheduler.jobstores._local.reading import LocalNotes, limit_usage
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import (
    ANY_TEXT,
    MAX_NOTE,
    MOST_LETTERS,
    Count,
    Drained,
    Edited,
    InboxEntry,
    JobPage,
    JobQuery,
    LetterGroup,
    LimitUse,
    Note,
    RunCounts,
    letter_groups,
)  # fmt: skip
from goscheduler.runs.records import HistoryQuery

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import DeadLetter
    from goscheduler.runs.records import Record

#: How many records or dead letters are looked at together.
PAGE_SIZE = 1000


class StoreReads:
    """The methods of a store that people use, by way of what every store has."""

    def find_jobs(self, query: JobQuery) -> JobPage:
        """Return a page of the jobs that fit, with their statistics and suspensions.

        A search through text gives up after :data:`~goscheduler.runs.queries.SEARCH_SECONDS`.
        """
        return query.page(self._all_jobs(), self._running(query))

    def count_jobs(self, query: JobQuery, cap: int) -> Count:
        """Count the jobs that fit, wherever the page is; at most ``cap`` of them."""
        running = self._running(query)
        number = sum(query.matches(job, running) for job in self._all_jobs())
        return Count(min(number, cap), number <= cap)

    def run_counts(self, job_ids: Sequence[str], now: datetime) -> Mapping[str, RunCounts]:
        """Return job id → how many of its runs have not ended, for those of these jobs that have any."""
        wanted = set(job_ids)
        live = Counter(run.job.id for run in self._store.live_runs())
        due, waiting = Counter[str](), Counter[str]()
        for run in self._store.pending_runs():
            (due if run.due_at <= now else waiting)[run.job.id] += 1
        found = wanted & (live.keys() | due.keys() | waiting.keys())
        return {job_id: RunCounts(live[job_id], due[job_id], waiting[job_id]) for job_id in found}

    def attempts(self, run_id: str, job_id: str | None = None) -> list[Record]:
        """Return the records of a run, newest first. With the id of its job they are found sooner."""
        query, found = HistoryQuery(job_id, limit=PAGE_SIZE), []
        while records := self._store.history(query):
            found += [record for record in records if record.run_id == run_id]
            query = query._replace(before=records[-1].position)
        return found

    def dead_letter(self, run_id: str) -> DeadLetter | None:
        """Return the dead letter of a run, or None."""
        query = HistoryQuery(limit=PAGE_SIZE)
        while letters := self._store.dead_letters(query):
            for letter in letters:
                if letter.run.id == run_id:
                    return letter
            query = query._replace(before=letters[-1].record.position)
        return None

    def letter_groups(self, query: HistoryQuery) -> list[LetterGroup]:
        """Return the newest dead letters that fit in groups, the largest group first."""
        letters = self._store.dead_letters(query._replace(limit=min(query.limit, MOST_LETTERS)))
        return letter_groups(letter.record for letter in letters)

    def limit_usage(self, now: datetime) -> list[LimitUse]:
        """Return what is used of every limit, ascending by name."""
        return limit_usage(self._store._runs, now)

    def edit_jobs(self, job_ids: Sequence[str], edit: Callable[[Job], Job]) -> Edited:
        """Replace each of several jobs by what ``edit``, a pure function, makes of it, each in one step of its own.

        A job for which ``edit`` returns the very job that it got is left as it is. One of which it raises an error, or
        that cannot be written, is refused; the others are edited all the same.
        """
        changed, unchanged, missing, refused = [], [], [], {}
        for job_id in job_ids:
            try:
                kept = _Kept(edit)
                job = self._store.edit_job(job_id, kept)
                if kept.changed:
                    changed.append(job)
                else:
                    unchanged.append(job_id)
            except JobLookupError:
                missing.append(job_id)
            except (GoSchedulerError, ValueError, TypeError) as error:
                if self._store.is_outage(error):
                    raise
                refused[job_id] = str(error)
        return Edited(changed, unchanged, missing, refused)

    def remove_jobs(self, job_ids: Sequence[str]) -> list[str]:
        """Remove several jobs, and return the ids of those that were there."""
        removed = []
        for job_id in job_ids:
            try:
                self._store.remove_job(job_id)
            except JobLookupError:
                continue
            removed.append(job_id)
        return removed

    def drain_inbox(self, limit: int, read: Callable[[InboxEntry], Job]) -> Drained:
        """Add what other programs have asked for, at most ``limit`` of it, each exactly once.

        ``read`` is a pure function that makes the job. In one step an entry goes and its job comes. An entry of which
        ``read`` raises a GoSchedulerError, ValueError or TypeError, or whose job id is taken, is refused: it is kept
        beside the inbox with the reason, where the other program can read it, and nothing is added. A store that other
        programs cannot write has no inbox.
        """
        return Drained()

    def put_note(self, note: Note, expected: str | None = ANY_TEXT) -> bool:
        """Write a note, if its text is the ``expected`` one: None if there is to be none, else by default any.

        False if another text is there; then nothing is written.
        """
        check_note(note)
        return self._notes.put(note, expected)

    def remove_note(self, kind: str, key: str) -> None:
        """Remove a note, if it is there."""
        self._notes.remove(kind, key)

    def read_note(self, kind: str, key: str) -> str | None:
        """Return the text of a note, or None."""
        return self._notes.read(kind, key)

    def notes(self, kind: str, before: str | None = None, limit: int = 100) -> list[Note]:
        """Return notes of a kind, descending by key, those whose keys come before ``before``."""
        return self._notes.newest(kind, before, limit)

    def prune_notes(self, kind: str, before: str, limit: int) -> int:
        """Remove at most ``limit`` notes of a kind whose keys come before ``before``, and return how many."""
        return self._notes.prune(kind, before, limit)

    def warnings(self) -> list[str]:
        """Return what settings of the server may lose jobs, a sentence each."""
        return []

    @property
    def _notes(self) -> LocalNotes:
        if self._store.shared and not self._store.keeps_objects:
            raise NotImplementedError("a store that processes share keeps its notes where all of them find them")
        notes: LocalNotes | None = self.__dict__.get("_local_notes")
        return self.__dict__.setdefault("_local_notes", LocalNotes()) if notes is None else notes

    @property
    def _store(self) -> BaseJobStore:
        return cast("BaseJobStore", self)

    def _all_jobs(self) -> list[Job]:
        """Return all jobs with their statistics and suspensions."""
        store = self._store
        jobs = store.get_all_jobs()
        if not store.keeps_objects:
            suspended = {} if store.shared else store.suspensions()
            for job in jobs:
                job.stats = store.stats_of(job)
                job.suspended = job.suspended or suspended.get(job.id)
        return jobs

    def _running(self, query: JobQuery) -> set[str]:
        return {run.job.id for run in self._store.live_runs()} if query.state is JobState.RUNNING else set()


class _Kept:
    """Makes an edit, and notes whether it changed the job."""

    def __init__(self, edit: Callable[[Job], Job]) -> None:
        self._edit = edit
        self.changed = False

    def __call__(self, job: Job) -> Job:
        edited = self._edit(job)
        self.changed = edited is not job
        return edited


def check_note(note: Note) -> None:
    """Raise if a note is longer than a store takes."""
    if len(note.text) > MAX_NOTE:
        raise InvalidArgument(f"A note may have {MAX_NOTE} characters, this one has {len(note.text)}", field="text")
