"""Runs: those that have ended, those that go on, and one with all of its attempts."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError, InvalidArgument
from goscheduler.ops.errors import INVALID, kind_of, message_of
from goscheduler.ops.filters import OUTCOMES
from goscheduler.web.pages.job import places_of
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.pages.run_timeline import timeline_of
from goscheduler.web.pages.shell import times_of
from goscheduler.web.pages.tracebacks import own_frames
from goscheduler.web.site import ask, safe_path

PAGE_SIZE, MOST_LIVE = 50, 200
NOTHING: dict[str, Any] = {"items": [], "next": None, "complete": True}
#: Field of the form → argument of the operation.
FILTERS = {"job": "job_id", "outcome": "outcome", "since": "since", "tag": "tag", "error": "error_type"}


def runs_page(request: Request) -> Response:
    """Show the attempts that have ended and fit, or the runs that go on."""
    if request.query_params.get("tab") == "live":
        return _live_page(request)
    given = {name: request.query_params.get(name, "").strip() for name in (*FILTERS, "late", "owner")}
    page, mistake = NOTHING, ""
    try:
        page = ask(request, "find_runs", _arguments(request, given))
    except GoSchedulerError as error:
        if kind_of(error) is not INVALID:
            raise
        mistake = message_of(error)
    return render(
        request, "runs.html", page=page, given=given, mistake=mistake, outcomes=OUTCOMES,
        places=places_of(ask(request, "processes")), notices=notices_of(request, "/runs"),
    )  # fmt: skip


def _arguments(request: Request, given: dict[str, str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {FILTERS[name]: value or None for name, value in given.items() if name in FILTERS}
    arguments["owner"] = given["owner"] or None
    if given["late"]:
        arguments["later_than"] = _seconds(given["late"])
    return {**arguments, "limit": PAGE_SIZE, "before": request.query_params.get("after") or None}


def _seconds(text: str) -> float:
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        raise InvalidArgument(f"late must be a number of seconds, got {text[:50]!r}", field="late") from None


def _live_page(request: Request) -> Response:
    job_id = request.query_params.get("job") or None
    live = ask(request, "live_runs", {"job_id": job_id, "limit": MOST_LIVE})
    return render(
        request, "runs_live.html", live=live, most=MOST_LIVE, places=places_of(ask(request, "processes")),
        notices=notices_of(request, "/runs?tab=live"),
    )  # fmt: skip


def run_page(request: Request) -> Response:
    """Show where a run stands, and its attempts side by side."""
    run_id = request.path_params.get("id") or request.query_params.get("id", "")
    view = ask(request, "run", {"id": run_id, "job_id": request.query_params.get("job") or None})
    newest = view["live"] or view["attempts"][0]
    return render(
        request, "run.html", view=view, newest=newest,
        timeline=timeline_of(view["attempts"], view["live"], times_of(request)),
        frames={each["cursor"]: own_frames(each["traceback"]) for each in view["attempts"]},
        places=places_of(ask(request, "processes")), notices=notices_of(request, "/runs"),
    )  # fmt: skip


def cancel_page(request: Request) -> Response:
    """Ask why runs are to be cancelled."""
    ids = request.query_params.getlist("id")
    if not ids:
        raise InvalidArgument("no run is marked: mark those that are to be cancelled", field="id")
    return render(request, "sheet_cancel.html", ids=ids, back=safe_path(request.query_params.get("back"), "/runs"))


def cancel(request: Request, form: QueryParams) -> Response:
    """End runs."""
    view = ask(request, "cancel_runs", {"ids": form.getlist("id"), "reason": form.get("reason") or None})
    back = safe_path(form.get("back"), "/runs")
    return go(request, back, did="cancelled", n=len(view["changed"]), failed=len(view["failed"]) or None)


ROUTES = [
    get("/runs", runs_page), get("/runs/{id}", run_page), get("/run", run_page), get("/act/cancel", cancel_page),
    post("/act/cancel", cancel),
]  # fmt: skip
