"""The guard in front of all routes: checks host, visitor and site, and gives every answer its headers."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goscheduler.ops.access import Forbidden, Unauthenticated
from goscheduler.web.origins import check_site
from goscheduler.web.paths import own_path
from goscheduler.web.problems import problem_response
from goscheduler.web.sessions import NAME, NAME_ON_TLS
from goscheduler.web.site import link
from goscheduler.web.visitors import Visitors

PROBES = ("/livez", "/readyz")
LOGIN = "/login"
#: Everybody gets these: they show nothing of the stores.
PUBLIC = (*PROBES, LOGIN)
STATIC = "/static/"
#: Of what a proxy says, the audit keeps so many characters.
LONGEST_ADDRESS = 100

ErrorPage = Callable[[Request, BaseException], Response]


class Guard:
    """Lets a request through to the application, or answers it itself."""

    def __init__(self, app: ASGIApp, visitors: Visitors, error_page: ErrorPage | None = None) -> None:
        self._app = app
        self._visitors = visitors
        self._error_page = error_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._guarded(scope, receive, send)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        nonce = secrets.token_urlsafe(18)
        scope = {**scope, "state": {**scope.get("state", {}), "principal": None, "nonce": nonce}}
        answer = _Answer(send, headers_of(nonce))
        request = Request(scope, receive)
        try:
            await self._admit(request)
            await self._app(scope, receive, answer.send)
        except Exception as error:
            if answer.has_begun:
                raise
            response = self._refusal(request, error)
            await response(scope, receive, answer.send)

    async def _admit(self, request: Request) -> None:
        """Find out who asks, and keep it for the routes.

        :raises Exception: the reason for which a request is refused
        """
        path = own_path(request.scope)
        if path in PROBES:
            return
        self._visitors.check_host(request)
        is_public = path in PUBLIC or path.startswith(STATIC)
        by_token = False
        try:
            visitor = await self._visitors.identify(request)
            address = self._visitors.address(request)[:LONGEST_ADDRESS]
            request.state.principal, by_token = replace(visitor.principal, address=address), visitor.by_token
        except (Unauthenticated, Forbidden):
            if not is_public or not self._visitors.doors.are_locked:
                raise
        check_site(request.method, request.headers, by_token)

    def _refusal(self, request: Request, error: Exception) -> Response:
        if not wants_page(request) or self._error_page is None:
            return problem_response(error)
        if isinstance(error, Unauthenticated) and self._visitors.doors.sessions is not None:
            query = request.url.query
            path = quote(own_path(request.scope)) + (f"?{query}" if query else "")
            had_session = {NAME, NAME_ON_TLS} & request.cookies.keys()
            given = {"next": path, **({"why": "expired"} if had_session else {})}
            return RedirectResponse(link(request, f"{LOGIN}?{urlencode(given)}"), 303)
        return self._error_page(request, error)


def wants_page(request: Request) -> bool:
    """Tell whether a person looks, and not a program."""
    is_api = own_path(request.scope).startswith("/v1")
    return not is_api and "text/html" in request.headers.get("accept", "")


def headers_of(nonce: str) -> list[tuple[bytes, bytes]]:
    """Return the headers that every answer has, unless its route has given others of these names."""
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
        "X-Frame-Options": "DENY", "Cache-Control": "no-store",
    }  # fmt: skip
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


class _Answer:
    """Sends an answer on, with the headers of the guard."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            given = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": given + [each for each in self._headers if each[0] not in names]}
        await self._send(message)
