"""The page on which people log in; the guard of the application takes what it sends."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.site import safe_path

#: Word in the address → what is said.
MISTAKES = {
    "wrong": "Name, password or token is not right.",
    "expired": "You were logged out, because your session is over.",
    "often": "Too many attempts: wait a minute.",
    "out": "You have logged out.",
}


def login_page(request: Request, mistake: str = "", status: int = 200) -> Response:
    """Show the form; ``mistake`` is one of :data:`MISTAKES`."""
    told = MISTAKES.get(mistake or request.query_params.get("why", ""), "")
    onward = safe_path(request.query_params.get("next"), "/")
    return render(request, "login.html", status, told=told, onward=onward)


ROUTES = [get("/login", login_page)]
