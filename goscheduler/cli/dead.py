"""``goscheduler dead``: runs whose last attempt failed, looked at, redriven, discarded."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli._bulk_act import confirm
from goscheduler.cli._command_error import FAILED, CommandError
from goscheduler.cli._options import (
    Before,
    ErrorType,
    Job,
    LetterFilters,
    Limit,
    Reason,
    RunId,
    Since,
    TagOfRuns,
    Until,
    Where,
    Yes,
    grouped,
)
from goscheduler.cli._print import note, print_facts, print_json, print_rows
from goscheduler.cli._session import Session, opened
from goscheduler.cli._text import examples, many
from goscheduler.errors import shown

app = typer.Typer(help="Look at dead letters, and give them another attempt.", no_args_is_help=True)

COLUMNS = ("finished_at", "job_id", "attempt", "run_id", "error", "reason")
GROUP_COLUMNS = ("size", "task", "error_type", "signature", "last", "jobs")
#: Letters of which it is asked whether they are to be discarded are counted up to here.
COUNTED = 1000
#: What fits all letters, where operations want to be told which are meant.
EVER = "1970-01-01T00:00:00Z"

_RATE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?:/(?P<unit>s|m|min|h))?")
_UNITS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}

RunIds = Annotated[list[str] | None, typer.Argument(metavar="[RUN_ID]...", help="The runs of dead letters.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them.")]


@app.command("list")
@grouped
def list_letters(where: Where, filters: LetterFilters, limit: Limit = 100, before: Before = None) -> None:
    """List the runs whose last attempt has failed, newest first."""
    with opened(where) as session:
        rows, following = session.pages("find_letters", limit, "before", before, **filters.given())
        print_rows(rows, COLUMNS, as_json=where.as_json, nothing="There are no such dead letters.")
        if following is not None and not where.as_json:
            note(f"More: --before {following}")


@app.command("groups")
@grouped
def list_groups(
    where: Where, job: Job = None, since: Since = None, until: Until = None, tag: TagOfRuns = None,
    error_type: ErrorType = None,
) -> None:  # fmt: skip
    """List dead letters by task, error and what their messages have in common, the largest group first."""
    with opened(where) as session:
        view = session.call("letter_groups", job_id=job, since=since, until=until, tag=tag, error_type=error_type)
        if where.as_json:
            print_json(view)
            return
        rows = [{**group, "jobs": examples(group["job_ids"], 0)} for group in view["groups"]]
        print_rows(rows, GROUP_COLUMNS, nothing="There are no such dead letters.")
        if not view["complete"]:
            note(f"Only the newest {view['window']:,} dead letters were looked at.")


@app.command("show")
@grouped
def show_letter(run_id: RunId, where: Where) -> None:
    """Show a dead letter with its error."""
    with opened(where) as session:
        print_facts(session.call("letter", id=run_id), as_json=where.as_json)


@app.command("redrive")
@grouped
def redrive_letters(
    where: Where,
    filters: LetterFilters,
    run_ids: RunIds = None,
    everything: Everything = False,
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Start at most so many: 50/s, 10/min. Else all are due at once.")
    ] = None,
    reason: Reason = None,
) -> None:
    """Give dead letters one more attempt: those that are named, those that fit, or all."""
    with opened(where) as session:
        per_second = None if rate is None else _per_second(rate)
        _deal(session, "redrive", run_ids, _meant(run_ids, filters, everything), where, reason, rate=per_second)


@app.command("discard")
@grouped
def discard_letters(
    where: Where,
    filters: LetterFilters,
    run_ids: RunIds = None,
    everything: Everything = False,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Forget dead letters: those that are named, those that fit, or all."""
    with opened(where) as session:
        meant = _meant(run_ids, filters, everything)
        if not run_ids:
            rows, following = session.pages("find_letters", COUNTED, "before", **meant)
            more = "" if following is None else "more than "
            some = examples([row["run_id"] for row in rows[:5]], len(rows))
            if rows:
                confirm(f"Discard {more}{many(len(rows), 'dead letter')}: {some}?", yes=yes)
        _deal(session, "discard", run_ids, meant, where, reason)


def _meant(run_ids: list[str] | None, filters: LetterFilters, everything: bool) -> dict[str, Any]:
    """Return the filters of an operation; none where runs are named."""
    given = filters.given()
    if bool(run_ids) == bool(given or everything):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in filters._fields)
        raise CommandError(f"name one RUN_ID or several, or give {options} or --all, not both")
    return given or ({"since": EVER} if everything else {})


def _deal(
    session: Session, operation: str, run_ids: list[str] | None, meant: dict[str, Any], where: Where,
    reason: str | None, **more: Any,
) -> None:  # fmt: skip
    ids = list(dict.fromkeys(run_ids or ())) or None
    view = session.call(operation, ids=ids, reason=reason, **meant, **more)
    count = len(view["changed"]) if ids else view["count"]
    done = f"{operation.removesuffix('e')}{'en' if operation == 'redrive' else 'ed'}"
    if where.as_json:
        one = {"run_id": ids[0]} if ids and len(ids) == 1 else {}
        print_json({**one, done: True if one and operation == "discard" else count, **view})
    elif ids and len(ids) == 1 and operation == "discard":
        print(printable(f"The dead letter of run {ids[0]} is discarded."))
    else:
        print(f"{done.capitalize()}: {count}")
    if not ids and not view["complete"]:
        note("There are more: give the same command again.")
    for run_id, why in view.get("failed", {}).items():
        note(printable(f"Error: {run_id}: {why}"))
    if view.get("failed"):
        raise typer.Exit(FAILED)


def _per_second(text: str) -> float:
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"--rate must be a number of runs and a time, such as 50/s or 10/min, got {shown(text)}")
    return float(match["number"]) / _UNITS[match["unit"]]
