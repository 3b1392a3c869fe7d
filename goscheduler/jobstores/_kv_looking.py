"""What is due, in the stores on etcd and ZooKeeper: a look at the first names of some lanes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from goscheduler.jobstores._kv_port import KeyValue, Span, name_of, time_of, time_word, word
from goscheduler.jobstores.base import FireRequest
from goscheduler.runs.plan import AGEING
from goscheduler.times import instant

#: Who has lost a race takes his pick among so many times what he has room for.
SPREAD = 8


class Lane(NamedTuple):
    """Jobs and runs of one executor, one priority and one task."""

    name: str
    executor: str
    """As a word."""
    priority: int
    task: str
    """As a word, or nothing."""

    @classmethod
    def of(cls, name: str) -> Lane:
        executor, priority, task = name.split(".")
        return cls(name, executor, int(priority), task)


class Entry(NamedTuple):
    """A name in a lane."""

    lane: Lane
    name: str

    @property
    def subject(self) -> str:
        """The word of the job or run."""
        return self.name.split(".")[1]

    @property
    def rank(self) -> tuple[int, int]:
        due = time_of(self.name)
        return due + self.lane.priority * AGEING, due


class Seen(NamedTuple):
    """What there is to do."""

    job_due: int | None
    """When the first job is due for which there is room."""
    run_due: int | None
    crowded: bool
    """Whether something is due for which there is no room."""
    to_end: list[str]
    """Words of the runs that are to be ended."""
    held: bool
    """Whether runs wait for others to end."""
    stuck: bool
    """Whether some of them could try, but for others that were let try and have no room."""


class Looking:
    """Looks for one store; it remembers which lanes there are."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server
        self._lanes: list[Lane] = []
        self._ensured: set[str] = set()
        self.contended = False
        """Whether somebody else was quicker the last time that something was due."""

    def need(self, lane: str) -> None:
        """See to it that a lane is known to everybody."""
        if lane not in self._ensured:
            self._server.ensure(("lanes", lane))
            self._ensured.add(lane)

    def forget(self) -> None:
        """Know nothing any more."""
        self._lanes, self._ensured = [], set()

    def look(self, request: FireRequest, room: Mapping[str, int]) -> Seen:
        """Return what there is to do: one call, unless there are lanes that are not known yet."""
        owner = word(request.owner)
        while True:
            lanes = [lane for lane in self._lanes if _concerns(lane, request)]
            spans = [Span(("lanes",)), Span.of_prefix(("ending",), owner), Span(("held",), 1), Span(("freed",), 1)]
            spans += [Span((kind, lane.name), 1) for kind in ("due", "ready") for lane in lanes]
            known, ending, held, freed, *heads = self._server.names(spans)
            if known == [lane.name for lane in self._lanes]:
                break
            self._lanes = [Lane.of(name) for name in known]
        free = {word(executor): count for executor, count in room.items()}
        now = instant(request.now)
        jobs, jobs_crowded = _first(lanes, heads[: len(lanes)], free, now)
        runs, runs_crowded = _first(lanes, heads[len(lanes) :], free, now)
        to_end = [name.partition(".")[2] for name in ending]
        return Seen(jobs, runs, jobs_crowded or runs_crowded, to_end, bool(held), bool(held and freed and runs_crowded))

    def pick(self, kind: str, request: FireRequest, room: Mapping[str, int], luck: bool) -> list[Entry]:
        """Return what is due, the lowest rank first, no more than there is room for.

        ``luck`` says to pick by chance among more than that, because others pick at the same time.
        """
        found: list[Entry] = []
        end = time_word(instant(request.now) + 1)
        for executor, count in room.items():
            if count <= 0:
                continue
            lanes = [lane for lane in self._lanes if lane.executor == word(executor) and _concerns(lane, request)]
            limit = count * SPREAD if luck else count
            names = self._server.names([Span((kind, lane.name), limit, "", end) for lane in lanes])
            entries = sorted(_entries(lanes, names), key=lambda entry: entry.rank)[:limit]
            found += random.sample(entries, min(count, len(entries))) if luck else entries
        return sorted(found, key=lambda entry: entry.rank)

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        """Return executor → how many jobs are due at ``until`` and name it, for all executors but these."""
        known = set(map(word, executors))
        lanes = [lane for lane in map(Lane.of, self._server.names([Span(("lanes",))])[0]) if lane.executor not in known]
        end = time_word(instant(until) + 1)
        names = self._server.names([Span(("due", lane.name), None, "", end) for lane in lanes])
        return Counter(name_of(entry.lane.executor) for entry in _entries(lanes, names))

    def everything(self, kind: str, last: str | None = None, limit: int | None = None) -> list[str]:
        """Return the names in all lanes, whoever can run what is there."""
        lanes = self._server.names([Span(("lanes",))])[0]
        found = self._server.names([Span((kind, lane), limit, "", last) for lane in lanes])
        return [name for names in found for name in names]


def _concerns(lane: Lane, request: FireRequest) -> bool:
    """Tell whether who asks can run what is in a lane."""
    known = not lane.task or lane.task in map(word, request.tasks)
    return known and any(lane.executor == word(executor) for executor in request.room)


def _first(
    lanes: Sequence[Lane], heads: Sequence[Sequence[str]], free: Mapping[str, int], now: int
) -> tuple[int | None, bool]:
    """Return when the first is due for which there is room, and whether one is due for which there is none."""
    times = [(lane, time_of(names[0])) for lane, names in zip(lanes, heads, strict=True) if names]
    first = min((time for lane, time in times if free[lane.executor] > 0), default=None)
    return first, any(time <= now for lane, time in times if free[lane.executor] <= 0)


def _entries(lanes: Sequence[Lane], names: Sequence[Iterable[str]]) -> list[Entry]:
    return [Entry(lane, name) for lane, found in zip(lanes, names, strict=True) for name in found]
