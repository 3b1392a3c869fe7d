"""The processes that share the stores: leases, busy places, tasks; pause, resume, drain."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import InvalidArgument
from goscheduler.web.pages.notices import notices_of
from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get, go, post
from goscheduler.web.site import ask

#: Action → what it is called, and what it means.
ACTIONS = {
    "pause": ("Pause", "It fires nothing until it is resumed. What runs goes on."),
    "resume": ("Resume", "It fires jobs again."),
    "drain": ("Drain", "It fires nothing more, lets what runs end, and shuts down."),
}


def processes_page(request: Request) -> Response:
    """Show the processes that are alive."""
    return render(
        request, "processes.html", processes=ask(request, "processes"), notices=notices_of(request, "/processes")
    )  # fmt: skip


def ask_page(request: Request) -> Response:
    """Ask why a process is to do something."""
    action, owner = _asked(request.query_params)
    found = [process for process in ask(request, "processes") if process["owner"] == owner]
    verb, says = ACTIONS[action]
    return render(
        request, "sheet_process.html", action=action, verb=verb, says=says, owner=owner,
        name=f"{found[0]['host']}:{found[0]['pid']}" if found else owner,
    )  # fmt: skip


def ask_process(request: Request, form: QueryParams) -> Response:
    """Ask a process to do something when it renews its lease next."""
    action, owner = _asked(form)
    ask(request, "ask_process", {"owner": owner, "action": action, "reason": form.get("reason") or None})
    return go(request, "/processes", did="asked", n=1)


def _asked(given: QueryParams) -> tuple[str, str]:
    action = given.get("action", "")
    if action not in ACTIONS:
        raise InvalidArgument(f"action must be one of {', '.join(ACTIONS)}, got {action[:50]!r}", field="action")
    return action, given.get("owner", "")


ROUTES = [get("/processes", processes_page), get("/act/process", ask_page), post("/act/process", ask_process)]
