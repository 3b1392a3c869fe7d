"""Makes clients of etcd, and recognises given ones. Imports only the driver that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goscheduler._drivers.etcd.wire import Wire

Login = tuple[str, str]
"""A user name and a password."""


def connect(login: Login | None, members: Sequence[tuple[str, int]] = (), **options: Any) -> Wire:
    """Return a new client of etcd3gw with these options, which tries the members in turn until one answers."""
    from goscheduler._drivers.etcd.gateway import Gateway, new_client

    places = [{"host": host, "port": port, **options} for host, port in members] or [options]
    first = new_client(**places[0])
    return Gateway(first, login, [new_client(**place).base_url for place in places])


def wire_of(client: Any, login: Login | None = None) -> Wire:
    """Return the wire for a client of etcd3gw, or of etcd3, which has logged in by itself.

    :raises TypeError: if it is neither
    """
    if isinstance(client, Wire):
        return client
    kinds = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(client).__mro__}
    if "etcd3.client.Etcd3Client" in kinds:
        from goscheduler._drivers.etcd.grpc import Grpc

        return Grpc(client)
    if "etcd3gw.client.Etcd3Client" in kinds:
        from goscheduler._drivers.etcd.gateway import Gateway

        return Gateway(client, login)
    raise TypeError(f"client must be one of etcd3gw or of etcd3, got {type(client).__name__}")
