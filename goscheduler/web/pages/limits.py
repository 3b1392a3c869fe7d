"""Limits that jobs share: how much of each is in use, who holds it, and who waits for it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.phrases import is_full
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.site import ask

#: So many places are drawn one by one; more of them are a bar.
MOST_PLACES = 20
#: So many holders, and so many who wait, are shown of each limit; all of them of the one that is looked at.
SHOWN = 4


def limits_page(request: Request) -> Response:
    """Show all limits, those that are full first."""
    found = ask(request, "limits", {"runs": True})
    found.sort(key=lambda limit: (not is_full(limit), -limit["waiting"], limit["name"]))
    chosen = request.query_params.get("name") or None
    if chosen is not None:
        found = [limit for limit in found if limit["name"] == chosen]
    full = sum(map(is_full, found))
    return render(
        request, "limits.html", limits=found, chosen=chosen, full=full, shown=SHOWN if chosen is None else 100,
        most_places=MOST_PLACES, notices=notices_of(request, "/limits"),
    )  # fmt: skip


ROUTES = [get("/limits", limits_page)]
