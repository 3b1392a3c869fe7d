"""What waits for one executor: by time until it is due, and from then on by rank."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from goscheduler.runs.plan import DEFAULT_PRIORITY_OFFSET_US

T = TypeVar("T")

#: (due time in microseconds, order of arrival, what waits, rank)
Entry = tuple[int, int, T, int]


class DispatchQueue(Generic[T]):
    """A queue in which nothing is overtaken but by what is more urgent."""

    __slots__ = ("_later", "_ranked", "_ready")

    def __init__(self) -> None:
        self._later: list[Entry[T]] = []
        self._ready: list[tuple[int, int, Entry[T]]] = []
        self._ranked = False
        """Whether ranks differ from due times; else one heap serves for both."""

    def __len__(self) -> int:
        return len(self._later) + len(self._ready)

    def push(self, entry: Entry[T]) -> None:
        """Let an entry wait."""
        if entry[3] - entry[0] != DEFAULT_PRIORITY_OFFSET_US:
            self._ranked = True
        heapq.heappush(self._later, entry)

    def pop(self, now: int) -> Entry[T] | None:
        """Take out the first of those that are due, or None."""
        later, ready = self._later, self._ready
        if not self._ranked:
            return heapq.heappop(later) if later and later[0][0] <= now else None
        while later and later[0][0] <= now:
            entry = heapq.heappop(later)
            heapq.heappush(ready, (entry[3], entry[1], entry))
        return heapq.heappop(ready)[2] if ready else None

    def upcoming(self) -> Entry[T] | None:
        """Return the first of those that :meth:`pop` found not to be due yet, or None."""
        return self._later[0] if self._later else None

    def drop_upcoming(self) -> None:
        """Take out what :meth:`upcoming` returned."""
        heapq.heappop(self._later)

    def entries(self) -> list[Entry[T]]:
        """Return all entries in no order."""
        return self._later + [entry for _, _, entry in self._ready]

    def keep(self, entries: list[Entry[T]]) -> None:
        """Hold these from now on, and no others."""
        heapq.heapify(entries)
        self._later, self._ready = entries, []
