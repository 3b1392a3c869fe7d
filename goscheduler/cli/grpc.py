"""``goscheduler grpc``: the operations, and the service of event-scheduler, over gRPC, as a program of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goscheduler.cli._command_error import FAILED, CommandError, errors_told
from goscheduler.cli._logging import read_level, set_up_logging
from goscheduler.cli._options import App, Debug, Store, Where
from goscheduler.cli._print import note
from goscheduler.cli._session import Session, opened
from goscheduler.errors import shown
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.source import Source

if TYPE_CHECKING:
    from goscheduler.rpc.server import Tls

MISSING = 'gRPC needs grpcio and protobuf: pip install "goscheduler[grpc]"'
PACKAGES = ("google", "grpc", "grpc_health", "grpc_reflection")
#: What --tokens means instead of a file.
OF_THE_STORE = "store"
ROLES = tuple(role.title for role in Role)
#: How long a signal may go unheard at most.
LOOK_SECONDS = 0.25


def serve_grpc(
    app: App = None,
    store: Store = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any.")] = 8181,
    tokens: Annotated[
        str | None,
        typer.Option(metavar="FILE|store", help="Let in who shows a token of this file, or of the job store."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate, with its chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of the certificate.")] = None,
    client_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Let in who shows a certificate that this authority signed.")
    ] = None,
    role: Annotated[
        str, typer.Option(help=f"What those may do who show a certificate: {', '.join(ROLES)}.")
    ] = "viewer",
    admin: Annotated[list[str] | None, typer.Option(metavar="NAME", help="One of them who is an admin.")] = None,
    operator: Annotated[list[str] | None, typer.Option(metavar="NAME", help="One of them who is an operator.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Let nobody change anything.")] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen in plaintext on any address.")] = False,
    reflection: Annotated[
        bool, typer.Option("--reflection", help="Let clients ask for the methods on any address.")
    ] = False,
    log_level: Annotated[str, typer.Option(help="The lowest level that is logged.")] = "WARNING",
    debug: Debug = False,
) -> None:
    """Serve job stores over gRPC, until Ctrl-C. Nothing is fired here.

    On an address of this machine everybody at it may do everything. On another one it must say who may come in.
    """
    with errors_told(debug):
        _require_packages()
        _set_up_log(log_level)
        if role not in ROLES:
            raise CommandError(f"--role must be one of {', '.join(ROLES)}, got {shown(role)}")
        _require_locks(host, tokens, tls_cert, client_ca, insecure)
        roles = {**dict.fromkeys(operator or (), Role.OPERATOR), **dict.fromkeys(admin or (), Role.ADMIN)}
        options = {
            "host": host, "port": port, "tls": _tls(tls_cert, tls_key, client_ca), "insecure": insecure,
            "reflection": reflection or None,
            "certificate": None if client_ca is None else _by_certificate(roles, Role.of(role)),
        }  # fmt: skip
        _require_file("--tokens", None if tokens == OF_THE_STORE else tokens)
    with opened(Where(app, store, debug=debug), read_only=read_only) as session:
        _serve(session, options, tokens)


def _require_packages() -> None:
    try:
        from goscheduler.rpc import server  # noqa: F401
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in PACKAGES:
            raise
        raise CommandError(MISSING) from error


def _set_up_log(level: str) -> None:
    from rich.console import Console

    set_up_logging(read_level(level), Console(stderr=True, markup=False, highlight=False, emoji=False))


def _require_locks(
    host: str, tokens: str | None, tls_cert: Path | None, client_ca: Path | None, insecure: bool
) -> None:
    from goscheduler.rpc.access import is_loopback

    if is_loopback(host):
        return
    if tls_cert is None and not insecure:
        raise CommandError(
            f"{host} is reached from other machines: give --tls-cert and --tls-key, or allow plaintext with "
            "--insecure, or listen on 127.0.0.1"
        )
    if tokens is None and client_ca is None:
        raise CommandError(
            f"everybody who reaches {host} could change all jobs. Make a token with goscheduler token add and give "
            "--tokens store, or give --client-ca, or listen on 127.0.0.1"
        )


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> Tls | None:
    from goscheduler.rpc.server import Tls

    if (cert is None) != (key is None):
        raise CommandError("give --tls-cert and --tls-key together")
    if cert is None or key is None:
        if client_ca is not None:
            raise CommandError("--client-ca needs --tls-cert and --tls-key: without TLS nobody shows a certificate")
        return None
    for option, file in (("--tls-cert", cert), ("--tls-key", key), ("--client-ca", client_ca)):
        _require_file(option, file)
    return Tls(cert.read_bytes(), key.read_bytes(), None if client_ca is None else client_ca.read_bytes())


def _require_file(option: str, file: Path | str | None) -> None:
    if file is not None and not Path(file).is_file():
        raise CommandError(f"{option}: there is no file {file}")


def _by_certificate(roles: dict[str, Role], others: Role) -> Callable[[str], Principal]:
    return lambda name: Principal(name, roles.get(name, others))


def _by_token(source: Source, given: str) -> Callable[[str], Principal]:
    from goscheduler.ops.tokens import FileTokens, StoreTokens, authenticate

    book = StoreTokens(source) if given == OF_THE_STORE else FileTokens(given)
    return lambda token: authenticate(book, token, source.scheduler.clock.now()).principal


def _serve(session: Session, options: dict[str, Any], tokens: str | None) -> None:
    from goscheduler.rpc.server import Server

    source = Source(session.scheduler)
    server = Server(source, authenticate=None if tokens is None else _by_token(source, tokens), **options)
    with _signals() as ended:
        try:
            port = server.start()
        except OSError as error:
            place, reason = f"{options['host']} port {options['port']}", error.strerror or str(error)
            raise CommandError(f"cannot listen on {place}: {reason}", FAILED) from error
        note(f"Listening on {options['host']} port {port}; Ctrl-C ends it")
        while not ended.wait(LOOK_SECONDS):  # a signal just before the wait does not end it
            continue
        server.stop()


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Give an event that SIGINT and SIGTERM set."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, lambda *_: ended.set()) for number in numbers}
    try:
        yield ended
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
