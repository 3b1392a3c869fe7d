"""Schedules that a program declares: what has become of them, and what a sync would change."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.ops.errors import NotFound
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.site import ask

#: Part of a diff → what it means.
DRIFT = (
    ("added", "New in the code", "A sync adds it to the store.", "busy"),
    ("changed", "Changed in the code", "A sync writes what is different.", "warn"),
    ("removed", "Gone from the code", "A sync that prunes removes its job.", "bad"),
    ("orphaned", "Gone from the code", "Its job stays until a sync prunes.", "warn"),
)


def schedules_page(request: Request) -> Response:
    """Show the registry beside the store."""
    try:
        rows, diff = ask(request, "schedules"), ask(request, "schedule_diff")
    except NotFound:
        return render(request, "schedules.html", rows=None, diff=None, drift=[], of={}, notices=[])
    drift = [(title, says, tone, diff[part]) for part, title, says, tone in DRIFT if diff[part]]
    of = {change["id"]: (title, tone) for title, _, tone, changes in drift for change in changes}
    return render(
        request, "schedules.html", rows=rows, diff=diff, drift=drift, of=of, notices=notices_of(request, "/schedules")
    )  # fmt: skip


ROUTES = [get("/schedules", schedules_page)]
