"""Firing in the Redis store.

=====  ===================================================================  =======================================
step   what happens                                                         a crash after it leaves
=====  ===================================================================  =======================================
take   the script reads due jobs, and hides them from other processes       the jobs are due again after
                                                                            :data:`~.due_work.HIDDEN_US`
plan   the pure functions of the request decide, here                       the same
write  the script writes the decisions, unless something that they are      owned runs; the lease lapses
       based on has changed since: then the job is due again
=====  ===================================================================  =======================================

The first writer wins: what other processes have based on the same fence is refused. Each step is one round trip for any
number of jobs. A round that finds nothing due is the first step alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.jobstores._shared.decisions import decide
from goscheduler.jobstores._shared.records import run_head, zone_text
from goscheduler.jobstores.base import Fired, FireRequest, Suspended
from goscheduler.jobstores.redis.due_work import Batch, DueWork, DueWorkReader
from goscheduler.jobstores.redis.rows import JobState, Rows, dumps, json_text, moment, record_row
from goscheduler.runs.model import unchecked_tuple
from goscheduler.runs.plan import REPLACED_BY_NEWER_RUN
from goscheduler.runs.records import record_of
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.plan import FiringPlan

#: How often a round takes and plans again after other processes have changed everything that it had taken.
MAX_TRIES = 3


class Firing:
    """Fires for one store."""

    def __init__(self, reader: DueWorkReader, rows: Rows) -> None:
        self._reader = reader
        self._rows = rows

    def fire(self, request: FireRequest) -> Fired:
        """Fire what is due."""
        room = dict(request.room)
        fired: list[_Fired] = []
        for _ in range(MAX_TRIES):
            batch = self._reader.take("take_due", request, room)
            work = batch.work
            if not batch.taken:
                break
            fired, work = self._fire(batch, request, room)
            if fired or not work.is_due(work.due, room):
                break
        self._reader.remember(request, work)
        return Fired(
            [run for each in fired for run in each.plan.start],
            [record for each in fired for record in each.plan.records],
            [each.job for each in fired if _fate(each.plan) == "gone"],
            [Suspended(each.job, each.plan.suspended) for each in fired if each.plan.suspended is not None],
            work.next_of(work.due, room), work.is_out_of_capacity(work.due, room), None, work.now,
        )  # fmt: skip

    def _fire(self, batch: Batch, request: FireRequest, room: dict[str, int]) -> tuple[list[_Fired], DueWork]:
        """Return what was fired of a batch, and what there is to do after that."""
        ledger = batch.ledger()
        items: list[list[Any]] = []
        runs: list[str] = []
        planned: list[_Fired] = []
        for *fields, job_id, number, live, waiting in batch.taken:
            state: JobState = unchecked_tuple(JobState, fields)
            job = self._rows.job(job_id, state, batch.definitions[number], "")
            plan, fence = decide(job, request, batch.work.now, live, waiting, int(state.fence), ledger)
            items.append(_item(job_id, state, live, plan, fence))
            for run in (*plan.start, *plan.wait):
                due = to_micros(run.due_at)
                runs += run.id, run_head(run, due), str(due)
            planned.append(unchecked_tuple(_Fired, (job, plan)))
            if plan.suspended is None:
                job.next_run_time = plan.next_run_time
        refused, work = self._reader.write(
            "write_due", request, room, batch, ledger, json_text(REPLACED_BY_NEWER_RUN), dumps(items), "\0".join(runs)
        )
        fired = [each for each in planned if each.job.id not in refused] if refused else planned
        for job, plan in fired:
            room[job.executor] = room.get(job.executor, 0) - len(plan.start)
        return fired, work


class _Fired(NamedTuple):
    job: Job
    plan: FiringPlan


def _item(job_id: str, state: JobState, live: int, plan: FiringPlan, fence: int) -> list[Any]:
    """Return what is written about a job; its runs stand in a list of their own."""
    fate, following, refusal = _fate(plan), plan.next_run_time, plan.wait_for
    item = [
        job_id, state.stamp, state.fence, state.due, live, str(fence), len(plan.start), len(plan.wait), fate
    ]  # fmt: skip
    if fate != "gone" or plan.records or plan.cancel_live or refusal is not None:
        item += (
            moment(following), "Z" if following is None else zone_text(following), json_text(plan.suspended),
            [record_row(record_of(each)) for each in plan.records], plan.cancel_live,
            None if refusal is None else refusal.key, moment(None if refusal is None else refusal.until),
        )  # fmt: skip
    return item


def _fate(plan: FiringPlan) -> str:
    """Return what becomes of the job."""
    if plan.suspended is not None:
        return "suspended"
    if plan.next_run_time is not None:
        return "moved"
    if plan.waits:
        return "waits"
    return "finished" if plan.keep else "gone"
