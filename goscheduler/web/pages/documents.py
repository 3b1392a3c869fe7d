"""Collections of documents that have a time: what comes next, how much is due, and what is malformed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.web.pages.rendering import render
from goscheduler.web.pages.routing import get
from goscheduler.web.site import ask


def documents_page(request: Request) -> Response:
    """Show all collections, or the one that is named."""
    chosen = request.query_params.get("collection") or None
    views = ask(request, "documents", {"collection": chosen, "limit": 10 if chosen is None else 200})
    return render(request, "documents.html", views=views, chosen=chosen)


ROUTES = [get("/documents", documents_page)]
