"""The inbox of a Redis store: a stream to which other programs add what they want, and one of what was refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from goscheduler.errors import ConflictingIdError, GoSchedulerError, InvalidArgument
from goscheduler.jobstores.redis.facts import facts_of
from goscheduler.jobstores.redis.rows import Rows, as_text, dumps, has_stats, stats_text
from goscheduler.jobstores.redis.scripts import ScriptClient
from goscheduler.runs.queries import Drained, InboxEntry

if TYPE_CHECKING:
    from goscheduler.job import Job

#: How many entries one step moves.
MAX_MOVED = 200
#: About so many refused entries are kept, the newest.
REFUSED_KEPT = 10_000
_FIELD = "request"


class Inbox:
    """Moves the entries of one store to its jobs. An entry goes in the step in which its job comes."""

    def __init__(self, scripts: ScriptClient, rows: Rows, is_outage: Callable[[BaseException], bool]) -> None:
        self._scripts = scripts
        self._rows = rows
        self._is_outage = is_outage

    def drain(self, limit: int, read: Callable[[InboxEntry], Job]) -> Drained:
        """Add what is asked for, at most ``limit`` of it."""
        jobs: list[Job] = []
        refused: dict[str, str] = {}
        while limit > 0:
            size = min(limit, MAX_MOVED)
            entries = self._scripts.client.xrange(self._scripts.key("inbox"), count=size + 1)
            self._move(entries[:size], read, jobs, refused)
            limit -= size
            if len(entries) <= size:
                return Drained(jobs, refused)
        return Drained(jobs, refused, more=True)

    def _move(
        self, entries: Any, read: Callable[[InboxEntry], Job], jobs: list[Job], refused: dict[str, str]
    ) -> None:
        items = [self._item(as_text(entry_id), fields, read) for entry_id, fields in entries]
        if not items:
            return
        rows = dumps([row for row, _ in items])
        words = self._scripts.call_json("take_inbox", None, rows, REFUSED_KEPT)
        for word, (row, job) in zip(words, items, strict=True):
            if word == "done" and job is not None:
                jobs.append(job)
            elif word == "refused":
                refused[row[0]] = row[1]

    def _item(
        self, entry_id: str, fields: Mapping[Any, Any], read: Callable[[InboxEntry], Job]
    ) -> tuple[list[str], Job | None]:
        """Return what is to be written for an entry: its id and why it is refused, if it is; then its job."""
        try:
            requests = {as_text(name): as_text(value) for name, value in fields.items()}
            if _FIELD not in requests:
                raise InvalidArgument(f"the entry has no field {_FIELD!r}", field=_FIELD)
            job = read(InboxEntry(entry_id, requests[_FIELD]))
            state = self._rows.job_state(job, uuid4().hex).text
            definition, stats = self._rows.records.job_text(job), stats_text(job.stats) if has_stats(job) else ""
        except (GoSchedulerError, ValueError, TypeError) as error:
            if self._is_outage(error):
                raise
            return [entry_id, str(error)], None
        taken = str(ConflictingIdError(job.id))
        return [entry_id, taken, job.id, state, definition, stats, facts_of(job)], job
