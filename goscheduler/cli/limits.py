"""``goscheduler limits``: what is used of the limits that jobs share."""

from __future__ import annotations

from typing import Any

from goscheduler.cli._options import Watch, Where, grouped
from goscheduler.cli._print import print_rows
from goscheduler.cli._session import opened
from goscheduler.cli._text import length
from goscheduler.cli._watch import repeated

COLUMNS = ("name", "live", "waiting", "starts", "jobstore")


@grouped
def list_limits(where: Where, watch: Watch = False) -> None:
    """List the limits that jobs share, and what is used of each."""
    with opened(where) as session:

        def show(most: int | None) -> None:
            rows = session.call("limits")
            shown = rows if where.as_json else [{**row, "starts": _starts(row["starts"])} for row in rows]
            nothing = "No limit is used."
            print_rows(shown, COLUMNS, as_json=where.as_json, nothing=nothing, most=most)

        repeated(show, watch)


def _starts(starts: dict[str, Any]) -> str:
    return ", ".join(f"{number} in {length(float(window))}" for window, number in starts.items())
