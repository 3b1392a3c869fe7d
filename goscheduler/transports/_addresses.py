"""Which addresses of the network a webhook may go to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from goscheduler.errors import MessageRejected, TransportUnavailable, shown

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# What ``ipaddress`` takes for public differs from one version of Python to the next, so the table is our own: the
# special-purpose registries of IANA, and what is public on paper and belongs to the network of a cloud.

_SPECIAL_4 = tuple(map(ipaddress.IPv4Network, (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # between a provider and its customers; metadata of Alibaba Cloud
    "127.0.0.0/8",  # this machine
    "168.63.129.16/32",  # the host agent of Azure
    "169.254.0.0/16",  # link-local; metadata of most clouds
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments; metadata of Oracle Cloud
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # AMT
    "192.88.99.0/24",  # relays of 6to4
    "192.168.0.0/16",  # private
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved; broadcast
)))  # fmt: skip

#: All that is handed out for use by everybody. Outside are this machine, link-local, site-local (``fec0::/10``) and
#: unique local addresses (``fc00::/7``, with the metadata of clouds), multicast, and translation for local use.
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_6 = tuple(map(ipaddress.IPv6Network, (
    "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "2620:4f:8000::/48",  # AS112
    "3fff::/20",  # documentation
)))  # fmt: skip
#: An IPv4 address is the end of an address in one of these: mapped by the system, or translated on the way.
_WITH_IPV4 = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))


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
    parsed = _meant(ipaddress.ip_address(address.partition("%")[0]))
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in _SPECIAL_4)
    return parsed in _GLOBAL_6 and not any(parsed in network for network in _SPECIAL_6)


def _meant(address: _Address) -> _Address:
    """Return the address, or the IPv4 address that it leads to."""
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _WITH_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
