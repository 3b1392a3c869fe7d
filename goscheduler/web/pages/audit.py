"""Who did what, when, why, and what came of it; as a page, and as a file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError
from goscheduler.ops.auditing import STATUSES
from goscheduler.ops.errors import INVALID, kind_of, message_of
from goscheduler.ops.registry import OPERATIONS
from goscheduler.web.pages.formats import as_json
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.site import ask

PAGE_SIZE, FILE_PAGE = 50, 200
#: A file has so many entries at most.
MOST_IN_FILE = 10_000
FILTERS = ("actor", "operation", "status", "since", "until")
COLUMNS = (
    "at", "actor", "role", "via", "operation", "status", "reason", "arguments", "outcome", "jobstore", "id", "address",
)  # fmt: skip
#: Where a spreadsheet would take what follows for a formula. Some begin a cell behind a semicolon or a tab as well.
_FORMULA = re.compile(r"""^[\t\r]|(?:^|(?<=[;\t]))[\s"\u200b\ufeff]*(?=[=+\-@＝＋－＠])""")  # noqa: RUF001 - read as = + - @
NOTHING: dict[str, Any] = {"items": [], "next": None, "gaps": [], "complete": True}


def audit_page(request: Request) -> Response:
    """Show the entries that fit."""
    wanted = _wanted(request)
    view, mistake = NOTHING, ""
    try:
        before = request.query_params.get("after") or None
        view = ask(request, "audit", {**wanted, "limit": PAGE_SIZE, "before": before})
    except GoSchedulerError as error:
        if kind_of(error) is not INVALID:
            raise
        mistake = message_of(error)
    acts = sorted(name for name, operation in OPERATIONS.items() if operation.acts)
    return render(
        request, "audit.html", page=view, wanted=wanted, acts=acts, mistake=mistake,
        statuses=[(word, word) for word in STATUSES], entries=[(entry, changes_of(entry)) for entry in view["items"]],
    )  # fmt: skip


def audit_file(request: Request) -> Response:
    """Answer with the entries that fit as a file for spreadsheets."""
    text = csv_of(_all_entries(request)).encode("utf-8", "replace")  # ids may hold what is no character
    return Response(text, media_type="text/csv; charset=utf-8", headers={
        "Content-Disposition": 'attachment; filename="audit.csv"',
    })  # fmt: skip


def changes_of(entry: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what an edit has changed: name, value before, value after."""
    outcome = entry["outcome"]
    if not isinstance(outcome, Mapping):
        return []
    before, after = outcome.get("before"), outcome.get("after")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return []
    return [(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]


def csv_of(entries: Iterator[Mapping[str, Any]]) -> str:
    """Return entries as lines with commas; no cell of them is a formula."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for entry in entries:
        writer.writerow([cell_of(entry[column]) for column in COLUMNS])
    return text.getvalue()


def cell_of(value: Any) -> str:
    """Return a value as a cell that a spreadsheet shows and does not compute."""
    text = value if isinstance(value, str) else "" if value is None else as_json(value)
    return _FORMULA.sub(lambda found: f"'{found[0]}", text)


def _all_entries(request: Request) -> Iterator[Mapping[str, Any]]:
    wanted, before, number = _wanted(request), None, 0
    while True:
        view = ask(request, "audit", {**wanted, "limit": FILE_PAGE, "before": before})
        yield from view["items"]
        number += len(view["items"])
        before = view["next"]
        if before is None or number >= MOST_IN_FILE:
            return


def _wanted(request: Request) -> dict[str, str]:
    query = request.query_params
    return {name: query[name].strip() for name in FILTERS if query.get(name, "").strip()}


ROUTES = [get("/audit", audit_page), get("/audit.csv", audit_file)]
