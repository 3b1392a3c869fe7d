"""Which addresses of the network a webhook may go to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from goscheduler.errors import MessageRejected, TransportUnavailable, shown

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: An IPv4 address inside of an IPv6 address, for translation on the way.
_TRANSLATED = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


async def checked_addresses(host: str, port: int, allow_private: bool) -> list[str]:
    """Return the addresses of a host, all of them public unless private ones are allowed.

    :raises MessageRejected: if one of them is not
    :raises TransportUnavailable: if the name cannot be resolved now
    """
    addresses = await _resolve(host, port)
    for address in addresses:
        if not allow_private and not is_public(address):
            raise MessageRejected(
                f"{shown(host)} is at {address}, which is not a public address; allow_private=True would allow it"
            )
    return addresses


async def _resolve(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise TransportUnavailable(f"the name {shown(host)} cannot be resolved: {error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: str) -> bool:
    """Tell whether an address belongs to everybody: not to this machine, its network, or a special purpose."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return all(inner.is_global and not inner.is_multicast and not inner.is_reserved for inner in _meant(parsed))


def _meant(address: _Address) -> list[_Address]:
    """Return the address, or the IPv4 addresses that it leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if any(address in network for network in _TRANSLATED):
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    if address.teredo:
        return [*address.teredo]
    inner = address.ipv4_mapped or address.sixtofour
    return [inner] if inner else [address]
