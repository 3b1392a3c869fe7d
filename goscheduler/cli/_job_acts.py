"""``goscheduler jobs pause``, ``resume``, ``run`` and ``remove``: jobs that are named, or all that fit some filters;
``skip`` and ``postpone``: the next run of one job; ``backfill``: its fire times of the past."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import typer

from goscheduler._text import printable
from goscheduler.cli._backfill import print_backfill
from goscheduler.cli._bulk_act import act_on_all
from goscheduler.cli._command_error import FAILED, CommandError
from goscheduler.cli._options import JobFilters, JobId, Reason, Where, Yes, grouped
from goscheduler.cli._print import note, print_json
from goscheduler.cli._session import Session, opened
from goscheduler.cli._text import field_cell, many
from goscheduler.errors import JobLookupError
from goscheduler.times import local_timezone

#: So many jobs are named in one call of an operation.
PORTION = 200
#: What a list has of a job, which is told of one that was paused or resumed.
ROW = (
    "id", "name", "state", "next_run_time", "trigger", "suspended", "jobstore", "executor", "task", "tags", "priority",
    "last_outcome", "last_run", "paused_by", "pause_reason",
)  # fmt: skip

JobIds = Annotated[list[str] | None, typer.Argument(metavar="[JOB_ID]...", help="The ids of the jobs, or filters.")]


class Acting(NamedTuple):
    """How many jobs are dealt with."""

    reason: Reason = None
    yes: Yes = False


def add_to(app: typer.Typer) -> None:
    """Add the commands to those of ``goscheduler jobs``."""
    commands: tuple[Callable[..., None], ...] = (pause, resume, run, remove, skip, postpone, backfill)
    for command in commands:
        app.command(command.__name__)(grouped(command))


def pause(where: Where, filters: JobFilters, acting: Acting, job_ids: JobIds = None) -> None:
    """Stop firing jobs until they are resumed."""
    with opened(where) as session:
        if _named(job_ids, filters):
            changed = _act(session, "pause_jobs", job_ids or [], acting)
            _print_changes(session, changed, where, "paused")
            if changed["changed"]:
                note(printable(f"Undo: goscheduler jobs resume --pause-id {changed['undo_id']}"))
            _end(changed)
        else:
            act_on_all(session, "pause", filters, acting.reason, yes=acting.yes, as_json=where.as_json)


def resume(where: Where, filters: JobFilters, acting: Acting, job_ids: JobIds = None) -> None:
    """Fire paused jobs again, from now on."""
    with opened(where) as session:
        if _named(job_ids, filters):
            changed = _act(session, "resume_jobs", job_ids or [], acting)
            _print_changes(session, changed, where, "resumed")
            _end(changed)
        else:
            act_on_all(session, "resume", filters, acting.reason, yes=acting.yes, as_json=where.as_json)


def run(where: Where, filters: JobFilters, acting: Acting, job_ids: JobIds = None) -> None:
    """Ask for a run of jobs now, beside their schedules; a worker takes it up."""
    with opened(where) as session:
        if not _named(job_ids, filters):
            act_on_all(session, "run", filters, acting.reason, yes=acting.yes, as_json=where.as_json)
            return
        changed = _act(session, "run_jobs", job_ids or [], acting)
        run_ids: dict[str, str] = changed["run_ids"]
        if where.as_json:
            first = next(iter(run_ids.items()), None) if len(job_ids or ()) == 1 else None
            print_json({**({} if first is None else {"id": first[0], "run_id": first[1]}), **changed})
        else:
            for job_id, run_id in run_ids.items():
                print(printable(f"Run {run_id} of job {job_id} is waiting."))
        _end(changed)


def remove(where: Where, filters: JobFilters, acting: Acting, job_ids: JobIds = None) -> None:
    """Remove jobs."""
    with opened(where) as session:
        if _named(job_ids, filters):
            changed = _act(session, "remove_jobs", job_ids or [], acting)
            _print_changes(session, changed, where, "removed")
            _end(changed)
        else:
            act_on_all(session, "remove", filters, acting.reason, yes=acting.yes, as_json=where.as_json)


def skip(job_id: JobId, where: Where, reason: Reason = None) -> None:
    """Leave out the next run of a job, once."""
    with opened(where) as session:
        _print_next(session.call("skip_next", id=job_id, reason=reason), where)


def postpone(
    job_id: JobId,
    until: Annotated[str, typer.Option(metavar="TIME", help="When it is to run instead; 2h is in two hours.")],
    where: Where,
    reason: Reason = None,
) -> None:
    """Put off the next run of a job, once."""
    with opened(where) as session:
        _print_next(session.call("postpone_job", id=job_id, until=until, reason=reason), where)


def backfill(
    job_id: JobId,
    start: Annotated[str, typer.Option("--from", metavar="TIME", help="The first fire time; 7d is seven days ago.")],
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="Fire times before this moment.")],
    where: Where,
    reprocess: Annotated[
        str, typer.Option(help="missing: what was not run; failed: also what failed; all.")
    ] = "missing",
    at_once: Annotated[int, typer.Option(help="How many of the runs go on at once, at most.")] = 1,
    newest_first: Annotated[bool, typer.Option("--newest-first", help="The last fire time first.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the fire times, and run nothing.")] = False,
    reason: Reason = None,
) -> None:
    """Run a job for its fire times of the past. Given again, it goes on with what it has begun."""
    with opened(where) as session:
        view = session.call(
            "backfill", id=job_id, start=start, end=end, reprocess=reprocess, at_once=at_once,
            newest_first=newest_first, dry_run=dry_run, reason=reason,
        )  # fmt: skip
        if where.as_json:
            print_json(view)
        else:
            print_backfill(view)


def _print_next(view: dict[str, Any], where: Where) -> None:
    if where.as_json:
        print_json(view)
        return
    before, after = (field_cell("next_run_time", view[name], local_timezone()) for name in ("before", "next_run_time"))
    print(printable(f"Job {view['id']} does not run at {before}; it runs next at {after}."))


def _named(job_ids: list[str] | None, filters: JobFilters) -> bool:
    """Tell whether the jobs are named; they are filtered otherwise."""
    if bool(job_ids) == bool(filters.given()):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in filters._fields)
        raise CommandError(f"name one JOB_ID or several, or say which jobs are meant with {options}; not both")
    return bool(job_ids)


def _act(session: Session, operation: str, job_ids: list[str], acting: Acting) -> dict[str, Any]:
    """Return what became of the jobs, in one view. Of several portions, only the last pause is undone by its id."""
    ids = list(dict.fromkeys(job_ids))
    if len(ids) > PORTION:
        raise CommandError(f"at most {PORTION} jobs can be named, got {len(ids)}: say with a filter which are meant")
    view: dict[str, Any] = session.call(operation, ids=ids, reason=acting.reason)
    return view


def _print_changes(session: Session, changed: dict[str, Any], where: Where, done: str) -> None:
    ids = [*changed["changed"], *changed["unchanged"]]
    row = _row(session, ids[0]) if len(ids) == 1 and not changed["failed"] else {}
    if where.as_json:
        print_json({**row, **changed})
    elif row:
        print(printable(_sentence(row, bool(changed["changed"]), done)))
    else:
        for sentence in _sentences(changed, done):
            print(sentence)


def _row(session: Session, job_id: str) -> dict[str, Any]:
    """Return the job as a list shows it, as it is now."""
    try:
        view = session.call("job", id=job_id)
    except JobLookupError:
        return {"id": job_id, "removed": True}
    return {name: view[name] for name in ROW}


def _sentence(row: dict[str, Any], changed: bool, done: str) -> str:
    if row.get("removed"):
        lasting = "had no time left and is" if done == "resumed" else "is"
        return f"Job {row['id']} {lasting} removed."
    if not changed:
        return f"Job {row['id']} was {'paused already' if done == 'paused' else 'not paused'}."
    if done == "resumed":
        time = field_cell("next_run_time", row["next_run_time"], local_timezone())
        return f"Job {row['id']} is resumed; it runs next at {time}."
    return f"Job {row['id']} is {done}."


def _sentences(changed: dict[str, Any], done: str) -> Iterator[str]:
    count = len(changed["changed"])
    yield f"{many(count, 'job')} {'is' if count == 1 else 'are'} {done}."
    if changed["unchanged"]:
        reason = "paused already" if done == "paused" else "not paused"
        yield printable(f"As they were, because {reason}: {', '.join(changed['unchanged'])}")


def _end(changed: dict[str, Any]) -> None:
    """Say what could not be done, which is exit code 1."""
    for job_id, why in changed["failed"].items():
        note(printable(f"Error: {job_id}: {why}"))
    if changed["failed"]:
        raise typer.Exit(FAILED)
