"""``goscheduler runs``: what ran, what is running, and how to stop it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import FAILED, CommandError
from goscheduler.cli._host import opened
from goscheduler.cli._options import App, AsJson, Before, Debug, Job, Limit, RunId, Since, Tag, Until
from goscheduler.cli._print import View, note, print_facts, print_json, print_rows
from goscheduler.cli._views import LIVE_COLUMNS, RUN_COLUMNS, live_row, record_row
from goscheduler.runs.records import Record
from goscheduler.schedulers.base import BaseScheduler

app = typer.Typer(help="Look at runs and cancel them.", no_args_is_help=True)

#: How many records are looked at together when a run is looked for.
PAGE = 10_000


@app.command("list")
def list_runs(
    target: App = None,
    job: Job = None,
    outcome: Annotated[
        list[str] | None, typer.Option(help="How it ended, such as failed; may be given several times.")
    ] = None,
    since: Since = None,
    until: Until = None,
    tag: Tag = None,
    limit: Limit = 100,
    before: Before = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List what ran, was missed or was skipped, newest first."""
    with opened(target, debug) as scheduler:
        found = scheduler.runs(
            job, limit=limit, outcome=outcome or None, since=since, until=until, tag=tag, before=before
        )
        rows = [record_row(record) for record in found]
        print_rows(rows, RUN_COLUMNS, as_json=as_json, nothing="There are no such runs.")
        if len(found) == limit and not as_json:
            note(f"There may be more: --before {found[-1].cursor}")


@app.command("live")
def list_live_runs(target: App = None, job: Job = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """List the runs that wait, are queued or are running."""
    with opened(target, debug) as scheduler:
        rows = [live_row(run) for run in scheduler.live_runs(job)]
        print_rows(rows, LIVE_COLUMNS, as_json=as_json, nothing="No runs are live.")


@app.command("show")
def show_run(run_id: RunId, target: App = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show all attempts at a run, newest first, with their errors."""
    with opened(target, debug) as scheduler:
        views = _views_of(scheduler, run_id)
        if not views:
            raise CommandError(f"there is no run {run_id!r}, live or in the history", FAILED)
        if as_json:
            print_json(views)
            return
        for number, view in enumerate(views):
            print("\n" if number else "", end="")
            print_facts(view, as_json=False)


@app.command("cancel")
def cancel_run(run_id: RunId, target: App = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Stop a run, wherever it runs."""
    with opened(target, debug) as scheduler:
        if not scheduler.cancel_run(run_id):
            raise CommandError(f"run {run_id!r} is not live: it has ended, or it does not exist", FAILED)
        if as_json:
            print_json({"run_id": run_id, "cancelled": True})
        else:
            print(printable(f"Run {run_id} is told to end."))


def _views_of(scheduler: BaseScheduler, run_id: str) -> list[View]:
    live = [live_row(run) for run in scheduler.live_runs() if run.id == run_id]
    return live + [record_row(record) for record in _attempts(scheduler, run_id)]


def _attempts(scheduler: BaseScheduler, run_id: str) -> Iterator[Record]:
    """Yield the records of a run, newest first, looking through the whole history."""
    page = scheduler.runs(limit=PAGE)
    while page:
        yield from (record for record in page if record.run_id == run_id)
        page = scheduler.runs(limit=PAGE, before=page[-1])
