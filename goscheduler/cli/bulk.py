"""``goscheduler bulk``: acts on many jobs, those that go on and those that are over."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goscheduler._text import printable
from goscheduler.cli._options import Limit, Reason, Where, grouped
from goscheduler.cli._print import print_facts, print_json, print_rows
from goscheduler.cli._session import opened

app = typer.Typer(help="Look at acts on many jobs, and stop one.", no_args_is_help=True)

COLUMNS = ("id", "act", "state", "changed", "unchanged", "refused", "started_at", "by", "filters", "reason")
MOST_ACTS = 200

BulkId = Annotated[str, typer.Argument(metavar="BULK_ID", help="The id of an act on many jobs.")]


@app.command("list")
@grouped
def list_bulks(where: Where, limit: Limit = 50) -> None:
    """List the acts on many jobs, newest first."""
    with opened(where) as session:
        rows = session.call("bulks", limit=min(limit, MOST_ACTS))
        print_rows(rows, COLUMNS, as_json=where.as_json, nothing="There are no acts on many jobs.")


@app.command("show")
@grouped
def show_bulk(bulk_id: BulkId, where: Where) -> None:
    """Show how far an act on many jobs has come."""
    with opened(where) as session:
        print_facts(session.call("bulk", id=bulk_id), as_json=where.as_json)


@app.command("stop")
@grouped
def stop_bulk(bulk_id: BulkId, where: Where, reason: Reason = None) -> None:
    """Stop an act on many jobs behind the portion that it is at. What is done stays."""
    with opened(where) as session:
        view = session.call("stop_bulk", id=bulk_id, reason=reason)
        if where.as_json:
            print_json(view)
        else:
            print(printable(_sentence(view)))


def _sentence(view: dict[str, Any]) -> str:
    dealt_with = view["changed"] + view["unchanged"] + view["refused"]
    if view["state"] == "stopped":
        return f"The act {view['id']} is stopped after {dealt_with:,} jobs."
    return f"The act {view['id']} was {view['state']} already."
