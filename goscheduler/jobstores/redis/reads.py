"""What people ask of a Redis store, and what is written for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from goscheduler.errors import GoSchedulerError
from goscheduler.jobstores.reading import StoreReads, check_note
from goscheduler.jobstores.redis.facts import facts_of
from goscheduler.jobstores.redis.inbox import Inbox
from goscheduler.jobstores.redis.indexing import index_jobs
from goscheduler.jobstores.redis.notes import Notes
from goscheduler.jobstores.redis.reading import JobReader
from goscheduler.jobstores.redis.rows import Rows, as_text, dumps
from goscheduler.jobstores.redis.scripts import SHOW, ScriptClient
from goscheduler.runs.queries import (
    ANY_TEXT,
    Count,
    Drained,
    Edited,
    InboxEntry,
    JobPage,
    JobQuery,
    LetterGroup,
    Note,
    RunCounts,
)
from goscheduler.runs.records import HistoryQuery, Record

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.redis.history import History
    from goscheduler.runs.model import DeadLetter

#: How often an edit is tried that other processes keep changing.
MAX_EDIT_ATTEMPTS = 1000
#: How many jobs one step edits or removes.
MAX_EDITED = 200
#: The hashes that have a job.
JOB_HASHES = ("heads", "jobs", "lives", "facts")


class RedisReads(StoreReads):
    """The methods of the store that people use."""

    _scripts: ScriptClient
    _rows: Rows
    _history: History

    @abstractmethod
    def _texts(self, ids: Sequence[str], *names: str) -> list[Any]: ...

    @abstractmethod
    def _jobs_of(self, ids: Sequence[str]) -> Iterator[Job]: ...

    @abstractmethod
    def _read_job(self, job_id: str, state_text: Any, definition: Any, stats: Any, facts: Any) -> Job: ...

    @abstractmethod
    def _changed(self) -> None:
        """Note that something was written."""

    def _begin_reading(self) -> None:
        """Get ready; index the jobs of an earlier version."""
        index_jobs(self._scripts, self._jobs_of)
        self._scripts.client.set(self._scripts.key("show"), SHOW)
        self._job_reader = JobReader(self._scripts, self._jobs_of)
        self._inbox = Inbox(self._scripts, self._rows, self._store.is_outage)
        self._kept_notes = Notes(self._scripts)

    def find_jobs(self, query: JobQuery) -> JobPage:
        return self._job_reader.find(query)

    def count_jobs(self, query: JobQuery, cap: int) -> Count:
        return self._job_reader.count(query, cap)

    def run_counts(self, job_ids: Sequence[str], now: datetime) -> Mapping[str, RunCounts]:
        return self._job_reader.run_counts(job_ids, now)

    def attempts(self, run_id: str, job_id: str | None = None) -> list[Record]:
        return self._history.attempts(run_id, job_id)

    def dead_letter(self, run_id: str) -> DeadLetter | None:
        return self._history.dead_letter(run_id)

    def letter_groups(self, query: HistoryQuery) -> list[LetterGroup]:
        return self._history.letter_groups(query)

    def edit_jobs(self, job_ids: Sequence[str], edit: Callable[[Job], Job]) -> Edited:
        edits = _Edits(edit, self._store.is_outage)
        ids = list(dict.fromkeys(job_ids))
        for first in range(0, len(ids), MAX_EDITED):
            left: Sequence[str] = ids[first : first + MAX_EDITED]
            for _ in range(MAX_EDIT_ATTEMPTS):
                left = self._edit(left, edits)
                if not left:
                    break
            edits.refused.update(dict.fromkeys(left, "other processes keep changing it"))
        return Edited(edits.changed, edits.unchanged, edits.missing, edits.refused)

    def _edit(self, job_ids: Sequence[str], edits: _Edits) -> list[str]:
        """Edit jobs in one step, and return the ids of those that other processes have changed meanwhile."""
        jobs: list[Job] = []
        rows: list[list[str]] = []
        for job_id, state_text, *rest in zip(job_ids, *self._texts(job_ids, *JOB_HASHES), strict=True):
            if state_text is None:
                edits.missing.append(job_id)
                continue
            made = edits.make(self._read_job(job_id, state_text, *rest), self._row)
            if made is not None:
                jobs.append(made[0])
                rows.append([*made[1], as_text(state_text)])
        if not rows:
            return []
        left: list[str] = []
        words = self._scripts.call_json("edit_jobs", None, dumps(rows))
        for job, word in zip(jobs, words, strict=True):
            if word == "done":
                job._scheduler, job._jobstore_alias = self._store._scheduler, self._store._alias or ""
                edits.changed.append(job)
            else:
                (edits.missing if word == "missing" else left).append(job.id)
        self._changed()
        return left

    def _row(self, job: Job) -> list[str]:
        definition = self._rows.records.job_text(job)
        return [job.id, self._rows.job_state(job, uuid4().hex).text, definition, facts_of(job)]

    def remove_jobs(self, job_ids: Sequence[str]) -> list[str]:
        removed: list[str] = []
        for first in range(0, len(job_ids), MAX_EDITED):
            removed += self._scripts.call_json("remove_jobs", None, *job_ids[first : first + MAX_EDITED])
        self._changed()
        return removed

    def drain_inbox(self, limit: int, read: Callable[[InboxEntry], Job]) -> Drained:
        drained = self._inbox.drain(limit, read)
        if drained.jobs:
            self._changed()
        return drained

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

    def warnings(self) -> list[str]:
        return self._scripts.warnings()


class _Edits:
    """Makes edits, and notes what became of them."""

    def __init__(self, edit: Callable[[Job], Job], is_outage: Callable[[BaseException], bool]) -> None:
        self._edit = edit
        self._is_outage = is_outage
        self.changed: list[Job] = []
        self.unchanged: list[str] = []
        self.missing: list[str] = []
        self.refused: dict[str, str] = {}

    def make(self, job: Job, row_of: Callable[[Job], list[str]]) -> tuple[Job, list[str]] | None:
        """Return a job as it is to be, with its row; None if nothing is to be written."""
        try:
            edited = self._edit(job)
            if edited is not job:
                return edited, row_of(edited)
            self.unchanged.append(job.id)
        except (GoSchedulerError, ValueError, TypeError) as error:
            if self._is_outage(error):
                raise
            self.refused[job.id] = str(error)
        return None
