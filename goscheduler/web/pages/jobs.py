"""The list of jobs: search, order, acts on those that are marked."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError
from goscheduler.ops.errors import INVALID, kind_of, message_of
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.query import job_search
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.site import ask

PAGE_SIZE = 50
#: So many of the last outcomes are drawn in a row.
OUTCOMES = 14
#: What a list shows where the search makes no sense.
NOTHING: dict[str, Any] = {"items": [], "next": None, "complete": True}
#: Searches that one click makes.
FILTERS = (
    ("", "All"), ("state:running", "Running"), ("last:failed", "Last run failed"), ("state:paused", "Paused"),
    ("state:suspended", "Suspended"), ("next:<1h", "Due within an hour"),
)  # fmt: skip


def jobs_page(request: Request) -> Response:
    """Show the jobs that fit the search."""
    query = request.query_params.get("q", "").strip()
    sort = "id" if request.query_params.get("sort") == "id" else "next_run"
    search = job_search(query)
    mistakes = list(search.mistakes)
    page, count = NOTHING, None
    try:
        after = request.query_params.get("after") or None
        listed = {"sort": sort, "limit": PAGE_SIZE, "after": after, "outcomes": OUTCOMES}
        page = ask(request, "find_jobs", {**search.arguments, **listed})
        count = ask(request, "count_jobs", search.arguments)
    except GoSchedulerError as error:
        if kind_of(error) is not INVALID:
            raise
        mistakes.append(message_of(error))
    return render(
        request, "jobs.html", page=page, count=count, query=query, sort=sort, mistakes=mistakes, filters=FILTERS,
        store=search.arguments.get("jobstore"), notices=notices_of(request),
    )  # fmt: skip


ROUTES = [get("/jobs", jobs_page)]
