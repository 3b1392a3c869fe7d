"""Alerts: what fires, who knows, and what nobody is told of for a while."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import InvalidArgument
from goscheduler.ops.errors import NotFound
from goscheduler.web.pages.notices import Notice
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask

TABS = (("", "All"), ("firing", "Firing"), ("pending", "Pending"), ("ok", "Resolved lately"))
#: Length of time → what it is called.
LENGTHS = (("30m", "30 minutes"), ("2h", "2 hours"), ("8h", "8 hours"), ("24h", "a day"), ("7d", "a week"))


#: Rule → the page of what its alerts are about, and the name by which that page takes the target.
PLACES = {
    "failures": ("/job", "id"), "no_success": ("/job", "id"), "slow": ("/job", "id"),
    "missed": ("/job", "id"), "job_suspended": ("/job", "id"), "limit_full": ("/limits", "name"),
    "dead_letters": ("/dead", None), "processes": ("/processes", None), "process_lost": ("/processes", None),
}  # fmt: skip


class AlertAct(NamedTuple):
    """Something that is done to an alert."""

    operation: str
    verb: str
    says: str


ACTS = {
    "ack": AlertAct("ack_alert", "Acknowledge", "Others see that you know. No reminder and no escalation follow."),
    "silence": AlertAct("silence_alert", "Silence", "Nothing new is told of it until then. It is still watched."),
    "unsilence": AlertAct("silence_alert", "End the silence", "It is told again."),
}
_TOLD = {
    "ack": Notice("good", "Acknowledged: no reminder follows."),
    "silence": Notice("good", "Silenced."),
    "unsilence": Notice("good", "The silence has ended."),
}


def alerts_page(request: Request) -> Response:
    """Show the alerts in a state, or all."""
    state = request.query_params.get("state", "")
    state = state if state in dict(TABS) else ""
    found = ask(request, "alerts", {"state": state or None})
    told = _TOLD.get(request.query_params.get("did", ""))
    return render(
        request, "alerts.html", alerts=found, state=state, tabs=TABS, places=PLACES, notices=[told] if told else [],
        firing=sum(each["state"] == "firing" for each in found),
    )  # fmt: skip


def act_page(request: Request) -> Response:
    """Ask for how long, and why."""
    name, act = _act_of(request.query_params)
    wanted = request.query_params.get("id", "")
    found = [each for each in ask(request, "alerts") if each["id"] == wanted]
    if not found:
        raise NotFound(f"there is no alert {wanted!r}")
    return render(request, "sheet_alert.html", name=name, act=act, alert=found[0], lengths=LENGTHS)


def act_now(request: Request, form: QueryParams) -> Response:
    """Do it."""
    name, act = _act_of(form)
    given: dict[str, Any] = {"id": form.get("id") or None, "reason": form.get("reason", "").strip() or None}
    if name == "silence":
        given["until"] = form.get("until") or LENGTHS[0][0]
    elif name == "ack":
        given["until"] = form.get("until") or None
    ask(request, act.operation, given)
    return go(request, "/alerts", did=name)


def _act_of(given: QueryParams) -> tuple[str, AlertAct]:
    name = given.get("act", "")
    if name not in ACTS:
        raise InvalidArgument(f"act must be one of {', '.join(ACTS)}, got {name[:50]!r}", field="act")
    return name, ACTS[name]


ROUTES = [get("/alerts", alerts_page), get("/act/alert", act_page), post("/act/alert", act_now)]
