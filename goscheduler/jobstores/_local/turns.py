"""Pending runs that wait until others end: one line for each key, and whose turn it is.

Who has a turn may still be refused under the same key. A firing that came first may have taken the place: then the run
keeps its number in line, or firings might overtake it for ever. Or the run asks for more than has become free, because
its job gives the limit a lower figure than others do: then it goes behind the others, who might do with that.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.jobstores._local.queue import Entry

if TYPE_CHECKING:
    from goscheduler.runs.model import Run


class Turn(NamedTuple):
    """That a run which was held may try again."""

    key: str
    """What it was held under."""
    number: int
    """Its number in that line."""
    live: int
    """How many runs were live under the key when it got the turn."""


class Turns:
    """The lines of one store."""

    def __init__(self) -> None:
        self.lines: dict[str, list[tuple[int, Entry[Run]]]] = {}
        """Key → what is held under it, each with its number, as a heap. No line is empty."""
        self.given: dict[str, Turn] = {}
        """Run id → the turn that it has."""
        self._numbers = itertools.count()

    def entries(self) -> list[Entry[Run]]:
        """Return all that is held, in no order."""
        return [entry for line in self.lines.values() for _, entry in line]

    def hold(self, entry: Entry[Run], key: str, turn: Turn | None, live: int) -> None:
        """Hold a run under a key, under which so many are ``live``; ``turn`` is the one that it had."""
        overtaken = turn is not None and turn.key == key and turn.live < live
        number = turn.number if turn is not None and overtaken else next(self._numbers)
        heapq.heappush(self.lines.setdefault(key, []), (number, entry))

    def give(self, key: str, live: int) -> Entry[Run] | None:
        """Give the first that is held under a key its turn, and return it; None if there is none."""
        line = self.lines.get(key)
        if line is None:
            return None
        number, entry = heapq.heappop(line)
        self.given[entry[2].id] = Turn(key, number, live)
        if not line:
            del self.lines[key]
        return entry

    def drop(self, gone: Collection[str]) -> None:
        """Forget runs, by their ids, that are held."""
        for key, line in list(self.lines.items()):
            left = [each for each in line if each[1][2].id not in gone]
            if left:
                heapq.heapify(left)
                self.lines[key] = left
            else:
                del self.lines[key]
