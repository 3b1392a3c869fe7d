"""Who makes a call: the bearer of a token, the holder of a certificate, or somebody on this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from goscheduler.ops.access import Principal, Role, Unauthenticated

#: A proxy sets one of these: then the peer on this machine is not who makes the call.
FORWARDING = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "x-envoy-external-address")
LOCAL = Principal("local", Role.ADMIN, see_arguments=True)


@dataclass(frozen=True)
class Access:
    """How it is found out who makes a call.

    ``principal`` gets the context of a call and decides alone. Without it, ``authenticate`` gets the bearer token of
    the call, and ``certificate`` the common name of the client's certificate; both return the principal or raise.
    Without all three only callers on this machine get in, and may do everything.
    """

    principal: Callable[[Any], Principal | None] | None = None
    authenticate: Callable[[str], Principal] | None = None
    certificate: Callable[[str], Principal] | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing was configured, so that every caller on this machine gets in."""
        return self.principal is None and self.authenticate is None and self.certificate is None

    def caller(self, context: Any) -> Principal:
        """Return who makes a call.

        :raises Unauthenticated: if that is not known
        """
        found = self._found(context)
        if found is None:
            raise Unauthenticated(self._hint)
        return replace(found, address=address_of(context.peer()))

    def _found(self, context: Any) -> Principal | None:
        if self.principal is not None:
            return self.principal(context)
        metadata = dict(context.invocation_metadata())
        token, name = bearer_of(metadata), common_name_of(context)
        if token is not None and self.authenticate is not None:
            return self.authenticate(token)
        if name is not None and self.certificate is not None:
            return self.certificate(name)
        return LOCAL if self.is_open and is_local(context.peer(), metadata) else None

    @property
    def _hint(self) -> str:
        if self.authenticate is not None:
            return 'the call needs the metadata "authorization" with "Bearer" and a token'
        if self.certificate is not None:
            return "the call needs a client certificate with a common name"
        return "only callers on the machine of the server get in, because it has neither tokens nor a client CA"


def bearer_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the token of a call; None if it has none."""
    kind, _, token = str(metadata.get("authorization", "")).strip().partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def common_name_of(context: Any) -> str | None:
    """Return the common name of the client's certificate; None if the client has shown none that was checked."""
    names = context.auth_context().get("x509_common_name") or ()
    return next((name.decode("utf-8", "replace") for name in names if name), None)


def is_local(peer: str, metadata: Mapping[str, Any]) -> bool:
    """Tell whether a call comes from this machine, and not through a proxy on it."""
    if any(name in metadata for name in FORWARDING):
        return False
    return peer.startswith("unix:") or is_loopback(address_of(peer))


def address_of(peer: str) -> str:
    """Return the address of a peer as gRPC names it, such as ``ipv4:10.0.0.7:4711``; empty for one without."""
    kind, _, address = unquote(peer).partition(":")
    return "" if kind == "unix" else address.rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """Tell whether an address, or the name of a host, is of this machine alone."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
