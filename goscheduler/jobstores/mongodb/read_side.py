"""The part of the MongoDB store that serves people and other programs; see ``goscheduler.jobstores.reading``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler._drivers.mongodb import deadline
from goscheduler.jobstores.base import SharedJobStore
from goscheduler.jobstores.mongodb.due_work import DueWorkReader
from goscheduler.jobstores.mongodb.editing import Editing
from goscheduler.jobstores.mongodb.firing import StoreContext
from goscheduler.jobstores.mongodb.history import History
from goscheduler.jobstores.mongodb.inbox import Inbox
from goscheduler.jobstores.mongodb.limits import usage
from goscheduler.jobstores.mongodb.notes import Notes
from goscheduler.jobstores.mongodb.reading import JobReader
from goscheduler.jobstores.mongodb.runs import Runs
from goscheduler.jobstores.reading import check_note
from goscheduler.runs.queries import ANY_TEXT, Count, Drained, Edited, JobPage, JobQuery, LetterGroup, LimitUse, Note
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import DeadLetter
    from goscheduler.runs.queries import InboxEntry, RunCounts
    from goscheduler.runs.records import HistoryQuery, Record


class ReadSide(SharedJobStore):
    """The methods that no firing needs."""

    _context: StoreContext
    _reader: DueWorkReader
    _history: History
    _unfinished: Runs

    def _open_read_side(self) -> None:
        self._jobs_found = JobReader(self._context)
        self._editing = Editing(self._context, self.is_outage)
        self._inbox = Inbox(self._context, self._making_due)
        self._kept_notes = Notes(self._context.collections)

    @abstractmethod
    def _making_due(self) -> AbstractContextManager[None]: ...

    def find_jobs(self, query: JobQuery) -> JobPage:
        return self._jobs_found.page(query)

    def count_jobs(self, query: JobQuery, cap: int) -> Count:
        return self._jobs_found.count(query, cap)

    def run_counts(self, job_ids: Sequence[str], now: datetime) -> Mapping[str, RunCounts]:
        with deadline():
            return self._unfinished.counts(job_ids, to_micros(now))

    def attempts(self, run_id: str, job_id: str | None = None) -> list[Record]:
        with deadline():
            return self._history.attempts(run_id, job_id)

    def dead_letter(self, run_id: str) -> DeadLetter | None:
        with deadline():
            return self._history.letter(run_id)

    def letter_groups(self, query: HistoryQuery) -> list[LetterGroup]:
        with deadline():
            return self._history.letter_groups(query)

    def limit_usage(self, now: datetime) -> list[LimitUse]:
        with deadline():
            return usage(self._context.collections, self._reader.now(now))

    def edit_jobs(self, job_ids: Sequence[str], edit: Callable[[Job], Job]) -> Edited:
        with self._making_due():
            edited = self._editing.edit(job_ids, edit)
        for job in edited.changed:
            job._scheduler, job._jobstore_alias = self._scheduler, self._alias
        return edited

    def remove_jobs(self, job_ids: Sequence[str]) -> list[str]:
        with self._making_due():
            return self._editing.remove(job_ids)

    def drain_inbox(self, limit: int, read: Callable[[InboxEntry], Job]) -> Drained:
        return self._inbox.drain(limit, read)

    def put_note(self, note: Note, expected: str | None = ANY_TEXT) -> bool:
        check_note(note)
        return self._kept_notes.put(note, expected)

    def remove_note(self, kind: str, key: str) -> None:
        self._kept_notes.remove(kind, key)

    def read_note(self, kind: str, key: str) -> str | None:
        return self._kept_notes.read(kind, key)

    def notes(self, kind: str, before: str | None = None, limit: int = 100) -> list[Note]:
        return self._kept_notes.newest(kind, before, limit)

    def prune_notes(self, kind: str, before: str, limit: int) -> int:
        return self._kept_notes.prune(kind, before, limit)
