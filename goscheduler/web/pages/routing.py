"""How a function becomes a page: forms are read, errors are told beside what they are about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from goscheduler.errors import survivable
from goscheduler.logs import guarded_logger
from goscheduler.ops.errors import INTERNAL, Kind, kind_of, message_of
from goscheduler.web.pages.rendering import render_at_once
from goscheduler.web.site import link

logger = guarded_logger(__name__)

#: A form of a page is no longer than this.
LONGEST_FORM = 1_000_000

Page = Callable[[Request], Response]
Act = Callable[[Request, QueryParams], Response]


def get(path: str, page: Page) -> Route:
    """Return the route of a page. It asks a store, so it runs on a worker thread."""

    @wraps(page)
    def shown(request: Request) -> Response:
        return _told(request, lambda: page(request))

    return Route(path, shown, methods=["GET"])


def post(path: str, act: Act) -> Route:
    """Return the route of a form that does something. It answers with a redirect, or shows what went wrong.

    What the address of the form says counts before its fields. A text that somebody else has chosen stands there too: a
    browser changes line ends and NUL in a field.
    """

    @wraps(act)
    async def done(request: Request) -> Response:
        form = QueryParams((await _body(request)).decode("utf-8", "replace"))
        given = QueryParams([*form.multi_items(), *request.query_params.multi_items()])
        return await run_in_threadpool(_told, request, lambda: act(request, given))

    endpoint: Callable[[Request], Awaitable[Response]] = done
    return Route(path, endpoint, methods=["POST"])


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise HTTPException(413)
    return body


def _told(request: Request, answer: Callable[[], Response]) -> Response:
    try:
        return answer()
    except HTTPException:
        raise
    except BaseException as error:
        if not survivable(error):
            raise
        return error_page(request, error)


def error_page(request: Request, error: BaseException) -> Response:
    """Return a page that says what went wrong; the rest of the pages stays in reach."""
    told = getattr(error, "kind", None)
    kind = told if isinstance(told, Kind) else kind_of(error)
    message = str(error) if isinstance(told, Kind) else message_of(error)
    if kind is INTERNAL:
        logger.error("Page %s failed with an internal error: %r", request.url.path, error, exc_info=error)
    return render_at_once(request, "error.html", kind.http, title=kind.title, message=message, kind=kind.name)


def go(request: Request, path: str, **query: Any) -> RedirectResponse:
    """Return the answer that leads a browser to another page, behind a form."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    joint = "&" if "?" in path else "?"
    return RedirectResponse(link(request, path) + (f"{joint}{urlencode(given)}" if given else ""), 303)
