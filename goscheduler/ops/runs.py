"""Operations on runs: those that have ended, those that go on, and cancelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import RunLookupError
from goscheduler.ops.access import Role
from goscheduler.ops.filters import OUTCOMES, ErrorType, JobId, Since, Tag
from goscheduler.ops.jobs import Ids
from goscheduler.ops.model import ChangeView, LiveRunView, Page, RunRow, RunView
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.schema import TEXT, Choices, Number, Text, Whole
from goscheduler.ops.views import live_row, run_row

if TYPE_CHECKING:
    from goscheduler.runs.records import Record

#: A search through the history looks at so many records at a time, and gives up after so many seconds.
PORTION = 500
SEARCH_SECONDS = 1.0

Limit = Annotated[int, Whole("How many at most.", 1, 200)]
Before = Annotated[str | None, TEXT]


@operation(Role.VIEWER, kept=True)
def find_runs(
    call: Call,
    jobstore: Store = None,
    job_id: JobId = None,
    outcome: Annotated[list[str] | None, Choices("How they ended.", OUTCOMES)] = None,
    since: Since = None,
    until: Since = None,
    tag: Tag = None,
    error_type: ErrorType = None,
    owner: Annotated[str | None, Text("Only those that this process ran.")] = None,
    later_than: Annotated[float | None, Number("Only those that began later than so many seconds.")] = None,
    limit: Limit = 50,
    before: Before = None,
) -> Page[RunRow]:
    """Return a page of the attempts that have ended, newest first."""

    def fits(record: Record) -> bool:
        return (
            (owner is None or record.owner == owner)
            and (later_than is None or record.lateness > later_than)
            and call.sees_job(record.job_id, record.tags, jobstore)
        )

    tag = call.own_tag if tag is None else tag
    found = history_pages(call, jobstore, before, limit, owner is None and later_than is None, {
        "job_id": job_id, "outcome": outcome, "since": since, "until": until, "tag": tag, "error_type": error_type,
    })  # fmt: skip
    return searched(found, fits, limit)


def history_pages(
    call: Call, jobstore: str | None, before: str | None, limit: int, exact: bool, filters: dict[str, Any]
) -> Iterable[list[Record]]:
    """Yield portions of the history, newest first; of one store, or of all that are in scope."""
    call.check_store(jobstore)
    portion = limit + 1 if exact else PORTION
    alias = call.only_store(jobstore)
    while True:
        records = call.scheduler.runs(jobstore=alias, limit=portion, before=before, **filters)
        yield records
        if len(records) < portion:
            return
        before = records[-1].cursor


def searched(portions: Iterable[list[Record]], fits: Callable[[Record], bool], limit: int) -> Page[RunRow]:
    """Return a page of what fits; it ends early where the search takes too long."""
    rows: list[RunRow] = []
    deadline = Deadline(SYSTEM_CLOCK, SEARCH_SECONDS)
    for portion in portions:
        for record in filter(fits, portion):
            if len(rows) == limit:
                return Page(rows, rows[-1].cursor)
            rows.append(run_row(record))
        if portion and not deadline.left():
            return Page(rows, portion[-1].cursor, complete=False)
    return Page(rows, None)


@operation(Role.VIEWER)
def run(
    call: Call,
    id: Id,
    job_id: Annotated[str | None, Text("The id of its job: with it the run is found sooner.")] = None,
    jobstore: Store = None,
) -> RunView:
    """Return where a run stands, and all of its attempts, newest first."""
    attempts: list[Record] = []
    dead = False
    for _, store in call.stores(jobstore):
        attempts += [record for record in store.attempts(id, job_id) if call.sees_job(record.job_id, record.tags)]
        dead = dead or store.dead_letter(id) is not None
    if job_id is None and attempts:
        job_id = attempts[0].job_id
    live = [each for each in call.scheduler.live_runs(job_id, call.only_store(jobstore)) if each.id == id]
    live = [each for each in live if call.sees_job(each.job_id)]
    if not attempts and not live:
        raise RunLookupError(id, "run")
    return RunView(id, live_row(live[0]) if live else None, [run_row(record) for record in attempts], dead)


@operation(Role.VIEWER)
def live_runs(
    call: Call,
    jobstore: Store = None,
    job_id: JobId = None,
    limit: Annotated[int, Whole("How many at most.", 1, 10_000)] = 1000,
) -> list[LiveRunView]:
    """Return the runs that wait, are queued or go on, those that go on for longest first."""
    call.check_store(jobstore)
    found = [
        run for run in call.scheduler.live_runs(job_id, call.only_store(jobstore)) if call.sees_job(run.job_id)
    ]
    found.sort(key=lambda run: (run.started_at is None, run.started_at or run.due_at, run.id))
    return [live_row(run) for run in found[:limit]]


@operation(Role.OPERATOR, acts=True)
def cancel_runs(call: Call, ids: Ids, jobstore: Store = None) -> ChangeView:
    """End runs: those that wait at once, those that go on as soon as they can be ended."""
    in_scope = set(ids)
    if not call.principal.sees_all:
        in_scope = {run.id for run in call.scheduler.live_runs() if run.id in in_scope and call.sees_job(run.job_id)}
    ended, failed = [], {}
    for run_id in ids:
        if run_id in in_scope and call.scheduler.cancel_run(run_id, call.reason or f"cancelled by {call.by}"):
            ended.append(run_id)
        else:
            failed[run_id] = str(RunLookupError(run_id, "live run"))
    if len(ids) == 1 and failed:
        raise RunLookupError(ids[0], "live run")
    return ChangeView(ended, [], failed)
