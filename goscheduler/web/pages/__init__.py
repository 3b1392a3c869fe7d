"""The pages that people see.

To add a page: write ``pages/NAME.py`` with functions ``(request) -> Response`` that ask one operation and
``render`` a template; list them as ``ROUTES = [get("/path", function), post("/path", act)]``; name the module in
``MODULES`` below, and the page in ``NAVIGATION`` of ``shell.py``. Its template extends ``shell.html`` and is built of
the macros in ``macros.html``. Nothing on a page needs JavaScript.
"""

from __future__ import annotations

from copy import copy
from importlib import import_module

from starlette.routing import BaseRoute

MODULES = (
    "assets", "overview", "jobs", "job", "job_acts", "job_edit", "job_next", "runs", "letters", "processes",
    "settings", "login", "limits", "messages", "message_acts", "schedules", "documents", "locks", "calendar",
    "playground", "audit", "alerts",
)  # fmt: skip

__all__ = ["page_routes"]


def page_routes() -> list[BaseRoute]:
    """Return the routes of all pages, and of what they load. They are the caller's own."""
    modules = [import_module(f"goscheduler.web.pages.{name}") for name in MODULES]
    return [copy(route) for module in modules for route in module.ROUTES]
