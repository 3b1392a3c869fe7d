"""Where a request comes from: the peer, the host that it names, and the site whose page has sent it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from goscheduler.errors import InvalidArgument, shown
from goscheduler.ops.access import Forbidden

Network = IPv4Network | IPv6Network

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "*.localhost"})
#: A request with one of these was passed on by a proxy, so that its peer says nothing of who has made it.
FORWARDING = ("forwarded", "via", "x-real-ip", "x-forwarded-")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return networks by their text, such as ``10.0.0.0/8``.

    :raises InvalidArgument: for a text that is none
    """
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise InvalidArgument(
            f"trusted_proxies must be networks such as 10.0.0.0/8: {error}", field="trusted_proxies"
        ) from None


def is_within(peer: str | None, trusted: Sequence[Network]) -> bool:
    """Tell whether a peer is in one of these networks."""
    address = _address(peer)
    return address is not None and any(address in network for network in trusted)


def is_loopback(peer: str | None) -> bool:
    """Tell whether a peer is on this machine."""
    address = _address(peer)
    return address is not None and address.is_loopback


def was_forwarded(headers: Headers) -> bool:
    """Tell whether a proxy has passed a request on."""
    return any(name.startswith(FORWARDING) for name in headers)


def _address(peer: str | None) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(peer or "")
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def host_of(headers: Headers) -> str:
    """Return the host that a request names, without its port.

    :raises Forbidden: if it names none or several
    """
    named = headers.getlist("host")
    if len(named) != 1:
        raise Forbidden("the request must have one Host header")
    try:
        host = urlsplit(f"//{named[0]}").hostname or ""
    except ValueError:
        host = ""
    if not host or any(character in named[0] for character in "/?#@\\ ,"):
        raise Forbidden(f"Host: {shown(named[0])} is no host")
    return host.rstrip(".").lower()


def check_host(headers: Headers, allowed: Collection[str], by_address: bool) -> None:
    """Refuse a host that is not ours: the name of another site may have been made to lead here.

    ``by_address`` allows every IP address: no name leads to one.

    :raises Forbidden: naming the host
    """
    host = host_of(headers)
    if "*" in allowed or host in allowed or (by_address and _address(host) is not None):
        return
    if any(name.startswith("*.") and host.endswith(name[1:]) for name in allowed):
        return
    raise Forbidden(f"the host {shown(host)} is not allowed here: name it with allowed_hosts or --allowed-host")


def check_site(method: str, headers: Headers, by_token: bool) -> None:
    """Refuse what a page of another site makes a browser send.

    A browser says by Sec-Fetch-Site or Origin whose page has sent a request. One that says neither is none, or old:
    it is believed if it shows a token, which no page of another site has, or is of a kind that pages send only to
    servers that have allowed it.

    :raises Forbidden: saying so
    """
    if method in SAFE_METHODS or by_token:
        return
    fetched, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if fetched is not None:
        ours = fetched == "same-origin"
    elif origin is not None:
        ours = urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""
    else:
        ours = method != "POST" or headers.get("content-type", "").partition(";")[0].strip() == "application/json"
    if not ours:
        raise Forbidden("a page of another site has sent this request")
