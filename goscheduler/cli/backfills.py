"""``goscheduler backfills``: how far they have come, and calling one off."""

from __future__ import annotations

from typing import Annotated

import typer

from goscheduler._text import printable
from goscheduler.cli._options import Job, Reason, Where, grouped
from goscheduler.cli._print import print_json, print_rows
from goscheduler.cli._session import opened
from goscheduler.cli._text import many

app = typer.Typer(help="Look at backfills, and call one off.", no_args_is_help=True)

COLUMNS = ("id", "job_id", "state", "times", "waiting", "running", "ended", "start", "end", "started_at")

BackfillId = Annotated[str, typer.Argument(metavar="BACKFILL_ID", help="The id of a backfill.")]


@app.command("list")
@grouped
def list_backfills(where: Where, job: Job = None) -> None:
    """List backfills and how far they have come, newest first."""
    with opened(where) as session:
        rows = session.call("backfills", job_id=job)
        print_rows(rows, COLUMNS, as_json=where.as_json, nothing="There are no backfills.")


@app.command("cancel")
@grouped
def cancel_backfill(backfill_id: BackfillId, where: Where, reason: Reason = None) -> None:
    """Call off the runs of a backfill that wait. Those that go on do so."""
    with opened(where) as session:
        view = session.call("cancel_backfill", id=backfill_id, reason=reason)
        if where.as_json:
            print_json(view)
        else:
            left = f"; {many(view['running'], 'run')} of it end by themselves" if view["running"] else ""
            print(printable(f"Backfill {view['id']} is cancelled{left}."))
