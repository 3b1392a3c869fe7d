"""A gRPC server of its own: where it listens, who gets in, and how it ends."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped, unused-ignore]
from grpc_health.v1 import health  # type: ignore[import-untyped, unused-ignore]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped, unused-ignore]

from goscheduler.errors import InvalidArgument
from goscheduler.rpc.access import is_loopback
from goscheduler.rpc.calls import CALLS_AT_ONCE, MOST_BYTES
from goscheduler.rpc.names import SEED_SERVICE, SERVICE
from goscheduler.rpc.services import register

if TYPE_CHECKING:
    from collections.abc import Callable

    from goscheduler.ops.access import Principal
    from goscheduler.ops.source import Source
    from goscheduler.schedulers.base import BaseScheduler

PORT = 8181
#: So many streams may go on; each has a thread, beside those that answer calls.
MOST_WATCHES = 16
#: So many calls may wait; more are refused.
MOST_CALLS = 256
#: Seconds that calls are given to end when the server stops.
GRACE = 5.0


@dataclass(frozen=True)
class Tls:
    """Certificate and key of the server in PEM; with ``client_ca``, clients must show a certificate that it signed."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None


class Server:
    """Serves a scheduler, an observer or a source, from :meth:`start` to :meth:`stop`.

    Without ``tls`` it listens on this machine only, unless it is ``insecure``. On other addresses it needs to know who
    calls: by ``principal``, ``authenticate`` or ``certificate``, see :func:`~goscheduler.rpc.services.register`.
    ``reflection``, by which clients learn the methods, is on where it listens on this machine only.
    """

    def __init__(
        self, source: Source | BaseScheduler, *, host: str = "127.0.0.1", port: int = PORT, tls: Tls | None = None,
        insecure: bool = False, reflection: bool | None = None,
        principal: Callable[[Any], Principal | None] | None = None,
        authenticate: Callable[[str], Principal] | None = None,
        certificate: Callable[[str], Principal] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        knows_callers = any(way is not None for way in (principal, authenticate, certificate))
        _require_safe(host, tls is not None, insecure, knows_callers)
        self._host, self._port, self._tls = host, port, tls
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE + MOST_WATCHES, thread_name_prefix="goscheduler-grpc")
        self._server = grpc.server(self._pool, options=OPTIONS, maximum_concurrent_rpcs=MOST_CALLS)
        self._services = register(
            self._server, source, principal=principal, authenticate=authenticate, certificate=certificate,
            **{"most_watches": MOST_WATCHES, **options},
        )  # fmt: skip
        if is_loopback(host) if reflection is None else reflection:
            _add_reflection(self._server)

    def start(self) -> int:
        """Listen, and return the number of the port.

        :raises OSError: if the address cannot be listened on
        """
        _require_free(self._host, self._port)
        address = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        credentials = None if self._tls is None else _credentials(self._tls)
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(str(error)) from error
        self._server.start()
        return int(port)

    def stop(self, grace: float = GRACE) -> None:
        """Take no more calls, end the streams, and let calls end for at most ``grace`` seconds."""
        self._services.stop()
        self._server.stop(grace).wait()
        self._pool.shutdown(wait=False)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


#: Two servers on one port would share its calls, and nobody would learn of it.
OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
)


def _require_safe(host: str, has_tls: bool, insecure: bool, knows_callers: bool) -> None:
    if is_loopback(host):
        return
    if not has_tls and not insecure:
        raise InvalidArgument(
            f"{host} is reached from other machines: give a certificate and a key, or allow plaintext by insecure",
            field="tls",
        )
    if not knows_callers:
        raise InvalidArgument(
            f"{host} is reached from other machines: give tokens or a client CA, so that it is known who calls",
            field="authenticate",
        )


def _require_free(host: str, port: int) -> None:
    """Try to listen, because gRPC does not say why it cannot.

    :raises OSError: saying why
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen(1)


def _credentials(tls: Tls) -> Any:
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)], root_certificates=tls.client_ca, require_client_auth=tls.client_ca is not None
    )


def _add_reflection(server: Any) -> None:
    names = (SEED_SERVICE, SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
