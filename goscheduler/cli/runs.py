"""``goscheduler runs``: what ran, what is running, and how to stop it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import FAILED
from goscheduler.cli._options import (
    Before,
    ErrorType,
    Job,
    Limit,
    Reason,
    RunId,
    Since,
    TagOfRuns,
    Until,
    Watch,
    Where,
    grouped,
)
from goscheduler.cli._print import note, print_facts, print_json, print_rows
from goscheduler.cli._session import opened
from goscheduler.cli._text import percent
from goscheduler.cli._watch import repeated

app = typer.Typer(help="Look at runs and cancel them.", no_args_is_help=True)

COLUMNS = ("finished_at", "job_id", "outcome", "attempt", "seconds", "run_id", "error")
LIVE_COLUMNS = ("state", "job_id", "due_at", "started_at", "attempt", "process", "run_id", "progress")


@app.command("list")
@grouped
def list_runs(
    where: Where,
    job: Job = None,
    outcome: Annotated[
        list[str] | None, typer.Option(help="How it ended, such as failed; may be given several times.")
    ] = None,
    since: Since = None,
    until: Until = None,
    tag: TagOfRuns = None,
    error_type: ErrorType = None,
    owner: Annotated[str | None, typer.Option(help="Only those that this process ran.")] = None,
    later_than: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Only those that began later than that.")
    ] = None,
    limit: Limit = 100,
    before: Before = None,
) -> None:
    """List what ran, was missed or was skipped, newest first."""
    with opened(where) as session:
        rows, following = session.pages(
            "find_runs", limit, "before", before, job_id=job, since=since, until=until, tag=tag, error_type=error_type,
            owner=owner, later_than=later_than, outcome=[word.replace("_", " ") for word in outcome or ()] or None,
        )  # fmt: skip
        print_rows(rows, COLUMNS, as_json=where.as_json, nothing="There are no such runs.")
        if following is not None and not where.as_json:
            note(f"More: --before {following}")


@app.command("live")
@grouped
def list_live_runs(
    where: Where,
    job: Job = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many to show at most.")] = 1000,
    watch: Watch = False,
) -> None:
    """List the runs that wait, are queued or are running; those that run for longest first."""
    with opened(where) as session:

        def show(most: int | None) -> None:
            rows = session.call("live_runs", job_id=job, limit=limit)
            shown = rows if where.as_json else list(map(_live_row, rows))
            print_rows(shown, LIVE_COLUMNS, as_json=where.as_json, nothing="No runs are live.", most=most)

        repeated(show, watch)


def _live_row(run: dict[str, Any]) -> dict[str, Any]:
    process = f"{run['host']}:{run['pid']}" if run["host"] else ""
    return {**run, "process": process, "progress": percent(run["progress"], run["progress_note"])}


@app.command("show")
@grouped
def show_run(run_id: RunId, where: Where, job: Job = None) -> None:
    """Show all attempts at a run, newest first, with their errors."""
    with opened(where) as session:
        view = session.call("run", id=run_id, job_id=job)
        live = [] if view["live"] is None else [view["live"]]
        rows = live + [{**attempt, "dead": view["dead"]} for attempt in view["attempts"]]
        if where.as_json:
            print_json(rows)
            return
        for number, row in enumerate(rows):
            print("\n" if number else "", end="")
            print_facts({name: value for name, value in row.items() if name not in ("dead", "cursor")})
        if view["dead"]:
            note(f"It is a dead letter: goscheduler dead redrive {printable(run_id)}")


@app.command("cancel")
@grouped
def cancel_runs(
    run_ids: Annotated[list[str], typer.Argument(metavar="RUN_ID...", help="The ids of runs.")],
    where: Where,
    reason: Reason = None,
) -> None:
    """Stop runs, wherever they run."""
    with opened(where) as session:
        changed = session.call("cancel_runs", ids=run_ids, reason=reason)
        if where.as_json:
            one = {"run_id": run_ids[0], "cancelled": True} if len(run_ids) == 1 else {}
            print_json({**one, **changed})
        else:
            for run_id in changed["changed"]:
                print(printable(f"Run {run_id} is told to end."))
        for run_id, why in changed["failed"].items():
            note(printable(f"Error: {run_id}: {why}"))
        if changed["failed"]:
            raise typer.Exit(FAILED)
