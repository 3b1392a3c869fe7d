"""The application: routes, what guards them, and how errors are told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from goscheduler.ops.access import Role
from goscheduler.ops.errors import NotFound
from goscheduler.ops.redact import Redactor
from goscheduler.ops.source import Source
from goscheduler.ops.tokens import FileTokens, StoreTokens, TokenBook
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.web.api import ApiRoutes, Endpoint, PlainEndpoint, operation_endpoints
from goscheduler.web.guard import ErrorPage, Guard, wants_page
from goscheduler.web.login import Login
from goscheduler.web.openapi import show_document
from goscheduler.web.origins import networks
from goscheduler.web.probes import probe_routes
from goscheduler.web.problems import of_status, problem_response
from goscheduler.web.seed import seed_endpoints
from goscheduler.web.sessions import Sessions
from goscheduler.web.site import Site
from goscheduler.web.visitors import Doors, Visitors, Who
from goscheduler.web.watch import EventsEndpoint

Tokens = bool | str | os.PathLike[str] | TokenBook
#: The pages for people. Without them the application answers programs.
PAGES = "goscheduler.web.pages"
#: The variable with the secret that signs sessions: processes that share it know each other's.
SECRET_VARIABLE = "GOSCHEDULER_WEB_SECRET"


def web_app(
    source: BaseScheduler | Source,
    *,
    principal: Who | None = None,
    tokens: Tokens | None = None,
    auth_header: str | None = None,
    trusted_proxies: Sequence[str] = (),
    roles: Mapping[str, Role] | None = None,
    default_role: Role = Role.VIEWER,
    allowed_hosts: Iterable[str] | None = None,
    secret: str | None = None,
    redactor: Redactor | None = None,
    metrics_text: Callable[[], str] | None = None,
    streams: bool = True,
) -> Starlette:
    """Return an application that shows and operates a scheduler, or what an observer sees.

    If nothing says who may come in, it answers requests of this machine only. ``principal`` is a function that returns
    who makes a request, or None; it takes the request, or nothing. ``tokens`` are those of the job store (True) or of a
    file. ``auth_header`` is the header in which a proxy within ``trusted_proxies`` names who asks; ``roles`` and
    ``default_role`` say what they may do. ``allowed_hosts`` are the names by which the application is reached.
    """
    found = source if isinstance(source, Source) else Source(source)
    site = Site(found, redactor)
    site.metrics_text, site.streams = metrics_text, streams
    clock = found.scheduler.clock
    book = _book(found, tokens)
    sessions = None if book is None else Sessions(secret or os.environ.get(SECRET_VARIABLE) or None, clock)
    visitors = Visitors(site, Doors(
        principal, book, sessions, auth_header, dict(roles or {}), default_role, networks(trusted_proxies),
        None if allowed_hosts is None else frozenset(name.lower() for name in allowed_hosts),
    ))  # fmt: skip
    error_page = _error_page()
    app = Starlette(
        routes=[*_api(site), *probe_routes(), *Login(visitors, clock).routes(), *_pages(site)],
        middleware=[Middleware(Guard, visitors=visitors, error_page=error_page)],
        exception_handlers={HTTPException: _told(error_page)},
    )
    app.router.redirect_slashes = False  # a redirect would lose the place of the mount
    app.state.site = site
    return app


def _book(source: Source, tokens: Tokens | None) -> TokenBook | None:
    if tokens is None or tokens is False:
        return None
    if tokens is True:
        return StoreTokens(source)
    return FileTokens(tokens) if isinstance(tokens, (str, os.PathLike)) else tokens


def _api(site: Site) -> list[BaseRoute]:
    endpoints: list[Endpoint] = [*operation_endpoints(), *seed_endpoints(), EventsEndpoint(site)]
    endpoints.append(PlainEndpoint("/v1/openapi.json", show_document))
    return [ApiRoutes(endpoints)]


def _pages(site: Site) -> list[BaseRoute]:
    if find_spec(PAGES) is None:
        return []
    return [taking_turns(site, route) for route in import_module(PAGES).page_routes()]


def taking_turns(site: Site, route: BaseRoute) -> BaseRoute:
    """Return a route whose requests are among the eight of a site; the given one, which other sites have too, stays."""
    own = copy(route)
    if isinstance(own, Route):
        own.app = partial(site.alone, own.app)
    return own


def _error_page() -> ErrorPage | None:
    if find_spec(PAGES) is None:
        return None
    page: ErrorPage = import_module(f"{PAGES}.routing").error_page
    return page


def _told(error_page: ErrorPage | None) -> Callable[[Request, Exception], Response]:
    """Return what answers where a route is missing, or has refused a request by a status."""

    def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and error_page is not None and wants_page(request):
            return error_page(request, NotFound("there is no such page"))
        return problem_response(of_status(error.status_code, error.detail, error.headers))

    return answer
