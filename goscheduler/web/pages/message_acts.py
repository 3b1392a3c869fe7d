"""Acts on messages: another time, taken back, tried again, forgotten; and a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError, InvalidArgument, MessageNotFound
from goscheduler.ops.errors import EXISTS, INVALID, TOO_LARGE, kind_of, message_of
from goscheduler.web.pages.notices import Notice
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask


class MessageAct(NamedTuple):
    """Something that is done to a message."""

    operation: str
    verb: str
    says: str


ACTS = {
    "postpone": MessageAct("postpone_message", "Give it another time", "It is delivered then, and not before."),
    "cancel": MessageAct(
        "cancel_message", "Take it back", "It is not delivered, unless a process is publishing it by now."
    ),
    "redrive": MessageAct("redrive_message", "Try again", "It gets another attempt now."),
    "discard": MessageAct("discard_message", "Discard", "It is forgotten, and was never delivered."),
}  # fmt: skip

#: Word in the address → what is said above the page.
_TOLD = {
    "scheduled": Notice("good", "The message is scheduled."),
    "postpone": Notice("good", "The message has another time."),
    "cancel": Notice("good", "The message was taken back. It was not delivered."),
    "too-late": Notice("warn", "Too late: the message is delivered, or a process is publishing it."),
    "redrive": Notice("good", "The message gets another attempt."),
    "discard": Notice("good", "The message was discarded."),
}
#: Fields of the form whose text stands for itself.
_TEXTS = ("event", "deliver_at", "id", "via")
_RECURRENCE = ("cron", "interval", "timezone")


def message_notices(request: Request) -> list[Notice]:
    """Return what is said of the act that led to this page."""
    told = _TOLD.get(request.query_params.get("did", ""))
    return [] if told is None else [told]


def act_page(request: Request) -> Response:
    """Ask when, and why."""
    name, act = _act_of(request.query_params)
    found = ask(request, "message", {"id": request.query_params.get("id") or None})
    return render(request, "sheet_message.html", name=name, act=act, message=found)


def act_now(request: Request, form: QueryParams) -> Response:
    """Do it."""
    name, act = _act_of(form)
    message_id = form.get("id", "")
    given = {"id": message_id, "reason": form.get("reason", "").strip() or None}
    if name == "postpone":
        ask(request, act.operation, {**given, "to": form.get("to", "").strip() or None})
        return go(request, "/message", did=name, id=message_id)
    did = _taken_back(request, given) if name == "cancel" else bool(ask(request, act.operation, given))
    return go(request, "/messages", did=name if did else "too-late")


def _taken_back(request: Request, given: Mapping[str, Any]) -> bool:
    """Take a message back, and tell whether that was in time; one that is gone meanwhile was delivered."""
    try:
        return bool(ask(request, "cancel_message", given))
    except MessageNotFound:
        return False


def new_page(request: Request) -> Response:
    """Show the form of a new message."""
    return _form(request, {}, "")


def schedule(request: Request, form: QueryParams) -> Response:
    """Schedule a message, or show the form again with what is wrong."""
    try:
        given = {"message": message_of_form(form), "reason": form.get("reason", "").strip() or None}
        made = ask(request, "schedule_message", given)
    except GoSchedulerError as error:
        if kind_of(error) not in (INVALID, EXISTS, TOO_LARGE):
            raise
        return _form(request, form, message_of(error), kind_of(error).http)
    return go(request, "/message", did="scheduled", id=made["id"])


def message_of_form(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the message that a form describes, as the operation takes it.

    :raises InvalidArgument: for JSON that is none
    """
    message: dict[str, Any] = {name: form[name].strip() for name in _TEXTS if form.get(name, "").strip()}
    if form.get("kind") == "json":
        message["payload"] = _json("payload", form.get("payload") or "null")
    else:
        message["payload_base64" if form.get("kind") == "base64" else "payload"] = form.get("payload", "")
    if form.get("metadata", "").strip():
        message["metadata"] = _json("metadata", form["metadata"])
    recurrence = {name: form[name].strip() for name in _RECURRENCE if form.get(name, "").strip()}
    if recurrence.keys() - {"timezone"}:
        message["recurrence"] = recurrence
    return message


def _json(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{field} must be JSON: {error}", field=field) from error


def _form(request: Request, given: Mapping[str, str], mistake: str, status: int = 200) -> Response:
    return render(request, "message_new.html", status, given=dict(given), mistake=mistake)


def _act_of(given: QueryParams) -> tuple[str, MessageAct]:
    name = given.get("act", "")
    if name not in ACTS:
        raise InvalidArgument(f"act must be one of {', '.join(ACTS)}, got {name[:50]!r}", field="act")
    return name, ACTS[name]


ROUTES = [
    get("/act/message", act_page), post("/act/message", act_now), get("/messages/new", new_page),
    post("/messages/new", schedule),
]  # fmt: skip
