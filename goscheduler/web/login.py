"""Logging in and out: a browser shows a token or a password once, and has a session from then on.

The page itself is among the pages. Its address says by ``why`` what went wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from goscheduler.clock import Clock
from goscheduler.ops.access import Unauthenticated
from goscheduler.ops.errors import NotFound, TooMany
from goscheduler.ops.tokens import Token, TokenBook, authenticate, token_of_password
from goscheduler.web.bodies import read_body
from goscheduler.web.sessions import cookie
from goscheduler.web.site import link, safe_path, site_of
from goscheduler.web.throttle import Throttle
from goscheduler.web.visitors import Visitors

LONGEST_FORM = 10_000


class Login:
    """Begins and ends sessions."""

    def __init__(self, visitors: Visitors, clock: Clock) -> None:
        self._visitors = visitors
        self._throttle = Throttle(clock)
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the two routes that forms are sent to."""
        return [Route("/login", self.enter, methods=["POST"]), Route("/logout", self.leave, methods=["POST"])]

    async def enter(self, request: Request) -> Response:
        """Begin a session for whoever shows a token, or name and password, and lead to where they wanted to go."""
        doors = self._visitors.doors
        if doors.tokens is None or doors.sessions is None:
            raise NotFound("there is no log-in here")
        form = parse_qs((await read_body(request, LONGEST_FORM)).decode("utf-8", "replace"), max_num_fields=20)
        goal = safe_path(_first(form, "next"), "/")
        try:
            self._throttle.attempt(self._visitors.address(request))
            token = await site_of(request).run(self._token_of, doors.tokens, form)
        except (Unauthenticated, TooMany) as error:
            why = "often" if isinstance(error, TooMany) else "wrong"
            return RedirectResponse(link(request, f"/login?{urlencode({'why': why, 'next': goal})}"), 303)
        return self._led(request, goal, cookie(doors.sessions.begin(token.id), *self._place(request)))

    def _token_of(self, book: TokenBook, form: Mapping[str, list[str]]) -> Token:
        now = self._clock.now()
        if shown := _first(form, "token").strip():
            return authenticate(book, shown, now)
        return token_of_password(book, _first(form, "name").strip(), _first(form, "password"), now)

    async def leave(self, request: Request) -> Response:
        """End the session of a browser."""
        return self._led(request, "/login?why=out", cookie("", *self._place(request), lasts=0))

    def _place(self, request: Request) -> tuple[str, bool]:
        return link(request, ""), self._visitors.is_on_tls(request)

    def _led(self, request: Request, goal: str, session: str) -> Response:
        return RedirectResponse(link(request, goal), 303, headers={"Set-Cookie": session})


def _first(form: Mapping[str, list[str]], name: str) -> str:
    return form.get(name, [""])[0]
