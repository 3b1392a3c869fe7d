"""Operations on backfills: run a job for fire times of the past, look how far that is, call it off."""

from __future__ import annotations

from typing import Annotated

from goscheduler.errors import RunLookupError
from goscheduler.ops.access import Role
from goscheduler.ops.model_times import BackfillRow, BackfillView, SkippedTime
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.schema import FLAG, Choice, Moment, Text, Whole
from goscheduler.runs.backfill import MOST_AT_ONCE, REPROCESS, BackfillProgress

Start = Annotated[str, Moment("The first fire time, or how long ago it is.")]
End = Annotated[str, Moment("Fire times before this moment, or before so long ago.")]


@operation(Role.OPERATOR, acts=True)
def backfill(
    call: Call,
    id: Id,
    start: Start,
    end: End,
    reprocess: Annotated[
        str, Choice("Which times: those that were not run, also those that failed, or all.", REPROCESS)
    ] = "missing",
    at_once: Annotated[int, Whole("How many of the runs go on at once, at most.", 1, MOST_AT_ONCE)] = 1,
    newest_first: Annotated[bool, FLAG] = False,
    dry_run: Annotated[bool, FLAG] = False,
    jobstore: Store = None,
) -> BackfillView:
    """Run a job for its fire times of the past; the same call goes on with what it has begun."""
    found = call.job(id, jobstore)
    done = call.scheduler.backfill(id, start, end, reprocess, at_once, newest_first, dry_run, found.jobstore)
    call.facts["backfill"] = {"id": done.id, "times": len(done.times), "skipped": len(done.skipped)}
    skipped = [SkippedTime(at, why) for at, why in sorted(done.skipped.items())]
    return BackfillView(
        done.id, id, list(done.times), skipped, done.at_once, done.history_since, done.note, not dry_run
    )  # fmt: skip


@operation(Role.VIEWER)
def backfills(
    call: Call,
    job_id: Annotated[str | None, Text("Only of this job.")] = None,
    jobstore: Store = None,
) -> list[BackfillRow]:
    """Return how far backfills have come, newest first."""
    call.check_store(jobstore)
    return [BackfillRow(**each._asdict()) for each in call.scheduler.backfills(job_id, jobstore) if _sees(call, each)]


@operation(Role.OPERATOR, acts=True)
def cancel_backfill(call: Call, id: Id) -> BackfillRow:
    """Call off the runs of a backfill that wait; those that go on do so."""
    _found(call, id)  # one that is out of scope is not there
    call.scheduler.cancel_backfill(id)
    return _found(call, id)


def _found(call: Call, backfill_id: str) -> BackfillRow:
    for each in call.scheduler.backfills():
        if each.id == backfill_id and _sees(call, each):
            return BackfillRow(**each._asdict())
    raise RunLookupError(backfill_id)


def _sees(call: Call, each: BackfillProgress) -> bool:
    return call.principal.sees_store(each.jobstore) and call.sees_job(each.job_id, jobstore=each.jobstore)
