"""An application with the pages alone, for somebody whose rights a test chooses."""

from __future__ import annotations

import warnings

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route

from goscheduler.ops.access import Principal, Role
from goscheduler.ops.source import Source
from goscheduler.web.pages import page_routes
from goscheduler.web.site import Site

POLICY = (
    "default-src 'none'; script-src 'nonce-n0nce'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
VIEWER, OPERATOR = Principal("vic", Role.VIEWER), Principal("olga", Role.OPERATOR)
ADMIN = Principal("ada", Role.ADMIN, see_arguments=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have a newer version of its client
    from starlette.testclient import TestClient

__all__ = ["ADMIN", "OPERATOR", "POLICY", "VIEWER", "TestClient", "pages_app"]


class Guard:
    """Stands for the guard of the application: says who asks, and sets the headers that it sets."""

    def __init__(self, app, principal):
        self.app, self.principal = app, principal

    async def __call__(self, scope, receive, send):
        scope.setdefault("state", {}).update(principal=self.principal, nonce="n0nce")

        async def sent(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self.app(scope, receive, sent)


def pages_app(scheduler, principal=ADMIN, root=""):
    """Return the application; ``root`` is where it is mounted."""
    source = scheduler if isinstance(scheduler, Source) else Source(scheduler)
    app = Starlette(routes=[*page_routes(), Route("/v1/events", lambda request: Response(status_code=204))])
    app.state.site = Site(source)
    app.add_middleware(Guard, principal=principal)
    return Starlette(routes=[Mount(root, app)]) if root else app
