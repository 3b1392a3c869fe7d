"""Another schedule for a job: the next times of both before it is done."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError
from goscheduler.ops.errors import INVALID, kind_of, message_of
from goscheduler.web.pages.formats import zone_of_schedule
from goscheduler.web.pages.job import job_path
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask, site_of

COMPARED = 10
#: What is no crontab line.
_EVERY = re.compile(r"every\b", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-")


def edit_page(request: Request) -> Response:
    """Show the form, and what the schedule that it holds would change."""
    query = request.query_params
    job_id, store, text = query.get("id", ""), query.get("store") or None, query.get("trigger", "").strip()
    job = ask(request, "job", {"id": job_id, "jobstore": store})
    own = zone_of_schedule(job["schedule"]) or str(site_of(request).source.scheduler.timezone)
    zone = query.get("zone", "").strip() or own
    preview, mistake = _preview(request, job, _trigger_of(text, zone)) if text else (None, "")
    return render(
        request, "job_edit.html", job=job, text=text, zone=zone, preview=preview, mistake=mistake,
        path=job_path(request, job["id"], job["jobstore"]),
    )  # fmt: skip


def _trigger_of(text: str, zone: str) -> Any:
    """Return what the operations take as a trigger: the text, with the zone in which its times are meant."""
    if not zone or _EVERY.match(text):
        return text
    if _DATE.match(text):
        return {"type": "date", "run_date": text, "timezone": zone}
    return {"type": "crontab", "line": text, "timezone": zone, "seconds": len(text.split()) == 6}


def _preview(request: Request, job: dict[str, Any], trigger: Any) -> tuple[dict[str, Any] | None, str]:
    """Return the next times before and after, or what is wrong with the text."""
    named = {"id": job["id"], "jobstore": job["jobstore"]}
    try:
        after = ask(request, "explain_trigger", {"trigger": trigger, "count": COMPARED})
    except GoSchedulerError as error:
        if kind_of(error) is not INVALID:
            raise
        return None, message_of(error)
    before = ask(request, "next_fires", {**named, "count": COMPARED})
    known = {each["at"] for each in before}
    return {
        "schedule": after["schedule"], "times": list(zip_longest(before, after["times"])),
        "known": known, "kept": sum(each["at"] in known for each in after["times"]),
    }, ""  # fmt: skip


def edit(request: Request, form: QueryParams) -> Response:
    """Give the job its new schedule, unless somebody has changed the job meanwhile."""
    job_id, store = form.get("id", ""), form.get("store") or None
    trigger = _trigger_of(form.get("trigger", "").strip(), form.get("zone", ""))
    arguments = {
        "id": job_id, "jobstore": store, "changes": {"trigger": trigger},
        "expect": form.get("expect") or None, "reason": form.get("reason") or None,
    }  # fmt: skip
    view = ask(request, "edit_job", arguments)
    return go(request, job_path(request, job_id, store), did="edited", n=1 if view["done"] else 0)


ROUTES = [get("/act/edit", edit_page), post("/act/edit", edit)]
