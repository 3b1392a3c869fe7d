"""Claiming in the Redis store: pending runs are taken and written as due jobs are, see :mod:`.firing`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.decisions import admit
from goscheduler.jobstores.base import Claimed, FireRequest
from goscheduler.jobstores.redis.due_work import Batch, DueWork, DueWorkReader
from goscheduler.jobstores.redis.firing import MAX_TRIES
from goscheduler.jobstores.redis.rows import Rows, RunState, dumps, json_text
from goscheduler.runs.limits import Ledger
from goscheduler.runs.transitions import claimed
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import Run


class Claiming:
    """Claims for one store."""

    def __init__(self, reader: DueWorkReader, rows: Rows) -> None:
        self._reader = reader
        self._rows = rows

    def claim(self, request: FireRequest) -> tuple[Claimed, bool]:
        """Claim what is pending and due; tell also whether a run of this owner has a cancel request."""
        room = dict(request.room)
        work = self._reader.recall(request)
        runs: list[Run] = []
        tries_left = MAX_TRIES
        while not runs and tries_left and (work is None or work.is_due(work.ready, room)):
            batch = self._reader.take("take_ready", request, room)
            work = batch.work
            if not batch.taken:
                break
            runs, work, refused = self._claim(batch, request, room)
            tries_left -= len(refused) == len(batch.taken)  # else some were put off, and others have their turn
        assert work is not None, "every round peeks once"
        self._reader.forget()
        more = work.blocked or work.is_out_of_capacity(work.ready, room)
        return Claimed(runs, work.next_of(work.ready, room), more), work.to_cancel

    def _claim(
        self, batch: Batch, request: FireRequest, room: dict[str, int]
    ) -> tuple[list[Run], DueWork, set[str]]:
        ledger, started = batch.ledger(), Counter[str]()
        decisions = [self._decide(each, request, ledger, started, batch.work.now) for each in batch.taken]
        items = dumps([each.item for each in decisions])
        refused, work = self._reader.write("write_ready", request, room, batch, ledger, items)
        runs = [each.run for each in decisions if each.run is not None and each.run.id not in refused]
        for run in runs:
            room[run.job.executor] = room.get(run.job.executor, 0) - 1
        return runs, work, refused

    def _decide(
        self, taken: Sequence[Any], request: FireRequest, ledger: Ledger, started: Counter[str], now: datetime
    ) -> _Decision:
        run_id, fields, text, live = taken
        state = RunState(*fields)
        base = [state.fence, state.due]
        try:
            run = self._rows.run(run_id, state, text)
        except CodecError as error:
            return _Decision([run_id, live, "aside", "", json_text(str(error)), base])
        refusal, fence = admit(run, request, now, live + started[state.job_id], int(state.fence), ledger)
        if refusal is None:
            started[state.job_id] += 1
            return _Decision([run_id, live, "start", str(fence), "", base], claimed(run, request.owner, fence))
        if refusal.until is not None:
            until = max(to_micros(refusal.until), to_micros(run.due_at))
            return _Decision([run_id, live, "later", "", str(until), base])
        return _Decision([run_id, live, "hold", "", refusal.key, base])


class _Decision(NamedTuple):
    """What was decided about a pending run."""

    item: list[Any]
    run: Run | None = None
