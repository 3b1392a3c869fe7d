"""What all routes of one web application share, and how a route asks the operations."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from goscheduler.ops.access import Principal
from goscheduler.ops.redact import Redactor
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source

#: So many requests are worked on at once, so that no more connections of the stores are in use.
THREADS = 8

#: A list or figures that an observer has read serve all who ask with the same rights for so long. A program that shows
#: its own scheduler always sees what it has just done.
KEPT_SECONDS = 2.0

#: What need not be encoded in the place of a mount, which may come from the path of a request.
_PLAIN = "/:@!$&'()*+,=~-._"

#: Whether this request is one of the eight already.
_HAS_TURN = contextvars.ContextVar("has_turn", default=False)

T = TypeVar("T")


class Site:
    """The operations on one source. Every route finds it as ``request.app.state.site``."""

    def __init__(self, source: Source, redactor: Redactor | None = None) -> None:
        self.source = source
        seconds = KEPT_SECONDS if source.scheduler.engine.observing else 0.0
        self.operations = Operations(source, redactor=redactor, kept_seconds=seconds)
        self.metrics_text: Callable[[], str] | None = None
        """Returns what ``/metrics`` answers; without it there is no such path."""
        self.streams = True
        """Whether a request may stay open to hear of changes. Under WSGI it would hold a worker."""
        self._threads = ThreadPoolExecutor(THREADS, "goscheduler-web")
        self._turns: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def alone(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a page answer that asks stores on threads of its server, as one of the eight."""
        async with self._turn():
            held = _HAS_TURN.set(True)
            try:
                await app(scope, receive, send)
            finally:
                _HAS_TURN.reset(held)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Return what a function returns that asks a store, called on a worker thread."""
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        async with nullcontext() if _HAS_TURN.get() else self._turn():
            return await loop.run_in_executor(self._threads, context.run, function, *args)

    def _turn(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._turns is None or self._turns[0] is not loop:
            self._turns = loop, asyncio.Semaphore(THREADS)
        return self._turns[1]


def site_of(request: Request) -> Site:
    """Return the site that a request was made to."""
    site: Site = request.app.state.site
    return site


def principal_of(request: Request) -> Principal:
    """Return who asks, as the guard in front of all routes has found out."""
    principal: Principal = request.state.principal
    return principal


def is_anew(request: Request) -> bool:
    """Tell whether no answer of before will do: somebody has just acted, maybe by another process, or says so."""
    return "did" in request.query_params or "no-cache" in request.headers.get("cache-control", "")


def ask(request: Request, operation: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return what an operation answers to whoever has made a request, in plain values.

    It asks a store, so it is called on a worker thread: from a route that is a plain function.
    """
    operations, principal = site_of(request).operations, principal_of(request)
    return operations.call(operation, principal, arguments, via="web", anew=is_anew(request))


def safe_path(path: str | None, otherwise: str) -> str:
    """Return a path below the place of the application that a form or an address named; another one for anything else.

    A browser takes ``//host`` for another site, a backslash for a slash, and ``%2e%2e`` for the folder above.
    """
    ours = path is not None and path.startswith("/") and not path.startswith("//") and "\\" not in path
    if path is None or not ours or not path.isascii() or not path.isprintable():
        return otherwise
    folders = unquote(path.partition("?")[0].partition("#")[0]).split("/")
    return otherwise if "." in folders or ".." in folders else path


def link(request: Request, path: str) -> str:
    """Return the path of a page below the place where the application is mounted; ``path`` begins with a slash."""
    return f"{quote(request.scope.get('root_path', '').rstrip('/'), _PLAIN)}{path}"
