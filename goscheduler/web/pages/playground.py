"""A place to try a schedule: what it means in words, when it fires, and how two dialects read it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError, InvalidArgument
from goscheduler.ops.errors import INVALID, kind_of, message_of
from goscheduler.times import zone_name
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.pages.schedule_text import DIALECTS, Typed, cli_of, python_of, typed
from goscheduler.web.pages.shell import times_of
from goscheduler.web.site import ask

COUNT = 50
EXAMPLES = (
    "30 2 * * *", "*/15 9-17 * * mon-fri", "0 8 L * *", "0 9 1 * mon", "*/30 * * * * *", "every 90m",
    "2026-12-24 18:00", '{"type": "calendarinterval", "months": 1, "hour": 9}',
)  # fmt: skip


def playground_page(request: Request) -> Response:
    """Show the form and, once something is typed, what it means."""
    query = request.query_params
    text = query.get("text", "").strip()
    zone = query.get("zone", "").strip() or zone_name(times_of(request).zone)
    dialect = query.get("dialect", "")
    dialect = dialect if dialect in DIALECTS else DIALECTS[0]
    after = query.get("after", "").strip()
    found: dict[str, Any] = {
        "read": None, "other": None, "mistake": "", "python": None, "cli": None, "usable": False,
    }  # fmt: skip
    if text:
        found.update(_read(request, text, zone, dialect, after))
    return render(
        request, "playground.html", text=text, zone=zone, dialect=dialect, dialects=DIALECTS, after=after,
        examples=EXAMPLES, count=COUNT, **found,
    )  # fmt: skip


def _read(request: Request, text: str, zone: str, dialect: str, after: str) -> dict[str, Any]:
    """Return what a text means, in its dialect and in the other one, or what is wrong with it."""
    try:
        given = typed(text)
        read = _explained(request, given, zone, dialect, after)
    except GoSchedulerError as error:
        if kind_of(error) is not INVALID:
            raise
        return {"mistake": message_of(error)}
    other = _other(request, given, zone, dialect, after) if given.kind == "crontab" else None
    return {
        "read": read, "other": other, "python": python_of(given, zone, dialect),
        "cli": cli_of(given, zone, dialect, COUNT), "usable": given.kind != "object" and dialect == DIALECTS[0],
    }  # fmt: skip


def _other(request: Request, given: Typed, zone: str, dialect: str, after: str) -> dict[str, Any]:
    """Return how the other dialect reads a crontab line, which may be not at all."""
    name = next(each for each in DIALECTS if each != dialect)
    try:
        return {"dialect": name, "mistake": "", **_explained(request, given, zone, name, after)}
    except InvalidArgument as error:
        return {"dialect": name, "mistake": message_of(error), "schedule": "", "times": []}


def _explained(request: Request, given: Typed, zone: str, dialect: str, after: str) -> dict[str, Any]:
    wanted = {"trigger": given.trigger(dialect), "timezone": zone, "count": COUNT, "after": after or None}
    view: dict[str, Any] = ask(request, "explain_trigger", wanted)
    return view


ROUTES = [get("/playground", playground_page)]
