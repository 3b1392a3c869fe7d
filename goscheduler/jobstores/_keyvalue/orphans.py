"""Jobs and runs of a store on etcd or ZooKeeper whose places are missing: found and put back, some at a time.

A row says in which place its job or run stands, and both are always changed in one step. So no step takes a place away
and leaves the row; only somebody's hand does, or a server that was restored from parts. Such a row cannot be fired,
claimed, ended, changed or removed, because each of these deletes its place. So nobody comes between while it gets a new
one, except others who put it back too; and of these only one finds the row in the version that was read.
"""

from __future__ import annotations

from collections.abc import Sequence

from goscheduler.codec import CodecError
from goscheduler.jobstores._keyvalue.groups import Change, Groups, StoreContext, commit, write_all
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, queue_of
from goscheduler.jobstores._keyvalue.server import Found, Key, Span, Transaction
from goscheduler.jobstores.base import Requeued

_FOLDERS = ("jobs", "runs")
#: How many names, and how many rows, are read in one call of the server.
NAMES_PER_READ = 10_000
ROWS_PER_READ = 100


class OrphanScan:
    """Walks over all jobs, then over all runs of one store."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._server = context.server
        self._folder = 0
        self._names: list[str] = []
        self._after = ""
        """Names of the folder from this one on are not read yet."""

    def put_back(self, limit: int) -> Requeued:
        """Look at about ``limit`` jobs and runs, from where the last call has stopped."""
        ids: list[str] = []
        queues = set(self._server.names([Span(("lanes",))])[0])
        while limit > 0:
            names = self._next(min(limit, ROWS_PER_READ))
            if names:
                limit -= len(names)
                ids += self._put_back([(_FOLDERS[self._folder], name) for name in names], queues)
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
                self._after = f"{self._names[-1]}!"  # comes before whatever else follows: "!" is in no word
        names, self._names = self._names[:count], self._names[count:]
        return names

    def _put_back(self, keys: Sequence[Key], queues: set[str]) -> list[str]:
        """Put back those of some jobs or runs that are astray; return their ids."""
        rows = [row for row, _ in self._read_rows(keys)]
        places = self._server.read([row.place for row in rows])
        suspects = {row.key: row.place for row, place in zip(rows, places, strict=True) if place is None}
        # A row that was moved meanwhile is not astray: it names another place now.
        again = [each for each in self._read_rows(list(suspects)) if each[0].place == suspects[each[0].key]]
        in_no_queue = [row for row in rows if row.place[0] in ("due", "ready") and row.place[1] not in queues]
        for queue in {row.place[1] for row in in_no_queue}:
            self._server.ensure(("lanes", queue))
            queues.add(queue)
        mended = [row.id for row, version in again if self._mend(row, version)]
        return list(dict.fromkeys([*mended, *(row.id for row in in_no_queue)]))

    def _read_rows(self, keys: Sequence[Key]) -> list[tuple[JobRow | RunRow, int]]:
        """Return the rows that can be read, and their versions."""
        rows = []
        for key, found in zip(keys, self._server.read(keys), strict=True):
            row = None if found is None else self._row(key, found)
            if found is not None and row is not None:
                rows.append((row, found.version))
        return rows

    def _row(self, key: Key, found: Found) -> JobRow | RunRow | None:
        try:
            return self._context.codec.job_row(found) if key[0] == "jobs" else self._context.codec.run_row(found)
        except CodecError:
            return None

    def _mend(self, row: JobRow | RunRow, version: int) -> bool:
        """Give a row a place; false if somebody else has done so."""
        self._server.ensure(("lanes", queue_of(row)))
        if isinstance(row, RunRow):
            return self._mend_run(row, version)
        moved = row.moved()
        transaction = Transaction()
        transaction.create(moved.place)
        transaction.replace(row.key, moved.text, version)
        return commit(self._context, transaction)

    def _mend_run(self, row: RunRow, version: int) -> bool:
        """Give a live run back to its owner. A pending one may try, even if it was held: nobody might wake it."""
        moved = row.moved(blocked_on=None)
        change, groups = Change(), Groups(self._server)
        change.transaction.create(moved.place)
        change.transaction.replace(row.key, moved.text, version)
        if row.blocked_on is not None and self._server.read([row.blocked_key])[0] is not None:
            change.transaction.delete(row.blocked_key)
        names = row.groups if row.owner is not None else row.groups[:1]
        groups.load(names)
        for name in names:
            member = row.member[2]
            if member not in groups[name].live | groups[name].waiting:
                change.transaction.create(("members", name, member))
                groups[name].take_in(member)
                change.bumped.add(name)
        return write_all(self._context, groups, [change])
