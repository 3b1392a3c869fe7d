"""What people ask of a store on etcd or ZooKeeper.

Where the name of a key says what is wanted, the server is asked for that. Whatever else would need all jobs, all
records or all dead letters goes by copies of them in this process, which are brought up to date by each question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.groups import Group, read_rates
from goscheduler.jobstores._keyvalue.history import DeadLetters, History
from goscheduler.jobstores._keyvalue.job_index import JobIndex
from goscheduler.jobstores._keyvalue.jobs import Jobs
from goscheduler.jobstores._keyvalue.notes import Notes
from goscheduler.jobstores._keyvalue.server import Span, escape, unescape
from goscheduler.jobstores.reading import StoreReads, check_note
from goscheduler.runs.limits import starts_within
from goscheduler.runs.model import JobState
from goscheduler.runs.queries import (
    ANY_TEXT,
    MOST_LETTERS,
    Count,
    JobPage,
    JobQuery,
    LetterGroup,
    LimitUse,
    Note,
    RunCounts,
    letter_groups,
)
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import DeadLetter
    from goscheduler.runs.records import HistoryQuery, Record


class KeyValueReads(StoreReads):
    """The methods of a store that people use."""

    _context: StoreContext
    _jobs: Jobs

    def _start_reading(self) -> None:
        server = self._context.server
        self._index = JobIndex(server, self._jobs)
        self._history = History(self._context)
        self._letters = DeadLetters(self._context)
        self._stored_notes = Notes(server)
        self._job_of_live_run: dict[str, str] = {}

    def find_jobs(self, query: JobQuery) -> JobPage:
        return self._index.page(query, self._running(query))

    def count_jobs(self, query: JobQuery, cap: int) -> Count:
        return self._index.count(query, cap, self._running(query))

    def _running(self, query: JobQuery) -> set[str]:
        return self._jobs_with_live_runs() if query.state is JobState.RUNNING else set()

    def _jobs_with_live_runs(self) -> set[str]:
        """Return the ids of jobs that have a live run; only runs that were not live before are read."""
        known = self._job_of_live_run
        names = [name.split(".")[1] for name in self._context.server.names([Span(("owned",))])[0]]
        rows = self._context.run_rows([name for name in names if name not in known])
        read = {escape(row.id): row.job_id for row in rows}
        self._job_of_live_run = {name: job for name in names if (job := known.get(name, read.get(name))) is not None}
        return set(self._job_of_live_run.values())

    def run_counts(self, job_ids: Sequence[str], now: datetime) -> Mapping[str, RunCounts]:
        wanted = dict.fromkeys(job_ids)
        members = self._context.server.names([Span(("members", f"j.{escape(job_id)}")) for job_id in wanted])
        groups = {job_id: Group("", names) for job_id, names in zip(wanted, members, strict=True)}
        rows = self._context.run_rows([name[2:] for group in groups.values() for name in sorted(group.waiting)])
        due, waiting = Counter[str](), Counter[str]()
        for row in rows:
            if row.owner is None and row.place[0] != "aside":
                (due if row.due <= to_micros(now) else waiting)[row.job_id] += 1
        counts = {
            job_id: RunCounts(len(group.live), due[job_id], waiting[job_id]) for job_id, group in groups.items()
        }
        return {job_id: count for job_id, count in counts.items() if any(count)}

    def attempts(self, run_id: str, job_id: str | None = None) -> list[Record]:
        return self._history.of_run(run_id, job_id)

    def history(self, query: HistoryQuery) -> list[Record]:
        return self._history.page(query)

    def dead_letters(self, query: HistoryQuery) -> list[DeadLetter]:
        return self._letters.page(query)

    def dead_letter(self, run_id: str) -> DeadLetter | None:
        (found,) = self._context.server.read([("dead", escape(run_id))])
        return None if found is None else self._letters.read(escape(run_id), found)

    def letter_groups(self, query: HistoryQuery) -> list[LetterGroup]:
        return letter_groups(self._letters.records(query._replace(limit=min(query.limit, MOST_LETTERS))))

    def limit_usage(self, now: datetime) -> list[LimitUse]:
        server = self._context.server
        groups = server.names([Span.of_prefix(("groups",), "l")])[0]
        members = server.names([Span(("members", group)) for group in groups])
        states = server.read([("groups", group) for group in groups])
        usage = []
        for name, found, state in zip(groups, members, states, strict=True):
            group = Group(name, found)
            starts = starts_within(read_rates("" if state is None else state.value), now)
            usage.append(LimitUse(unescape(name[2:]), len(group.live), len(group.blocked), starts))
        return sorted(usage)

    def put_note(self, note: Note, expected: str | None = ANY_TEXT) -> bool:
        check_note(note)
        return self._stored_notes.put(note, expected)

    def remove_note(self, kind: str, key: str) -> None:
        self._stored_notes.remove(kind, key)

    def read_note(self, kind: str, key: str) -> str | None:
        return self._stored_notes.read(kind, key)

    def notes(self, kind: str, before: str | None = None, limit: int = 100) -> list[Note]:
        return self._stored_notes.newest(kind, before, limit)

    def prune_notes(self, kind: str, before: str, limit: int) -> int:
        return self._stored_notes.prune(kind, before, limit)
