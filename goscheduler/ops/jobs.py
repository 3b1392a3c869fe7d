"""Operations on jobs that are named: look, pause, resume, run, edit, remove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from goscheduler.errors import GoSchedulerError, InvalidArgument
from goscheduler.job import copy_with
from goscheduler.ops.access import Role
from goscheduler.ops.errors import Changed, message_of
from goscheduler.ops.filters import JobFilters
from goscheduler.ops.gaps import gaps_of
from goscheduler.ops.model import (
    ChangeView,
    CountView,
    EditView,
    FireTime,
    JobRow,
    JobView,
    NextView,
    Page,
    RunRow,
    WhyView,
)
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.schema import FLAG, MOMENT, TEXT, Choice, JsonValue, Moment, Text, Texts, Whole
from goscheduler.ops.views import NO_RUNS, definition_of, etag_of, fire_times, job_row, job_view, run_row
from goscheduler.runs.queries import SORTS, follows
from goscheduler.schedulers._diagnosis import closed_at
from goscheduler.schedulers._requested_trigger import trigger_of

if TYPE_CHECKING:
    from goscheduler.job import Job

#: A job shows so many of its last runs, and what did not run within this time.
LAST_RUNS = 5
GAPS_WITHIN = timedelta(days=1)
COUNT_CAP = 10_000

Ids = Annotated[list[str], Texts("Their ids.")]


@operation(Role.VIEWER, kept=True)
def find_jobs(
    call: Call,
    wanted: JobFilters,
    sort: Annotated[str, Choice("The order.", SORTS)] = "next_run",
    limit: Annotated[int, Whole("How many at most.", 1, 200)] = 50,
    after: Annotated[str | None, TEXT] = None,
    outcomes: Annotated[int, Whole("How many of the last outcomes of each job are told.", 0, 20)] = 0,
) -> Page[JobRow]:
    """Return a page of the jobs that fit."""
    found = call.scheduler.find_jobs(sort=sort, limit=limit, after=after, **wanted.given(call))
    states = call.scheduler.job_states(found.jobs)
    rows: list[JobRow] = [
        job_row(job, state, call.scheduler.runs(job.id, job.jobstore, outcomes) if outcomes else ())
        for job, state in zip(found.jobs, states, strict=True)
    ]
    return Page(rows, found.next, found.complete)


@operation(Role.VIEWER, kept=True)
def count_jobs(call: Call, wanted: JobFilters) -> CountView:
    """Count the jobs that fit, up to 10,000."""
    found = call.scheduler.count_jobs(cap=COUNT_CAP, **wanted.given(call))
    return CountView(found.number, found.exact)


@operation(Role.VIEWER)
def job(call: Call, id: Id, jobstore: Store = None) -> JobView:
    """Return all that is known of a job."""
    found = call.job(id, jobstore)
    scheduler, alias = call.scheduler, found.jobstore or ""
    now = call.now
    counts = call.source.stores[alias].run_counts([id], now).get(id, NO_RUNS)
    gaps = gaps_of(scheduler, found, now - GAPS_WITHIN, now)
    last = scheduler.runs(id, alias, LAST_RUNS)
    return job_view(found, scheduler.job_states([found])[0], scheduler.why(id, alias), counts, last, gaps)


@operation(Role.VIEWER)
def why(
    call: Call,
    id: Id,
    jobstore: Store = None,
    at: Annotated[str | None, MOMENT] = None,
) -> WhyView:
    """Return why a job is not running now, or why it did not run at a time that has passed."""
    found = call.job(id, jobstore)
    alias = found.jobstore or ""
    able = [process for process in call.scheduler.processes() if found.executor in process.executors]
    sentence = call.scheduler.why(id, alias) if at is None else _why_then(call, found, at)
    return WhyView(
        id, call.scheduler.job_states([found])[0].value, sentence, found.executor,
        [limit.name for limit in found.limits], getattr(found, "next_run_time", None), len(able),
    )  # fmt: skip


def _why_then(call: Call, found: Job, at: str) -> str:
    moment = call.moment("at", at)
    assert moment is not None
    if moment > call.now:
        return call.scheduler.why(found.id, found.jobstore)
    slack = timedelta(seconds=1)
    gaps = gaps_of(call.scheduler, found, moment - slack, moment + slack)
    if gaps:
        return f"It was to run at {gaps[0].at.isoformat()}, and did not: {gaps[0].reason}."
    records = call.scheduler.runs(found.id, found.jobstore, since=moment - slack, limit=1000)
    of_then = [record for record in records if abs(record.scheduled_at - moment) <= slack]
    if of_then:
        ends = "; ".join(f"attempt {each.attempt} {each.outcome.value}" for each in reversed(of_then))
        return f"It ran for {of_then[-1].scheduled_at.isoformat()}: {ends}."
    closed = closed_at(found, moment)
    because = f"; its calendar was closed: {closed}" if closed else ""
    return f"Its schedule has no time at {moment.isoformat()}, and the history has no run for it{because}."


@operation(Role.VIEWER)
def next_fires(
    call: Call,
    id: Id,
    jobstore: Store = None,
    count: Annotated[int, Whole("How many times.", 1, 1000)] = 10,
) -> list[FireTime]:
    """Return the next fire times of a job, without jitter."""
    found = call.job(id, jobstore)
    first = getattr(found, "next_run_time", None)
    if first is None or found.suspended is not None:
        return []
    following = found.trigger.preview(count, first)
    return fire_times([first, *(time for time in following if time > first)][:count])


@operation(Role.VIEWER)
def job_timeline(
    call: Call,
    id: Id,
    jobstore: Store = None,
    limit: Annotated[int, Whole("How many at most.", 1, 200)] = 200,
) -> list[RunRow]:
    """Return the last attempts of a job, which may be gone, newest first."""
    records = call.scheduler.runs(id, _store_of(call, jobstore), limit)
    return [run_row(record) for record in records if call.sees_job(id, record.tags, jobstore)]


@operation(Role.OPERATOR, acts=True)
def pause_jobs(call: Call, ids: Ids, jobstore: Store = None) -> ChangeView:
    """Stop firing jobs until they are resumed."""
    undo_id = call.new_id()

    def pause(found: Job) -> bool:
        if getattr(found, "next_run_time", found) is None and found.suspended is None:
            return False
        call.scheduler.pause_job(found.id, found.jobstore, by=call.by, reason=call.reason, pause_id=undo_id)
        return True

    return _each(call, ids, jobstore, pause, undo_id=undo_id)


@operation(Role.OPERATOR, acts=True)
def resume_jobs(call: Call, ids: Ids, jobstore: Store = None) -> ChangeView:
    """Fire paused jobs again, from now on; one that has no time left is removed."""

    def resume(found: Job) -> bool:
        if getattr(found, "next_run_time", None) is not None and found.suspended is None:
            return False
        call.scheduler.resume_job(found.id, found.jobstore)
        return True

    return _each(call, ids, jobstore, resume)


@operation(Role.OPERATOR, acts=True)
def run_jobs(call: Call, ids: Ids, jobstore: Store = None) -> ChangeView:
    """Run jobs once, now, beside their schedules."""
    run_ids: dict[str, str] = {}

    def run(found: Job) -> bool:
        run_ids[found.id] = call.scheduler.run_now(found.id, found.jobstore)
        return True

    return _each(call, ids, jobstore, run, run_ids=run_ids)


@operation(Role.OPERATOR, acts=True)
def skip_next(call: Call, id: Id, jobstore: Store = None) -> NextView:
    """Leave out the next run of a job, once."""
    found = call.job(id, jobstore)
    before = getattr(found, "next_run_time", None)
    return _next_view(call, before, call.scheduler.skip_next(id, found.jobstore))


@operation(Role.OPERATOR, acts=True)
def postpone_job(
    call: Call,
    id: Id,
    until: Annotated[str, Moment("When it is to run instead: a date and time, or a length of time from now.")],
    jobstore: Store = None,
) -> NextView:
    """Put off the next run of a job, once; fire times up to then are left out."""
    found = call.job(id, jobstore)
    moment = call.moment("until", until, ahead=True)
    assert moment is not None
    before = getattr(found, "next_run_time", None)
    return _next_view(call, before, call.scheduler.postpone(id, moment, found.jobstore))


def _next_view(call: Call, before: datetime | None, after: Job) -> NextView:
    view = NextView(after.id, before, after.next_run_time)
    times = {"before": view.before, "after": view.next_run_time}
    call.facts.update({name: {"next_run_time": str(time)} for name, time in times.items()})
    return view


@operation(Role.ADMIN, acts=True)
def remove_jobs(call: Call, ids: Ids, jobstore: Store = None) -> ChangeView:
    """Remove jobs."""

    def remove(found: Job) -> bool:
        call.scheduler.remove_job(found.id, found.jobstore)
        return True

    return _each(call, ids, jobstore, remove)


def _each(call: Call, ids: list[str], jobstore: str | None, act: Callable[[Job], bool], **more: Any) -> ChangeView:
    """Act on each job; what cannot be done to one is told, and the others follow."""
    changed: list[str] = []
    unchanged: list[str] = []
    failed: dict[str, str] = {}
    for job_id in ids:
        try:
            (changed if act(call.job(job_id, jobstore)) else unchanged).append(job_id)
        except (GoSchedulerError, RuntimeError) as error:
            if call.is_outage(error):
                raise
            if len(ids) == 1:
                raise
            failed[job_id] = message_of(error)
    return ChangeView(changed, unchanged, failed, **more)


@operation(Role.ADMIN, acts=True)
def edit_job(
    call: Call,
    id: Id,
    changes: Annotated[dict[str, Any], JsonValue("Name → new value: trigger, args, kwargs, options.", "object")],
    jobstore: Store = None,
    expect: Annotated[str | None, Text("The etag of the job as it was seen; if it differs, nothing is done.")] = None,
    dry_run: Annotated[bool, FLAG] = False,
) -> EditView:
    """Change a job: its trigger, arguments, options, name. Never its function."""
    found = call.job(id, jobstore)
    checked = _changes(call, changes)
    seen: list[tuple[Mapping[str, Any], Job]] = []

    def edit(current: Job) -> Job:
        tag = etag_of(current)
        if expect is not None and tag != expect:
            raise Changed(f"job {id} is not as it was seen any more", tag or "")
        edited = copy_with(current, **checked)
        if "trigger" in checked and (getattr(current, "next_run_time", None) is not None or follows(current)):
            edited.next_run_time = call.scheduler.engine.jobs.first_fire_time(edited)
        seen[:] = [(definition_of(current), edited)]
        return edited

    if dry_run:
        edit(found)
    else:
        call.scheduler.engine.jobs.edit(id, found.jobstore, edit)
    before, edited = seen[0]
    after = definition_of(edited)
    differing = [name for name in after if before[name] != after[name]]
    view = EditView(
        id, {name: before[name] for name in differing}, {name: after[name] for name in differing},
        etag_of(edited), not dry_run,
    )  # fmt: skip
    call.facts.update(before=view.before, after=view.after)
    return view


#: What an edit may change.
EDITABLE = frozenset({
    "trigger", "args", "kwargs", "name", "tags", "description", "metadata", "priority", "timeout", "max_instances",
    "coalesce", "misfire_grace_time", "overlap", "on_crash", "max_crashes", "auto_remove", "executor",
})  # fmt: skip


def _changes(call: Call, changes: Mapping[str, Any]) -> dict[str, Any]:
    if not changes:
        raise InvalidArgument("changes must name what is to be changed", field="changes")
    for name in changes:
        if name not in EDITABLE:
            known = ", ".join(sorted(EDITABLE))
            raise InvalidArgument(f"changes: {name} cannot be changed; these can: {known}", field=f"changes.{name}")
    checked = dict(changes)
    if "trigger" in checked:
        trigger = trigger_of(checked["trigger"], call.scheduler.timezone, "changes.trigger")
        checked["trigger"] = trigger.anchored(call.now)
    return checked


def _store_of(call: Call, jobstore: str | None) -> str | None:
    return call.scoped(None, jobstore)["jobstore"] if call.principal.stores is not None else jobstore
