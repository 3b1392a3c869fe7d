"""``goscheduler audit``: who did what."""

from __future__ import annotations

from typing import Any

from goscheduler.cli._options import Before, Limit, Where, grouped
from goscheduler.cli._print import note, print_json, print_rows
from goscheduler.cli._session import PAGE, Session, opened
from goscheduler.cli._text import as_json

COLUMNS = ("at", "actor", "via", "operation", "status", "arguments", "reason", "id")
#: Characters of the arguments that a list has.
LONGEST_ARGUMENTS = 80


@grouped
def list_audit(where: Where, limit: Limit = 50, before: Before = None) -> None:
    """List who did what, newest first, and where entries are missing."""
    with opened(where) as session:
        view = _entries(session, limit, before)
        if where.as_json:
            print_json(view)
            return
        rows = [{**entry, "arguments": _short(entry)} for entry in view["items"]]
        print_rows(rows, COLUMNS, nothing="Nothing was done yet.")
        if view["gaps"]:
            note(f"Entries are missing before: {', '.join(view['gaps'])}")
        if view["next"] is not None:
            note(f"More: --before {view['next']}")


def _entries(session: Session, limit: int, before: str | None) -> dict[str, Any]:
    """Return one view of several pages."""
    view: dict[str, Any] = session.call("audit", limit=min(limit, PAGE), before=before)
    while view["next"] is not None and len(view["items"]) < limit:
        more = session.call("audit", limit=min(limit - len(view["items"]), PAGE), before=view["next"])
        view["items"] += more["items"]
        view["next"] = more["next"]
    return view


def _short(entry: dict[str, Any]) -> str:
    """Return the arguments of an entry on one short line; of an act on many jobs, what is meant and how many were.

    One that failed is told with its reason.
    """
    outcome = entry["outcome"]
    told: dict[str, Any] = entry["arguments"]
    if isinstance(outcome, dict) and isinstance(outcome.get("filters"), dict):
        told = {"act": outcome.get("act"), **outcome["filters"]}
    text = ", ".join(f"{name}={as_json(value)}" for name, value in told.items() if value not in (None, False))
    if entry["status"] == "failed":
        text += f": {outcome}"
    return text if len(text) <= LONGEST_ARGUMENTS else f"{text[:LONGEST_ARGUMENTS]}…"
