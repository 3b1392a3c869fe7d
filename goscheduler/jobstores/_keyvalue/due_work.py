"""What is due in the stores on etcd and ZooKeeper, read from the first names of some queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from goscheduler._chance import CHANCE
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, queue_of
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
from goscheduler.runs.plan import rank
from goscheduler.times import to_micros

#: A process that has lost a race picks at random among so many candidates for each free place.
CANDIDATES_PER_PLACE = 8
#: How many due jobs of a queue one peek returns. If there are no more, they fire without being read again.
MAX_PEEKED_JOBS = 16
#: A transaction that creates such entries makes another peek necessary.
_PEEK_AGAIN_AFTER = frozenset({"ready", "held", "freed", "ending"})


class QueueKey(NamedTuple):
    """Jobs and runs of one executor, one priority and one task."""

    name: str
    executor: str
    """Escaped."""
    priority: int
    task: str
    """Escaped; empty for a job without a task."""

    @classmethod
    def of(cls, name: str) -> QueueKey:
        executor, priority, task = name.split(".")
        return cls(name, executor, int(priority), task)

    def has(self, room: Mapping[str, int]) -> bool:
        """Tell whether its executor has room."""
        return room.get(unescape(self.executor), 0) > 0

    def concerns(self, request: FireRequest) -> bool:
        """Tell whether the process of a request can run what is in the queue."""
        known = not self.task or self.task in map(escape, request.tasks)
        return known and any(self.executor == escape(executor) for executor in request.room)


class Entry(NamedTuple):
    """A name in a queue of due jobs or pending runs."""

    kind: str
    queue: QueueKey
    name: str

    @property
    def place(self) -> Key:
        return (self.kind, self.queue.name, self.name)

    @property
    def subject(self) -> str:
        """The escaped id of the job or run."""
        return self.name.split(".")[1]

    @property
    def rank(self) -> tuple[int, int]:
        due = decode_time(self.name)
        return rank(due, self.queue.priority), due


class DueWork(NamedTuple):
    """What there is to do, in the queues that concern one process."""

    end: str
    """Names of due entries sort before this."""
    due: Mapping[QueueKey, Sequence[str]]
    """Queue → the names of its first due jobs, at most ``MAX_PEEKED_JOBS``."""
    later: Mapping[QueueKey, Sequence[str]]
    """Queue → the name of the first job that is not due yet, if there is one."""
    ready: Mapping[QueueKey, Sequence[str]]
    """Queue → the name of the first pending run, due or not, if there is one."""
    to_cancel: Sequence[str]
    """Escaped ids of the live runs with a cancel request."""
    has_blocked: bool
    """Whether runs wait for others to end."""
    has_unblocked: bool
    """Whether runs were unblocked and have not been claimed yet."""

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
        """Tell whether a job or run is due for which there is no room."""
        return any(name < self.end for queue, name in (*self._jobs(), *self._runs()) if not queue.has(room))

    def is_stuck(self, room: Mapping[str, int]) -> bool:
        """Tell whether blocked runs could start, but for unblocked runs for which there is no room."""
        no_room = any(name < self.end for queue, name in self._runs() if not queue.has(room))
        return self.has_blocked and self.has_unblocked and no_room

    def jobs_for(self, room: Mapping[str, int]) -> list[Entry] | None:
        """Return the due jobs, as :meth:`DueWorkReader.pick` would; None if the peek has not read enough of them."""
        found: list[Entry] = []
        for executor, count in room.items():
            queues = [queue for queue in self.due if queue.executor == escape(executor)]
            names = [self.due[queue] for queue in queues]
            if any(MAX_PEEKED_JOBS <= len(some) < count for some in names):
                return None
            found += sorted(_entries("due", queues, names), key=lambda entry: entry.rank)[: max(0, count)]
        return sorted(found, key=lambda entry: entry.rank)

    def after(self, transactions: Iterable[Transaction]) -> DueWork | None:
        """Return what there is to do after our own transactions; None if another peek has to tell."""
        deleted: set[Key] = set()
        created: dict[str, list[str]] = {queue.name: [] for queue in self.due}
        for transaction in transactions:
            deleted.update(transaction.deleted)
            for kind, *place in transaction.created:
                if kind in _PEEK_AGAIN_AFTER or (kind == "due" and place[0] not in created):
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
        """Yield the first job of each queue."""
        for queue, names in self.due.items():
            for name in (*names, *self.later[queue])[:1]:
                yield queue, name

    def _runs(self) -> Iterator[tuple[QueueKey, str]]:
        for queue, names in self.ready.items():
            for name in names:
                yield queue, name


class DueWorkReader:
    """Reads due work for one store; it remembers which queues there are."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server
        self._queues: list[QueueKey] = []
        self._ensured: set[str] = set()
        self.contended = False
        """Whether other processes were faster the last time that jobs were due."""

    def need(self, row: JobRow | RunRow) -> None:
        """Make sure that every process knows the queue of a job or run."""
        queue = queue_of(row)
        if queue not in self._ensured:
            self._server.ensure(("lanes", queue))
            self._ensured.add(queue)

    def forget(self) -> None:
        """Forget all queues."""
        self._queues, self._ensured = [], set()

    def peek(self, request: FireRequest) -> DueWork:
        """Return what there is to do, with one call unless there are queues that are not known yet."""
        owner = escape(request.owner)
        end = encode_time(to_micros(request.now) + 1)
        while True:
            queues = [queue for queue in self._queues if queue.concerns(request)]
            spans = [Span(("lanes",)), Span.of_prefix(("ending",), owner), Span(("held",), 1), Span(("freed",), 1)]
            spans += [Span(("due", queue.name), MAX_PEEKED_JOBS, "", end) for queue in queues]
            spans += [Span(("due", queue.name), 1, end) for queue in queues]
            spans += [Span(("ready", queue.name), 1) for queue in queues]
            known, ending, blocked, unblocked, *heads = self._server.names(spans)
            if known == [queue.name for queue in self._queues]:
                break
            self._queues = [QueueKey.of(name) for name in known]
        count = len(queues)
        due, later, ready = (dict(zip(queues, heads[at : at + count], strict=True)) for at in (0, count, 2 * count))
        to_cancel = [name.partition(".")[2] for name in ending]
        return DueWork(end, due, later, ready, to_cancel, bool(blocked), bool(unblocked))

    def pick(self, kind: str, request: FireRequest, room: Mapping[str, int], at_random: bool) -> list[Entry]:
        """Return due entries, the lowest rank first, no more than there is room for.

        ``at_random`` picks among more entries than that, because other processes pick at the same time.
        """
        found: list[Entry] = []
        end = encode_time(to_micros(request.now) + 1)
        for executor, count in room.items():
            if count <= 0:
                continue
            queues = [each for each in self._queues if each.executor == escape(executor) and each.concerns(request)]
            limit = count * CANDIDATES_PER_PLACE if at_random else count
            names = self._server.names([Span((kind, queue.name), limit, "", end) for queue in queues])
            entries = sorted(_entries(kind, queues, names), key=lambda entry: entry.rank)[:limit]
            found += CHANCE.sample(entries, min(count, len(entries))) if at_random else entries
        return sorted(found, key=lambda entry: entry.rank)

    def count_due_beside(self, executors: Collection[str], until: datetime) -> Mapping[str, int]:
        """Return how many jobs are due at ``until`` for each executor that is not one of these."""
        excluded = set(map(escape, executors))
        names = self._server.names([Span(("lanes",))])[0]
        queues = [queue for queue in map(QueueKey.of, names) if queue.executor not in excluded]
        end = encode_time(to_micros(until) + 1)
        found = self._server.names([Span(("due", queue.name), None, "", end) for queue in queues])
        return Counter(unescape(entry.queue.executor) for entry in _entries("due", queues, found))

    def all_names(self, kind: str, last: str | None = None, limit: int | None = None) -> list[str]:
        """Return the names in all queues, also in those of other executors and tasks."""
        queues = self._server.names([Span(("lanes",))])[0]
        found = self._server.names([Span((kind, queue), limit, "", last) for queue in queues])
        return [name for names in found for name in names]


def _entries(kind: str, queues: Sequence[QueueKey], names: Sequence[Iterable[str]]) -> list[Entry]:
    return [Entry(kind, queue, name) for queue, found in zip(queues, names, strict=True) for name in found]
