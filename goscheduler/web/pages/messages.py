"""Messages that wait for their time: the list, and one of them with its payload."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError
from goscheduler.ops.errors import INVALID, NOT_FOUND, kind_of, message_of
from goscheduler.ops.fronts import STATES
from goscheduler.web.pages.message_acts import message_notices
from goscheduler.web.pages.payloads import preview_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.site import ask

PAGE_SIZE = 50
NOTHING: dict[str, Any] = {"items": [], "next": None, "complete": True, "total": 0, "exact": True}
FILTERS = ("event_name", "due_after", "due_before", "state")


def messages_page(request: Request) -> Response:
    """Show the messages that fit."""
    query = request.query_params
    wanted = {name: query[name].strip() for name in FILTERS if query.get(name, "").strip()}
    view, mistake, missing = NOTHING, "", ""
    try:
        after = query.get("after") or None
        view = ask(request, "messages", {**wanted, "limit": PAGE_SIZE, "after": after, "count": True})
    except GoSchedulerError as error:
        if kind_of(error) not in (INVALID, NOT_FOUND):
            raise
        mistake, missing = (message_of(error), "") if kind_of(error) is INVALID else ("", message_of(error))
    count = None if view["total"] is None else {"number": view["total"], "exact": view["exact"]}
    return render(
        request, "messages.html", page=view, count=count, wanted=wanted, states=STATES, mistake=mistake,
        missing=missing, notices=message_notices(request),
    )  # fmt: skip


def message_page(request: Request) -> Response:
    """Show one message."""
    found = ask(request, "message", {"id": request.query_params.get("id") or None})
    payload = preview_of(found["payload"], found["payload_is_base64"])
    return render(request, "message.html", message=found, payload=payload, notices=message_notices(request))


ROUTES = [get("/messages", messages_page), get("/message", message_page)]
