"""gRPC: the service of event-scheduler, and the operations. It needs the extra ``grpc``.

:func:`register` adds the services to a server of the user's; :class:`Server` is one of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goscheduler.rpc.server import Server, Tls
    from goscheduler.rpc.services import Services, register

__all__ = ["Server", "Services", "Tls", "register"]

_PLACES = {"Server": "server", "Tls": "server", "Services": "services", "register": "services"}


def __getattr__(name: str) -> object:
    """Load a name on its first use: messages and stubs for clients need no server."""
    if name not in _PLACES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"goscheduler.rpc.{_PLACES[name]}"), name)
