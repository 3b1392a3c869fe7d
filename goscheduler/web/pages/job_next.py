"""What is done to the next run of a job alone: it is left out, or put off."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import InvalidArgument
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask, safe_path

#: Act → word of the notice.
ACTS = {"skip": "skipped", "postpone": "postponed"}
SHOWN = 3


def next_page(request: Request) -> Response:
    """Show the next times, and ask what is to be done with the first of them."""
    query = request.query_params
    named = {"id": query.get("id", ""), "jobstore": query.get("store") or None}
    times = ask(request, "next_fires", {**named, "count": SHOWN})
    return render(
        request, "sheet_next.html", job_id=named["id"], next_times=times,
        fields=[("id", named["id"]), ("store", named["jobstore"] or "")], back=safe_path(query.get("back"), "/jobs"),
    )  # fmt: skip


def next_now(request: Request, form: QueryParams) -> Response:
    """Do it."""
    act = form.get("act", "")
    if act not in ACTS:
        raise InvalidArgument(f"act must be one of {', '.join(ACTS)}, got {act[:50]!r}", field="act")
    reason = form.get("reason", "").strip()
    given = {"id": form.get("id", ""), "jobstore": form.get("store") or None, "reason": reason or None}
    if act == "postpone":
        ask(request, "postpone_job", {**given, "until": form.get("until", "").strip()})
    else:
        ask(request, "skip_next", given)
    return go(request, safe_path(form.get("back"), "/jobs"), did=ACTS[act], n=1)


ROUTES = [get("/act/next", next_page), post("/act/next", next_now)]
