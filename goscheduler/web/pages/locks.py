"""Locks between processes: who has which, until when; an admin can break one."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import GoSchedulerError, InvalidArgument
from goscheduler.ops.errors import INVALID, NotFound, kind_of, message_of
from goscheduler.web.pages.notices import Notice
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask

MOST_LOCKS = 200
_TOLD = {
    "broken": Notice("good", "The lock is broken. Whoever had it is told when it is used or renewed next."),
    "not-held": Notice("warn", "Nothing was done: nobody has this lock under this fence any more."),
}


def locks_page(request: Request) -> Response:
    """Show the locks that somebody has."""
    prefix = request.query_params.get("prefix", "").strip()
    told = _TOLD.get(request.query_params.get("did", ""))
    missing, found = "", []
    try:
        found = ask(request, "locks", {"prefix": prefix or None, "limit": MOST_LOCKS})
    except GoSchedulerError as error:
        if kind_of(error) is not INVALID:
            raise
        missing = message_of(error)
    return render(
        request, "locks.html", locks=found, prefix=prefix, most=MOST_LOCKS, missing=missing,
        notices=[told] if told else [],
    )  # fmt: skip


def break_page(request: Request) -> Response:
    """Ask for the fence and the reason."""
    name = request.query_params.get("name", "")
    found = [lock for lock in ask(request, "locks", {"prefix": name or None}) if lock["name"] == name]
    if not found:
        raise NotFound(f"nobody has the lock {name!r} any more")
    return render(request, "sheet_lock.html", lock=found[0])


def break_now(request: Request, form: QueryParams) -> Response:
    """Break it, if it is still held under the fence that was typed."""
    fence = form.get("fence", "").strip()
    if not (fence.isascii() and fence.isdecimal() and len(fence) < 19):
        raise InvalidArgument(f"fence must be the number that the list shows, got {fence[:50]!r}", field="fence")
    given = {"name": form.get("name") or None, "fence": int(fence), "reason": form.get("reason", "").strip() or None}
    broken = ask(request, "break_lock", given)
    return go(request, "/locks", did="broken" if broken else "not-held")


ROUTES = [get("/locks", locks_page), get("/act/lock", break_page), post("/act/lock", break_now)]
