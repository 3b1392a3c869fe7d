"""Requeues orphans: jobs and runs of a store on etcd or ZooKeeper whose place does not exist.

A row names the place of its job or run, and every transaction changes both. Only a manual edit, or a server that was
restored in part, leaves a row without its place. No process can fire, claim, end, change or remove such a row, because
each of these deletes the place. So only another requeue can interfere, and only one of two requeues finds the version
of the row that it has read.
"""

from __future__ import annotations

from collections.abc import Sequence

from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.groups import Groups
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, queue_of
from goscheduler.jobstores._keyvalue.server import Key, Span, Transaction
from goscheduler.jobstores._keyvalue.transaction import Change, write_all
from goscheduler.jobstores.base import Requeued

_FOLDERS = ("jobs", "runs")
#: How many names, and how many rows, one call reads.
NAMES_PER_READ = 10_000
ROWS_PER_READ = 100


class OrphanScan:
    """Reads all jobs, then all runs of one store, some at a time."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._server = context.server
        self._folder = 0
        self._names: list[str] = []
        self._after = ""
        """Names of the folder from this one on are not read yet."""

    def requeue(self, limit: int) -> Requeued:
        """Check about ``limit`` jobs and runs, from where the last call has stopped, and requeue the orphans."""
        ids: list[str] = []
        queues = set(self._server.names([Span(("lanes",))])[0])
        while limit > 0:
            names = self._next(min(limit, ROWS_PER_READ))
            if names:
                limit -= len(names)
                ids += self._requeue([(_FOLDERS[self._folder], name) for name in names], queues)
                continue
            self._folder, self._after = (self._folder + 1) % len(_FOLDERS), ""
            if self._folder == 0:
                return Requeued(ids)
        return Requeued(ids, more=True)

    def _next(self, count: int) -> list[str]:
        """Return the next names of the folder; none if it has no more."""
        if not self._names:
            self._names = self._server.names([Span((_FOLDERS[self._folder],), NAMES_PER_READ, self._after)])[0]
            if self._names:
                self._after = f"{self._names[-1]}!"  # sorts before all names that follow: "!" is in no name
        names, self._names = self._names[:count], self._names[count:]
        return names

    def _requeue(self, keys: Sequence[Key], queues: set[str]) -> list[str]:
        """Requeue the orphans among some jobs or runs; return their ids."""
        rows = self._read_rows(keys)
        places = self._server.read([row.place for row in rows])
        suspects = {row.key: row.place for row, place in zip(rows, places, strict=True) if place is None}
        # A row that was moved meanwhile is no orphan: it names another place now.
        again = [row for row in self._read_rows(list(suspects)) if row.place == suspects[row.key]]
        in_no_queue = [row for row in rows if row.place[0] in ("due", "ready") and row.place[1] not in queues]
        for queue in {row.place[1] for row in in_no_queue}:
            self._server.ensure(("lanes", queue))
            queues.add(queue)
        requeued = [row.id for row in again if self._requeue_row(row)]
        return list(dict.fromkeys([*requeued, *(row.id for row in in_no_queue)]))

    def _read_rows(self, keys: Sequence[Key]) -> list[JobRow | RunRow]:
        """Return the rows that can be read."""
        codec = self._context.codec
        read = {"jobs": codec.readable_job_row, "runs": codec.readable_run_row}
        rows = [read[key[0]](found) for key, found in zip(keys, self._server.read(keys), strict=True)]
        return [row for row in rows if row is not None]

    def _requeue_row(self, row: JobRow | RunRow) -> bool:
        """Give a row a new place; false if another process has done so."""
        self._server.ensure(("lanes", queue_of(row)))
        if isinstance(row, RunRow):
            return self._requeue_run(row)
        moved = row.moved()
        return self._server.commit(Transaction().create(moved.place).replace(row.key, moved.text, row.version))

    def _requeue_run(self, row: RunRow) -> bool:
        """Return a live run to its owner. Unblock a blocked run, because nothing else might ever unblock it."""
        moved = row.moved(blocked_on=None)
        change, groups = Change(), Groups(self._server)
        change.create(moved.place)
        change.replace(row.key, moved.text, row.version)
        if row.blocked_on is not None and self._server.read([row.blocked_key])[0] is not None:
            change.delete(row.blocked_key)
        groups.load(row.member_of)
        for name in row.member_of:
            member = row.member[2]
            if member not in groups[name].live | groups[name].waiting:
                change.create(("members", name, member))
                groups[name].add(member)
                change.bumped.add(name)
        return write_all(self._server, groups, [change])
