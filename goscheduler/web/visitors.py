"""Finds out who makes a request, by what was configured; if nothing was, only people at this machine get in."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.requests import Request

from goscheduler.ops.access import Forbidden, Principal, Role, Unauthenticated
from goscheduler.ops.tokens import TokenBook, authenticate, token_of_id
from goscheduler.web.origins import (
    LOOPBACK_HOSTS,
    Network,
    check_host,
    is_loopback,
    is_within,
    was_forwarded,
)
from goscheduler.web.sessions import NAME, NAME_ON_TLS, Sessions
from goscheduler.web.site import Site

#: Whoever sits at this machine, where nothing else was configured.
LOCAL = Principal("local", Role.ADMIN, see_arguments=True)
CLOSED = (
    "only requests from this machine are answered, because nothing says who may come in: give principal=, tokens= or "
    "auth_header= (on the command line --tokens or --auth-header)"
)

Who = Callable[..., Principal | Awaitable[Principal | None] | None]


@dataclass(frozen=True)
class Doors:
    """Who may come in, and how they show who they are."""

    principal: Who | None = None
    """Called with the request, or without anything: returns who asks, or None."""
    tokens: TokenBook | None = None
    sessions: Sessions | None = None
    auth_header: str | None = None
    """The header in which a trusted proxy says who asks."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """The roles of those whom the proxy names; others have ``default_role``."""
    default_role: Role = Role.VIEWER
    trusted: tuple[Network, ...] = ()
    hosts: frozenset[str] | None = None
    """Names of hosts; None for those of this machine, or for all where ``principal`` decides."""

    @property
    def are_locked(self) -> bool:
        """Whether something was configured, so that not everybody at this machine gets in."""
        return self.principal is not None or self.tokens is not None or self.auth_header is not None


class Visitor(NamedTuple):
    """Who makes a request."""

    principal: Principal
    by_token: bool
    """Whether the request shows it by a header that no page of another site can send."""


class Visitors:
    """Finds out who makes requests to one site."""

    def __init__(self, site: Site, doors: Doors) -> None:
        self._site = site
        self.doors = doors

    def check_host(self, request: Request) -> None:
        """Refuse a host that is not ours.

        :raises Forbidden: naming it
        """
        doors = self.doors
        if doors.hosts is None and doors.principal is not None:
            return  # a name that leads here by a trick has none of the cookies that show who asks
        check_host(request.headers, LOOPBACK_HOSTS | (doors.hosts or frozenset()), by_address=doors.are_locked)

    async def identify(self, request: Request) -> Visitor:
        """Return who makes a request.

        :raises Unauthenticated: if that is not known
        :raises Forbidden: if nothing was configured and it comes from elsewhere
        """
        doors = self.doors
        if not doors.are_locked:
            return self._local(request)
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        is_bearer = scheme.lower() == "bearer"
        if is_bearer and doors.tokens is not None:
            now = self._site.source.scheduler.clock.now()
            token = await self._site.run(authenticate, doors.tokens, shown.strip(), now)
            return Visitor(token.principal, True)
        found = await self._called(request) or self._named(request) or await self._of_session(request)
        if found is None:
            raise Unauthenticated("show who you are")
        return Visitor(found, is_bearer)

    def is_trusted(self, request: Request) -> bool:
        """Tell whether a proxy that may say who asks has passed a request on."""
        return is_within(_peer(request), self.doors.trusted)

    def is_on_tls(self, request: Request) -> bool:
        """Tell whether the browser has an encrypted connection."""
        told = request.headers.get("x-forwarded-proto") if self.is_trusted(request) else None
        return (told or request.scope.get("scheme", "http")) == "https"

    def address(self, request: Request) -> str:
        """Return the address that a request comes from."""
        if self.is_trusted(request):
            passed = request.headers.get("x-forwarded-for", "").split(",")
            elsewhere = [each.strip() for each in passed if not is_within(each.strip(), self.doors.trusted)]
            if elsewhere and elsewhere[-1]:
                return elsewhere[-1]
        return _peer(request) or "unknown"

    def _local(self, request: Request) -> Visitor:
        if not is_loopback(_peer(request)) or was_forwarded(request.headers):
            raise Forbidden(CLOSED)
        return Visitor(LOCAL, False)

    async def _called(self, request: Request) -> Principal | None:
        who = self.doors.principal
        if who is None:
            return None
        arguments = (request,) if _takes_request(who) else ()
        if inspect.iscoroutinefunction(who):
            return _checked(await who(*arguments))
        return _checked(await self._site.run(who, *arguments))

    def _named(self, request: Request) -> Principal | None:
        header = self.doors.auth_header
        if header is None or not self.is_trusted(request):
            return None
        names = request.headers.getlist(header)
        if len(names) != 1 or not names[0].strip():
            return None
        name = names[0].strip()[:100]
        role = self.doors.roles.get(name, self.doors.default_role)
        return Principal(name, role, see_arguments=role >= Role.OPERATOR)

    async def _of_session(self, request: Request) -> Principal | None:
        doors = self.doors
        value = request.cookies.get(NAME_ON_TLS if self.is_on_tls(request) else NAME)
        if doors.tokens is None or doors.sessions is None or not value:
            return None
        token_id = doors.sessions.token_id(value)
        now = self._site.source.scheduler.clock.now()
        token = await self._site.run(token_of_id, doors.tokens, token_id, now)
        return token.principal


def _peer(request: Request) -> str | None:
    return None if request.client is None else request.client.host


def _takes_request(who: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(who).parameters)
    except (TypeError, ValueError):
        return True


def _checked(found: Any) -> Principal | None:
    if found is not None and not isinstance(found, Principal):
        raise TypeError(f"principal must return a Principal or None, got {type(found).__name__}")
    return found
