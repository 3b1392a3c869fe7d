"""What is due, in the stores on etcd and ZooKeeper: a look at the first names of some lanes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from goscheduler.jobstores._keyvalue.server import (
    Key,
    KeyValue,
    Span,
    Transaction,
    decode_time,
    encode_time,
    escape,
    unescape,
)
from goscheduler.jobstores.base import FireRequest
from goscheduler.runs.plan import PRIORITY_STEP_US
from goscheduler.times import to_micros

#: Who has lost a race takes his pick among so many times what he has room for.
CANDIDATES_PER_SLOT = 8
#: How many due jobs of a lane a look brings: where there are no more of them, they fire without being looked for again.
MAX_PEEKED_JOBS = 16
#: Entries that call for another look when we have written them.
_NEWS = frozenset({"ready", "held", "freed", "ending"})


class QueueKey(NamedTuple):
    """Jobs and runs of one executor, one priority and one task."""

    name: str
    executor: str
    """As a word."""
    priority: int
    task: str
    """As a word, or nothing."""

    @classmethod
    def of(cls, name: str) -> QueueKey:
        executor, priority, task = name.split(".")
        return cls(name, executor, int(priority), task)

    def has(self, room: Mapping[str, int]) -> bool:
        """Tell whether its executor has room."""
        return room.get(unescape(self.executor), 0) > 0


class Entry(NamedTuple):
    """A name in a lane."""

    queue: QueueKey
    name: str

    @property
    def subject(self) -> str:
        """The word of the job or run."""
        return self.name.split(".")[1]

    @property
    def rank(self) -> tuple[int, int]:
        due = decode_time(self.name)
        return due + self.queue.priority * PRIORITY_STEP_US, due


class DueWork(NamedTuple):
    """What there is to do, in the lanes of who has asked."""

    end: str
    """Names of what is due come before this."""
    due: Mapping[QueueKey, Sequence[str]]
    """Lane → the first names of jobs that are due, at most ``MAX_PEEKED_JOBS``."""
    later: Mapping[QueueKey, Sequence[str]]
    """Lane → the name of the first job that is not due yet, if there is one."""
    ready: Mapping[QueueKey, Sequence[str]]
    """The same of the first pending run, whether it is due or not."""
    to_cancel: Sequence[str]
    """Words of the runs that are to be ended."""
    has_blocked: bool
    """Whether runs wait for others to end."""
    has_unblocked: bool
    """Whether runs were let try again, and have not been claimed yet."""

    def job_due(self, room: Mapping[str, int]) -> int | None:
        """Return when the first job is due for which there is room."""
        return min((decode_time(name) for queue, name in self._jobs() if queue.has(room)), default=None)

    def run_due(self, room: Mapping[str, int]) -> int | None:
        """Return when the first pending run is due for which there is room."""
        return min((decode_time(name) for queue, name in self._runs() if queue.has(room)), default=None)

    def has_due_jobs(self, room: Mapping[str, int]) -> bool:
        """Tell whether a job is due for which there is room."""
        return any(name < self.end for queue, name in self._jobs() if queue.has(room))

    def has_due_runs(self, room: Mapping[str, int]) -> bool:
        """Tell whether a pending run is due for which there is room."""
        return any(name < self.end for queue, name in self._runs() if queue.has(room))

    def out_of_capacity(self, room: Mapping[str, int]) -> bool:
        """Tell whether something is due for which there is no room."""
        return any(name < self.end for queue, name in (*self._jobs(), *self._runs()) if not queue.has(room))

    def stuck(self, room: Mapping[str, int]) -> bool:
        """Tell whether runs that wait could try, but for others that were let try and have no room."""
        out_of_capacity = any(name < self.end for queue, name in self._runs() if not queue.has(room))
        return self.has_blocked and self.has_unblocked and out_of_capacity

    def at_hand(self, room: Mapping[str, int]) -> list[Entry] | None:
        """Return the jobs that are due, as ``pick`` would; None if not enough of them were seen."""
        found: list[Entry] = []
        for executor, count in room.items():
            queues = [queue for queue in self.due if queue.executor == escape(executor)]
            names = [self.due[queue] for queue in queues]
            if any(MAX_PEEKED_JOBS <= len(some) < count for some in names):
                return None
            found += sorted(_entries(queues, names), key=lambda entry: entry.rank)[: max(0, count)]
        return sorted(found, key=lambda entry: entry.rank)

    def after(self, steps: Iterable[Transaction]) -> DueWork | None:
        """Return what there is to do when steps of ours are written; None if that has to be looked for."""
        deleted: set[Key] = set()
        created: dict[str, list[str]] = {queue.name: [] for queue in self.due}
        for transaction in steps:
            deleted.update(transaction.deleted)
            for kind, *place in transaction.created:
                if kind in _NEWS or (kind == "due" and place[0] not in created):
                    return None
                if kind == "due":
                    created[place[0]].append(place[1])
        if any(len(names) >= MAX_PEEKED_JOBS for names in self.due.values()):
            return None
        due, later = {}, {}
        for queue in self.due:
            names = sorted([*self.due[queue], *self.later[queue], *created[queue.name]])
            names = [name for name in names if ("due", queue.name, name) not in deleted]
            due[queue] = [name for name in names if name < self.end]
            later[queue] = names[len(due[queue]) :][:1]
        return self._replace(due=due, later=later)

    def _jobs(self) -> Iterator[tuple[QueueKey, str]]:
        """Yield the first job of each lane."""
        for queue, names in self.due.items():
            for name in (*names, *self.later[queue])[:1]:
                yield queue, name

    def _runs(self) -> Iterator[tuple[QueueKey, str]]:
        for queue, names in self.ready.items():
            for name in names:
                yield queue, name


class DueWorkReader:
    """Looks for one store; it remembers which lanes there are."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server
        self._queues: list[QueueKey] = []
        self._ensured: set[str] = set()
        self.contended = False
        """Whether somebody else was quicker the last time that something was due."""

    def need(self, queue: str) -> None:
        """See to it that a lane is known to everybody."""
        if queue not in self._ensured:
            self._server.ensure(("lanes", queue))
            self._ensured.add(queue)

    def forget(self) -> None:
        """Know nothing any more."""
        self._queues, self._ensured = [], set()

    def peek(self, request: FireRequest) -> DueWork:
        """Return what there is to do: one call, unless there are lanes that are not known yet."""
        owner = escape(request.owner)
        end = encode_time(to_micros(request.now) + 1)
        while True:
            queues = [queue for queue in self._queues if _concerns(queue, request)]
            spans = [Span(("lanes",)), Span.of_prefix(("ending",), owner), Span(("held",), 1), Span(("freed",), 1)]
            spans += [Span(("due", queue.name), MAX_PEEKED_JOBS, "", end) for queue in queues]
            spans += [Span(("due", queue.name), 1, end) for queue in queues]
            spans += [Span(("ready", queue.name), 1) for queue in queues]
            known, to_cancel, blocked, unblocked, *heads = self._server.names(spans)
            if known == [queue.name for queue in self._queues]:
                break
            self._queues = [QueueKey.of(name) for name in known]
        count = len(queues)
        due, later, ready = (dict(zip(queues, heads[at : at + count], strict=True)) for at in (0, count, 2 * count))
        names = [name.partition(".")[2] for name in to_cancel]
        return DueWork(end, due, later, ready, names, bool(blocked), bool(unblocked))

    def pick(self, kind: str, request: FireRequest, room: Mapping[str, int], at_random: bool) -> list[Entry]:
        """Return what is due, the lowest rank first, no more than there is room for.

        ``at_random`` says to pick by chance among more than that, because others pick at the same time.
        """
        found: list[Entry] = []
        end = encode_time(to_micros(request.now) + 1)
        for executor, count in room.items():
            if count <= 0:
                continue
            queues = [
                queue for queue in self._queues if queue.executor == escape(executor) and _concerns(queue, request)
            ]
            limit = count * CANDIDATES_PER_SLOT if at_random else count
            names = self._server.names([Span((kind, queue.name), limit, "", end) for queue in queues])
            entries = sorted(_entries(queues, names), key=lambda entry: entry.rank)[:limit]
            found += random.sample(entries, min(count, len(entries))) if at_random else entries
        return sorted(found, key=lambda entry: entry.rank)

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        """Return executor → how many jobs are due at ``until`` and name it, for all executors but these."""
        known = set(map(escape, executors))
        there = self._server.names([Span(("lanes",))])[0]
        queues = [queue for queue in map(QueueKey.of, there) if queue.executor not in known]
        end = encode_time(to_micros(until) + 1)
        names = self._server.names([Span(("due", queue.name), None, "", end) for queue in queues])
        return Counter(unescape(entry.queue.executor) for entry in _entries(queues, names))

    def everything(self, kind: str, last: str | None = None, limit: int | None = None) -> list[str]:
        """Return the names in all lanes, whoever can run what is there."""
        queues = self._server.names([Span(("lanes",))])[0]
        found = self._server.names([Span((kind, queue), limit, "", last) for queue in queues])
        return [name for names in found for name in names]


def _concerns(queue: QueueKey, request: FireRequest) -> bool:
    """Tell whether who asks can run what is in a lane."""
    known = not queue.task or queue.task in map(escape, request.tasks)
    return known and any(queue.executor == escape(executor) for executor in request.room)


def _entries(queues: Sequence[QueueKey], names: Sequence[Iterable[str]]) -> list[Entry]:
    return [Entry(queue, name) for queue, found in zip(queues, names, strict=True) for name in found]
