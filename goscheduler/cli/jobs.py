"""``goscheduler jobs``: list, count, show, edit, and what is done to one job or to many."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli import _job_acts
from goscheduler.cli._command_error import CommandError
from goscheduler.cli._job_page import print_job
from goscheduler.cli._options import JobFilters, JobId, Limit, Reason, Watch, Where, grouped
from goscheduler.cli._print import note, print_json, print_rows
from goscheduler.cli._session import opened
from goscheduler.cli._text import as_json
from goscheduler.cli._watch import repeated
from goscheduler.errors import shown

app = typer.Typer(help="Look at jobs and change them.", no_args_is_help=True)

COLUMNS = ("id", "name", "state", "next_run_time", "last_outcome", "trigger")
#: What an edit changes that is a text, and so is not read as JSON.
TEXTS = frozenset({"name", "description", "executor", "overlap", "on_crash"})


@app.command("list")
@grouped
def list_jobs(
    where: Where,
    filters: JobFilters,
    sort: Annotated[str | None, typer.Option(help="By next_run, or by id.")] = None,
    limit: Limit = 100,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Go on where the page before this one has ended.")
    ] = None,
    watch: Watch = False,
) -> None:
    """List the jobs that fit, those that are due first at the top."""
    with opened(where) as session:

        def show(most: int | None) -> None:
            rows, following = session.pages("find_jobs", limit, "after", after, sort=sort, **filters.given())
            if rows:
                rows[-1]["cursor"] = following
            print_rows(rows, COLUMNS, as_json=where.as_json, nothing="There are no jobs.", most=most)
            if following is not None and most is None:
                note(f"More: --after {following}")

        repeated(show, watch)


@app.command("count")
@grouped
def count_jobs(where: Where, filters: JobFilters) -> None:
    """Count the jobs that fit."""
    with opened(where) as session:
        view = session.call("count_jobs", **filters.given())
        if where.as_json:
            print_json(view)
        else:
            print(view["number"] if view["exact"] else f"more than {view['number']}")


@app.command("show")
@grouped
def show_job(job_id: JobId, where: Where) -> None:
    """Show all that is known of a job, also why it is not running now."""
    with opened(where) as session:
        view = session.call("job", id=job_id)
        if where.as_json:
            print_json(view)
        else:
            print_job(view)


@app.command("edit")
@grouped
def edit_job(
    job_id: JobId,
    changes: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="What is to be changed; the value as JSON or text.")
    ],
    where: Where,
    expect: Annotated[
        str | None, typer.Option(metavar="ETAG", help="Only if the job is still as jobs show has told.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    reason: Reason = None,
) -> None:
    """Change a job: its trigger, arguments, options, name. Never its function."""
    with opened(where) as session:
        view = session.call(
            "edit_job", id=job_id, changes=dict(map(_change, changes)), expect=expect, dry_run=dry_run, reason=reason
        )
        if where.as_json:
            print_json(view)
        else:
            _print_edit(view)


def _change(text: str) -> tuple[str, Any]:
    """Return the name and the value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise CommandError(f"--set: expected NAME=VALUE, got {shown(text)}")
    if name in TEXTS:
        return name, value
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _print_edit(view: dict[str, Any]) -> None:
    for name, after in view["after"].items():
        print(f"{printable(name)}: {as_json(view['before'][name])} → {as_json(after)}")
    if not view["after"]:
        print(printable(f"Job {view['id']} is as it is to be already."))
    elif view["done"]:
        print(printable(f"Job {view['id']} is changed."))
    else:
        note("Nothing is changed: --dry-run")


_job_acts.add_to(app)

