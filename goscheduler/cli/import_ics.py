"""``goscheduler import-ics``: the events of a calendar file as jobs of one task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goscheduler.cli._command_error import CommandError
from goscheduler.cli._options import Where, grouped
from goscheduler.cli._print import note, print_rows
from goscheduler.cli._session import opened
from goscheduler.cli._text import many
from goscheduler.triggers.ics import MAX_BYTES

COLUMNS = ("job_id", "name", "next_run_time", "schedule", "why")


@grouped
def import_ics(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A calendar file (.ics).")],
    task: Annotated[str, typer.Option(help="The task that each event runs.")],
    where: Where,
    replace: Annotated[bool, typer.Option("--replace", help="Replace jobs that have the ids of events.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the jobs, and add none.")] = False,
) -> None:
    """Add the events of a calendar file as jobs: all of them, or none."""
    with opened(where) as session:
        try:
            if file.stat().st_size > MAX_BYTES:
                raise CommandError(f"FILE: {file} has more than {MAX_BYTES:,} bytes; split it")
            source = file.read_bytes()
        except OSError as error:
            raise CommandError(f"FILE: {file} cannot be read: {error.strerror}") from None
        found = session.scheduler.import_ics(
            source, task, if_exists="replace" if replace else "error", dry_run=dry_run
        )  # fmt: skip
        rows = [each._asdict() for each in found]
        print_rows(rows, COLUMNS, as_json=where.as_json, nothing="There are no events in it.")
        jobs = many(sum(each.job_id is not None for each in found), "job")
        note(f"Nothing is added: --dry-run. It would be {jobs}." if dry_run else f"Added: {jobs}.")
