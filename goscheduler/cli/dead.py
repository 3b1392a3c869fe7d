"""``goscheduler dead``: runs whose last attempt failed, looked at, redriven, discarded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from goscheduler._text import printable
from goscheduler.cli._command_error import CommandError
from goscheduler.cli._host import opened
from goscheduler.cli._options import App, AsJson, Before, Debug, Job, Limit, RunId, Since, Tag, Until
from goscheduler.cli._print import note, print_facts, print_json, print_rows
from goscheduler.cli._views import DEAD_COLUMNS, letter_row
from goscheduler.errors import RunLookupError
from goscheduler.runs.model import DeadLetter
from goscheduler.schedulers.base import BaseScheduler

app = typer.Typer(help="Look at dead letters, and give them another attempt.", no_args_is_help=True)

#: How many dead letters are looked at together when one is looked for.
PAGE = 10_000


@app.command("list")
def list_letters(
    target: App = None,
    job: Job = None,
    since: Since = None,
    until: Until = None,
    tag: Tag = None,
    limit: Limit = 100,
    before: Before = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the runs whose last attempt has failed, newest first."""
    with opened(target, debug) as scheduler:
        found = scheduler.dead_letters(job, limit=limit, since=since, until=until, tag=tag, before=before)
        rows = [letter_row(letter) for letter in found]
        print_rows(rows, DEAD_COLUMNS, as_json=as_json, nothing="There are no such dead letters.")
        if len(found) == limit and not as_json:
            note(f"There may be more: --before {found[-1].record.cursor}")


@app.command("show")
def show_letter(run_id: RunId, target: App = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Show a dead letter with its error."""
    with opened(target, debug) as scheduler:
        for letter in _all_letters(scheduler):
            if letter.run.id == run_id:
                print_facts(letter_row(letter), as_json=as_json)
                return
        raise RunLookupError(run_id)


@app.command("redrive")
def redrive_letters(
    run_id: Annotated[str | None, typer.Argument(metavar="RUN_ID", help="The run of one dead letter.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, or all that fit the filters.")] = False,
    target: App = None,
    job: Job = None,
    since: Since = None,
    until: Until = None,
    tag: Tag = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give a dead letter, those of a job, or all of them one more attempt."""
    filtered = any(value is not None for value in (job, since, until, tag))
    with opened(target, debug) as scheduler:
        if run_id is not None and not filtered and not everything:
            scheduler.redrive(run_id)
            count = 1
        elif run_id is None and (filtered or everything):
            count = scheduler.redrive_all(job, since=since, until=until, tag=tag)
        else:
            raise CommandError("name one RUN_ID, or give --job, --since, --until, --tag or --all, not both")
        if as_json:
            print_json({"redriven": count})
        else:
            print(f"Redriven: {count}")


@app.command("discard")
def discard_letter(run_id: RunId, target: App = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """Forget a dead letter."""
    with opened(target, debug) as scheduler:
        scheduler.discard_dead_letter(run_id)
        if as_json:
            print_json({"run_id": run_id, "discarded": True})
        else:
            print(printable(f"The dead letter of run {run_id} is discarded."))


def _all_letters(scheduler: BaseScheduler) -> Iterator[DeadLetter]:
    page = scheduler.dead_letters(limit=PAGE)
    while page:
        yield from page
        page = scheduler.dead_letters(limit=PAGE, before=page[-1])
