"""``goscheduler blackouts``: hold jobs back, or leave their fire times out, for a while."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli._options import Reason, Where, grouped
from goscheduler.cli._print import print_json, print_rows
from goscheduler.cli._session import opened
from goscheduler.cli._text import field_cell
from goscheduler.times import local_timezone

app = typer.Typer(help="Hold jobs back for a while, or leave them out.", no_args_is_help=True)

COLUMNS = ("id", "state", "start", "end", "action", "tag", "job_id", "reason")

BlackoutId = Annotated[str, typer.Argument(metavar="BLACKOUT_ID", help="The id of a blackout.")]


@app.command("list")
@grouped
def list_blackouts(where: Where) -> None:
    """List the blackouts to come, in force, and of the last 30 days."""
    with opened(where) as session:
        print_rows(session.call("blackouts"), COLUMNS, as_json=where.as_json, nothing="There are no blackouts.")


@app.command("add")
@grouped
def add_blackout(
    end: Annotated[str, typer.Option("--to", metavar="TIME", help="When it ends; 2h is in two hours.")],
    where: Where,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="When it begins; now if it is left out.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only jobs with this tag.")] = None,
    job: Annotated[str | None, typer.Option("--job", metavar="JOB_ID", help="Only this job.")] = None,
    action: Annotated[str, typer.Option(help="hold: once at the end; skip: recorded as skipped.")] = "hold",
    reason: Reason = None,
) -> None:
    """Hold jobs back, or leave their fire times out, for a while."""
    with opened(where) as session:
        view = session.call("add_blackout", start=start, end=end, tag=tag, job_id=job, action=action, reason=reason)
        _print(view, where, "is set")


@app.command("remove")
@grouped
def remove_blackout(blackout_id: BlackoutId, where: Where, reason: Reason = None) -> None:
    """End a blackout, or call one off; jobs that it holds back fire now."""
    with opened(where) as session:
        _print(session.call("remove_blackout", id=blackout_id, reason=reason), where, "is removed")


def _print(view: dict[str, Any], where: Where, done: str) -> None:
    if where.as_json:
        print_json(view)
        return
    start, end = (field_cell(name, view[name], local_timezone()) for name in ("start", "end"))
    meant = f"job {view['job_id']}" if view["job_id"] else "all jobs"
    meant = f"{meant} with tag {view['tag']}" if view["tag"] else meant
    print(printable(f"Blackout {view['id']} {done}: {view['action']} {meant} from {start} to {end}."))
