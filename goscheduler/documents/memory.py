"""Documents in the memory of this process: for tests, and to try things out."""

from __future__ import annotations

import copy
import heapq
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from goscheduler.documents.base import DocumentStore, Malformed, Upcoming
from goscheduler.documents.model import Document, Fields, in_utc, look_up, put
from goscheduler.errors import shown
from goscheduler.runs.queries import Count

__all__ = ["MemoryDocumentStore"]


class MemoryDocumentStore(DocumentStore):
    """Keeps dicts. ``documents`` is the list of them, to look at and to change.

    ``condition`` maps fields, or paths with dots, to the values that documents must have there to be processed. A date
    without a zone is read as UTC.
    """

    def __init__(
        self,
        documents: Iterable[dict[str, Any]] = (),
        *,
        sleep_until: str = "sleepUntil",
        interval: str = "interval",
        repeat_until: str = "repeatUntil",
        auto_remove: str = "autoRemove",
        condition: Mapping[str, Any] | None = None,
    ) -> None:
        self._fields = Fields(sleep_until, interval, repeat_until, auto_remove)
        self._condition = dict(condition or {})
        self._lock = threading.Lock()
        self.documents: list[dict[str, Any]] = []
        for document in documents:
            self.add(document)

    def add(self, document: dict[str, Any]) -> None:
        """Keep one more document."""
        if not isinstance(document, dict):
            raise TypeError(f"a document must be a dict, got {shown(document)}")
        with self._lock:
            self.documents.append(document)

    def lock_next(self, now: datetime, until: datetime) -> Document | None:
        with self._lock:
            due = [(at, place) for at, place in self._dates() if at <= now]
            if not due:
                return None
            at, place = min(due)
            content = self.documents[place]
            locked = self._locked(content, at, until)
            put(content, self._fields.sleep_until, until)
            return locked

    def update(self, document: Document, sleep_until: datetime | None) -> bool:
        with self._lock:
            if not self._is_ours(document):
                return False
            put(document.id, self._fields.sleep_until, sleep_until)
            return True

    def remove(self, document: Document) -> bool:
        with self._lock:
            if not self._is_ours(document):
                return False
            self.documents[:] = [other for other in self.documents if other is not document.id]
            return True

    def upcoming(self, limit: int) -> list[Upcoming]:
        fields = self._fields
        with self._lock:
            found = [(at, self.documents[place]) for at, place in heapq.nsmallest(limit, self._dates())]
        return [
            Upcoming.of(
                _id_of(content),
                at,
                look_up(content, fields.interval),
                look_up(content, fields.repeat_until),
                look_up(content, fields.auto_remove),
            )
            for at, content in found
        ]

    def count_due(self, now: datetime, cap: int) -> Count:
        with self._lock:
            number = sum(at <= now for at, _ in self._dates())
        return Count(min(number, cap), number <= cap)

    def malformed(self, limit: int) -> list[Malformed]:
        with self._lock:
            values = [(content, look_up(content, self._fields.sleep_until)) for content in self._wanted()]
        bad = [(content, value) for content, value in values if value is not None and not isinstance(value, datetime)]
        return [Malformed(_id_of(content), value) for content, value in bad[:limit]]

    def _dates(self) -> Iterator[tuple[datetime, int]]:
        for place, content in enumerate(self.documents):
            value = look_up(content, self._fields.sleep_until)
            if isinstance(value, datetime) and self._is_wanted(content):
                yield in_utc(value), place

    def _wanted(self) -> list[dict[str, Any]]:
        return [content for content in self.documents if self._is_wanted(content)]

    def _is_wanted(self, content: dict[str, Any]) -> bool:
        return all(look_up(content, path) == value for path, value in self._condition.items())

    def _locked(self, content: dict[str, Any], at: datetime, until: datetime) -> Document:
        fields = self._fields
        return Document(
            content,
            copy.deepcopy(content),
            at,
            until,
            look_up(content, fields.interval),
            look_up(content, fields.repeat_until),
            look_up(content, fields.auto_remove),
        )

    def _is_ours(self, document: Document) -> bool:
        """Tell whether the very dict is still here, and locked by us."""
        present = any(content is document.id for content in self.documents)
        return present and look_up(document.id, self._fields.sleep_until) == document.locked_until


def _id_of(content: dict[str, Any]) -> Any:
    return content.get("_id", content.get("id"))
