"""Claiming in the stores on etcd and ZooKeeper: read the pending runs, ask which may start, write the claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goscheduler.codec import CodecError
from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.due_work import DueWorkReader, Entry
from goscheduler.jobstores._keyvalue.firing import MAX_ROUNDS
from goscheduler.jobstores._keyvalue.groups import Groups
from goscheduler.jobstores._keyvalue.rows import RunRow, group_of
from goscheduler.jobstores._keyvalue.server import Found, Span, new_token
from goscheduler.jobstores._keyvalue.settling import put_aside, unblock_next
from goscheduler.jobstores._keyvalue.transaction import MAX_CHANGES_PER_TRANSACTION, Change, write, write_all
from goscheduler.jobstores._shared.decisions import admit
from goscheduler.jobstores.base import FireRequest
from goscheduler.runs.model import Run
from goscheduler.runs.transitions import claimed
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.runs.plan import Refusal

#: How many of the live runs that block a run must still be live when that is written.
MAX_CHECKED_MEMBERS = 16


class Claiming:
    """One call of ``claim_runs``."""

    def __init__(self, context: StoreContext, reader: DueWorkReader, request: FireRequest) -> None:
        self._context = context
        self._reader = reader
        self._request = request
        self.room = dict(request.room)
        self.claimed: list[Run] = []

    def claim(self) -> None:
        """Claim the due pending runs for which there is room."""
        losses = 0
        for _ in range(MAX_ROUNDS):
            entries = self._reader.pick("ready", self._request, self.room, at_random=losses > 1)
            if not entries:
                break
            losses += self._claim(entries, losses)

    def pass_on(self) -> bool:
        """Unblock other runs instead of unblocked runs for which there is no room; true if that unblocks any."""
        server = self._context.server
        rows = self._context.run_rows(server.names([Span(("freed",))])[0])
        idle = [row for row in rows if row.unblocked_by is not None and self.room.get(row.executor, 1) <= 0]
        groups = Groups(server, (group_of(row.unblocked_by) for row in idle if row.unblocked_by is not None))
        changes = []
        for row in idle:
            change = Change()
            if unblock_next(self._context, change, row.unblocked_by or "", groups):
                change.move(row, row._replace(unblocked_by=None))
                changes.append(change)
        return bool(changes) and write_all(server, groups, changes)

    def _claim(self, entries: Sequence[Entry], losses: int) -> bool:
        server = self._context.server
        groups = Groups(server)
        changes: list[Change] = []
        rows: list[RunRow] = []
        for entry, found in zip(entries, server.read([("runs", entry.subject) for entry in entries]), strict=True):
            row = self._context.codec.readable_run_row(found)
            if row is None:
                changes.append(_without_row(entry, found))
            elif row.place == entry.place:
                rows.append(row)
        groups.load(name for row in rows for name in row.groups)
        groups.load(group_of(row.unblocked_by) for row in rows if row.unblocked_by is not None)
        groups.open_ledger({name for row in rows for name in row.limits})
        changes += [self._claim_one(row, groups) for row in rows]
        limit = max(1, MAX_CHANGES_PER_TRANSACTION >> (2 * losses))
        written = write(server, groups, changes, limit)
        for change in written.changes:
            if change.result is not None:
                self.claimed.append(change.result)
                self.room[change.result.job.executor] -= 1
        if written.error is not None:
            raise written.error
        return written.lost

    def _claim_one(self, row: RunRow, groups: Groups) -> Change:
        now, change = self._request.now, Change()
        try:
            run = self._context.codec.run(row)
        except CodecError:
            put_aside(change, row, groups)
            return change
        live = len(groups[row.groups[0]].live)
        refusal, fence = admit(run, self._request, now, live, row.fence, groups.ledger)
        if refusal is not None:
            self._refuse(change, row, refusal, groups)
            return change
        ours = row.moved(owner=self._request.owner, fence=fence, unblocked_by=None)
        change.leave_groups(row, groups)
        change.left.clear()
        change.join_groups(ours, groups)
        change.move(row, ours)
        change.result = claimed(run, self._request.owner, fence)
        return change

    def _refuse(self, change: Change, row: RunRow, refusal: Refusal, groups: Groups) -> None:
        """Write when a run is to be tried again, or which live runs block it."""
        if refusal.until is not None:
            moved = row.moved(due=max(to_micros(refusal.until), row.due), unblocked_by=None)
        else:
            moved = row.moved(blocked_on=refusal.key, unblocked_by=None)
            group = groups[moved.place[1]]
            for member in sorted(group.found)[:MAX_CHECKED_MEMBERS]:  # or the last of them may have ended meanwhile
                change.check(("members", group.name, member))
            group.add(moved.place[2])
            change.bumped.add(group.name)
        change.move(row, moved)
        if row.unblocked_by is not None and row.unblocked_by != refusal.key:
            unblock_next(self._context, change, row.unblocked_by, groups)


def _without_row(entry: Entry, found: Found | None) -> Change:
    """Return the change that puts an unreadable run aside, or that deletes an entry without a run."""
    change = Change()
    change.delete(entry.place)
    if found is not None:
        change.create(("aside", f"{entry.subject}.{new_token()}"))
    return change
