"""A copy of a folder of a store in etcd.

A refresh asks for what was written since the last one. What was deleted shows in the number of names: where there are
fewer between two names than are held, these are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from goscheduler.jobstores._keyvalue.server import Found, Key, Span

#: How many values one call reads at most, and how many names.
VALUES_PER_READ = 1000
NAMES_PER_READ = 20_000
#: In how many parts names are counted, with one call.
PARTS = 100


class Counted(Protocol):
    """What the copy needs of the server."""

    def revision(self) -> int:
        """Return the number of the last change."""

    def written(self, span: Span, since: int) -> tuple[list[tuple[str, Found]], int]:
        """Return names and values of a span that were written by this change or later ones, and how many names there
        are in its folder."""

    def count(self, spans: Sequence[Span]) -> list[int]:
        """Return how many names there are."""

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        """Return the names in spans, each list in ascending order."""


class EtcdMirror:
    """A copy of one folder."""

    def __init__(self, server: Counted, folder: Key, values: bool) -> None:
        self.held: dict[str, Found | None] = {}
        self._server = server
        self._folder = folder
        self._values = values
        self._revision = 0
        self._sorted: list[str] = []
        """The names that were held when they were last counted."""

    def refresh(self) -> set[str]:
        revision = self._server.revision()  # what is written from now on is asked for once more the next time
        if revision == self._revision:
            return set()
        changed = self._written() if self._values else self._recounted()
        self._revision = revision
        return changed

    def _written(self) -> set[str]:
        changed: set[str] = set()
        span, full = Span(self._folder, VALUES_PER_READ), True
        while full:
            found, count = self._server.written(span, self._revision + 1)
            self.held.update(found)
            changed.update(name for name, _ in found)
            if full := len(found) == VALUES_PER_READ:
                span = span._replace(first=f"{found[-1][0]}!")
        return changed if count == len(self.held) else changed | self._recounted()

    def _recounted(self) -> set[str]:
        """List the names where there are more or fewer than are held; return those that are gone or, if only names are
        held, new. A new one with a value is read by the next refresh."""
        if len(self._sorted) != len(self.held) or self._values:
            self._sorted = sorted(self.held)
        names = self._sorted
        size = max(1, -(-len(names) // PARTS))
        bounds = ["", *names[size::size], None]
        spans = [Span(self._folder, None, first or "", last) for first, last in pairwise(bounds)]
        parts = [names[start : start + size] for start in range(0, max(1, len(names)), size)]
        counts = self._server.count(spans)
        changed: set[str] = set()
        for span, part, count in zip(spans, parts, counts, strict=True):
            if count != len(part):
                there = self._listed(span)
                gone = set(part) - there
                new = set() if self._values else there - set(part)
                for name in gone:
                    del self.held[name]
                self.held.update(dict.fromkeys(new))
                changed |= gone | new
        if changed:
            self._sorted = []
        return changed

    def _listed(self, span: Span) -> set[str]:
        there: set[str] = set()
        while True:
            (names,) = self._server.names([span._replace(limit=NAMES_PER_READ)])
            there.update(names)
            if len(names) < NAMES_PER_READ:
                return there
            span = span._replace(first=f"{names[-1]}!")
