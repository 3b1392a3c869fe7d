"""The application for WSGI servers, by a2wsgi. There are no streams: a stream would hold a worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from a2wsgi import ASGIMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from goscheduler.ops.access import Principal
from goscheduler.ops.source import Source
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.web.app import web_app

Environ = MutableMapping[str, Any]
StartResponse = Callable[..., Any]

#: Where a framework that has its own log-in leaves who asks. No header of a request becomes a key like this.
PRINCIPAL = "goscheduler.principal"
#: Where servers leave the path as it came.
_RAW = ("RAW_URI", "REQUEST_URI")


def wsgi_app(source: BaseScheduler | Source, **options: Any) -> WsgiApp:
    """Return a WSGI application; the options are those of :func:`~goscheduler.web.web_app`."""
    return WsgiApp(web_app(source, streams=False, **options))


class WsgiApp:
    """A WSGI application around one of ASGI. Each process makes its event loop when it answers first."""

    def __init__(self, app: ASGIApp) -> None:
        self._app: Any = _WithRawPath(app)
        self._loops: dict[int, ASGIMiddleware] = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        process = os.getpid()  # a thread with a loop does not survive a fork
        if process not in self._loops:
            self._loops = {process: ASGIMiddleware(self._app)}
        answer: Iterable[bytes] = self._loops[process](environ, start_response)  # type: ignore[arg-type]
        return answer


class _WithRawPath:
    """Adds what a2wsgi leaves out: the path as it came, and the peer of servers that do not tell its port."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        environ = scope.get("wsgi_environ", {})
        raw = next((environ[name] for name in _RAW if environ.get(name)), "")
        peer = environ.get("REMOTE_ADDR")
        await self._app({
            **scope, "raw_path": _path_of(raw).encode("latin-1", "replace"), "client": (peer, 0) if peer else None,
        }, receive, send)  # fmt: skip


def _path_of(raw: str) -> str:
    return raw.partition("?")[0] if raw.startswith("/") else urlsplit(raw).path


def principal_in_environ(request: Request) -> Principal | None:
    """Return who asks, as the framework around has found out."""
    found: Principal | None = request.scope["wsgi_environ"].get(PRINCIPAL)
    return found
