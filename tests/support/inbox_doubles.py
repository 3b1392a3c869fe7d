"""A store in memory that several schedulers share, with an inbox into which a test puts requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lease_doubles import SharedStore

from goscheduler.errors import ConflictingIdError, GoSchedulerError
from goscheduler.runs.queries import Drained, InboxEntry

if TYPE_CHECKING:
    from goscheduler.job import Job


class InboxStore(SharedStore):
    """Drains what ``ask`` has put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.inbox: list[InboxEntry] = []
        self.refused: dict[str, str] = {}
        """Id of an entry → why it was refused."""
        self._numbers = iter(range(1, 1_000_000))

    def ask(self, **fields: Any) -> str:
        """Put a request into the inbox, and return the id of its entry."""
        return self.ask_text(json.dumps(fields))

    def ask_text(self, text: str) -> str:
        entry = InboxEntry(str(next(self._numbers)), text)
        self.inbox.append(entry)
        return entry.id

    def drain_inbox(self, limit: int, read: Callable[[InboxEntry], Job]) -> Drained:
        jobs, refused = [], {}
        for entry in self.inbox[:limit]:
            try:
                job = read(entry)
                self.add_job(job)
                jobs.append(job)
            except (ConflictingIdError, GoSchedulerError, ValueError, TypeError) as error:
                refused[entry.id] = str(error)
        del self.inbox[:limit]
        self.refused.update(refused)
        return Drained(jobs, refused, bool(self.inbox))
