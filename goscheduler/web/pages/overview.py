"""The overview: how it goes, what needs attention, what comes next."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.web.pages import attention, figures
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go
from goscheduler.web.pages.shell import times_of
from goscheduler.web.site import ask, principal_of, site_of

NEXT_JOBS = 6
#: So many jobs are asked whether anybody can run them, of those that are due within this time.
DUE_JOBS, DUE = 50, "1s"


def overview_page(request: Request) -> Response:
    """Show how it goes. Whoever may see a part of the jobs gets these instead."""
    if not principal_of(request).sees_all:
        return go(request, "/jobs")
    chosen = request.query_params.get("minutes", "")
    minutes = int(chosen) if chosen in map(str, figures.WINDOWS) else 60
    label, columns = figures.WINDOWS[minutes]
    times = times_of(request)
    view = ask(request, "overview", {"minutes": minutes})
    parts = figures.stretches(ask(request, "stats", {"minutes": minutes}), columns)
    processes = ask(request, "processes")
    return render(
        request, "overview.html", view=view, minutes=minutes, label=label, windows=figures.WINDOWS,
        runs=figures.runs_chart(parts, times), lateness=figures.lateness_chart(parts, times),
        share=figures.succeeded_share(view["counts"]), matters=_matters(request, view), processes=processes,
        next_jobs=[job for job in view["next_jobs"] if job["state"] != "no executor"][:NEXT_JOBS],
        busy=_sum(processes, "running"), room=_sum(processes, "running") + _sum(processes, "room"),
        notices=notices_of(request, "/"),
    )  # fmt: skip


def _matters(request: Request, view: dict[str, Any]) -> list[attention.Matter]:
    times = times_of(request)
    observed = any(store.shared for store in site_of(request).source.stores.values())
    matters = attention.nobody_fires(view["processes"], view["oldest_due"] is not None, observed)
    if view["failing"]["number"]:
        matters += attention.failing(_jobs(request, attention.MOST_OF_A_KIND, last_outcome="failed"), times)
    if view["oldest_due"]:
        matters += attention.nobody_can_run(_jobs(request, DUE_JOBS, due_before=DUE), times)
    if view["suspended"]["number"]:
        matters += attention.suspended(_jobs(request, attention.MOST_OF_A_KIND, state="suspended"))
    return matters + attention.full_limits(ask(request, "limits"))


def _jobs(request: Request, limit: int, **filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(request, "find_jobs", {**filters, "limit": limit})["items"]
    return found


def _sum(processes: list[dict[str, Any]], name: str) -> int:
    return sum(use[name] or 0 for process in processes for use in process["executors"])


ROUTES = [get("/", overview_page)]
