"""Jobs and runs of a store on etcd or ZooKeeper whose places are missing: found and put back, some at a time.

A row says in which place its job or run stands, and both are always changed in one step. So no step takes a place away
and leaves the row; only somebody's hand does, or a server that was restored from parts. Such a row cannot be fired,
claimed, ended, changed or removed, because each of these deletes its place. So nobody comes between while it gets a new
one, except others who put it back too; and of these only one finds the row in the version that was read.
"""

from __future__ import annotations

from collections.abc import Sequence

from goscheduler.codec import CodecError
from goscheduler.jobstores._keyvalue.groups import Groups, Part, Work, commit, write_all
from goscheduler.jobstores._keyvalue.rows import JobRow, RunRow, lane_of
from goscheduler.jobstores._keyvalue.server import Found, Key, Span, Step
from goscheduler.jobstores.base import Requeued

_FOLDERS = ("jobs", "runs")
#: How many names, and how many rows, are read in one call of the server.
MOST_NAMES = 10_000
AT_ONCE = 100


class Strays:
    """Walks over all jobs, then over all runs of one store."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._server = work.server
        self._folder = 0
        self._names: list[str] = []
        self._after = ""
        """Names of the folder from this one on are not read yet."""

    def put_back(self, limit: int) -> Requeued:
        """Look at about ``limit`` jobs and runs, from where the last call has stopped."""
        ids: list[str] = []
        lanes = set(self._server.names([Span(("lanes",))])[0])
        while limit > 0:
            names = self._next(min(limit, AT_ONCE))
            if names:
                limit -= len(names)
                ids += self._put_back([(_FOLDERS[self._folder], name) for name in names], lanes)
                continue
            self._folder, self._after = (self._folder + 1) % len(_FOLDERS), ""
            if self._folder == 0:
                return Requeued(ids)
        return Requeued(ids, more=True)

    def _next(self, count: int) -> list[str]:
        """Return the next names of the folder; none if it has no more."""
        if not self._names:
            self._names = self._server.names([Span((_FOLDERS[self._folder],), MOST_NAMES, self._after)])[0]
            if self._names:
                self._after = f"{self._names[-1]}!"  # comes before whatever else follows: "!" is in no word
        names, self._names = self._names[:count], self._names[count:]
        return names

    def _put_back(self, keys: Sequence[Key], lanes: set[str]) -> list[str]:
        """Put back those of some jobs or runs that are astray; return their ids."""
        rows = [row for row, _ in self._rows(keys)]
        places = self._server.read([row.place for row in rows])
        suspects = {row.key: row.place for row, place in zip(rows, places, strict=True) if place is None}
        # A row that was moved meanwhile is not astray: it names another place now.
        again = [each for each in self._rows(list(suspects)) if each[0].place == suspects[each[0].key]]
        in_no_lane = [row for row in rows if row.place[0] in ("due", "ready") and row.place[1] not in lanes]
        for lane in {row.place[1] for row in in_no_lane}:
            self._server.ensure(("lanes", lane))
            lanes.add(lane)
        mended = [row.id for row, version in again if self._mend(row, version)]
        return list(dict.fromkeys([*mended, *(row.id for row in in_no_lane)]))

    def _rows(self, keys: Sequence[Key]) -> list[tuple[JobRow | RunRow, int]]:
        """Return the rows that can be read, and their versions."""
        rows = []
        for key, found in zip(keys, self._server.read(keys), strict=True):
            row = None if found is None else self._row(key, found)
            if found is not None and row is not None:
                rows.append((row, found.version))
        return rows

    def _row(self, key: Key, found: Found) -> JobRow | RunRow | None:
        try:
            return self._work.rows.job_row(found) if key[0] == "jobs" else self._work.rows.run_row(found)
        except CodecError:
            return None

    def _mend(self, row: JobRow | RunRow, version: int) -> bool:
        """Give a row a place; false if somebody else has done so."""
        self._server.ensure(("lanes", lane_of(row)))
        if isinstance(row, RunRow):
            return self._mend_run(row, version)
        moved = row.moved()
        step = Step()
        step.create(moved.place)
        step.replace(row.key, moved.text, version)
        return commit(self._work, step)

    def _mend_run(self, row: RunRow, version: int) -> bool:
        """Give a live run back to its owner. A pending one may try, even if it was held: nobody might wake it."""
        moved = row.moved(held=None)
        part, groups = Part(), Groups(self._server)
        part.step.create(moved.place)
        part.step.replace(row.key, moved.text, version)
        if row.held is not None and self._server.read([row.waiting])[0] is not None:
            part.step.delete(row.waiting)
        names = row.groups if row.owner is not None else row.groups[:1]
        groups.load(names)
        for name in names:
            member = row.member[2]
            if member not in groups[name].live | groups[name].waiting:
                part.step.create(("members", name, member))
                groups[name].take_in(member)
                part.touched.add(name)
        return write_all(self._work, groups, [part])
