"""Serves an application by uvicorn until a signal ends it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

#: Seconds that open requests are given when the server ends.
GRACE_SECONDS = 5
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Listening(NamedTuple):
    """Where a server listens, and with what certificate."""

    host: str
    port: int
    root_path: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def url(self, port: int) -> str:
        """Return the address that people open; ``port`` is the one that was found where 0 was given."""
        name = {"0.0.0.0": "localhost", "::": "localhost"}.get(self.host, self.host)
        host = f"[{name}]" if ":" in name else name
        return f"{'https' if self.tls_cert else 'http'}://{host}:{port}{self.root_path}/"


def bound(where: Listening) -> socket.socket:
    """Return a socket that listens.

    :raises OSError: if the port is taken, or the host is not one of this machine
    """
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    made = socket.create_server((where.host, where.port), family=family, backlog=512)
    # asyncio turns Nagle's algorithm off only where the socket names its protocol: with it, an answer of two packets
    # waits 40 ms for the acknowledgement of the first one.
    return socket.socket(made.family, made.type, socket.IPPROTO_TCP, fileno=made.detach())


def mounted(app: ASGIApp, root_path: str) -> ASGIApp:
    """Return an application with another one at a path; the paths of requests begin with it."""
    if not root_path:
        return app

    def lead(request: Request) -> Response:
        return RedirectResponse(f"{root_path}/", 307)

    outer = Starlette(routes=[Route(root_path, lead), Mount(root_path, app)])
    outer.router.redirect_slashes = False
    return outer


def serve(app: ASGIApp, where: Listening, listener: socket.socket, begun: Callable[[str], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; ``begun`` hears the address when the first can come."""
    config = uvicorn.Config(
        mounted(app, where.root_path), log_config=None, access_log=False, proxy_headers=False, server_header=False,
        date_header=True, lifespan="off", http="h11", ws="none", timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=where.tls_cert, ssl_keyfile=where.tls_key,
    )  # fmt: skip
    address = where.url(listener.getsockname()[1])
    previous = {number: signal.signal(number, _heard) for number in SIGNALS}
    try:
        with suppress(KeyboardInterrupt):
            _Server(config, lambda: begun(address)).run(sockets=[listener])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _heard(number: int, frame: object) -> None:
    """Do nothing: uvicorn has ended the server by this signal, and repeats it for whoever has started it."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, begun: Callable[[], None]) -> None:
        super().__init__(config)
        self._begun = begun

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._begun()
