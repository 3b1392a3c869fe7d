"""One server of each kind for a whole test session, however many worker processes it has.

The first user starts a server, the others attach to it, and its keeper ends it when the last of them has gone.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from key_servers import Etcd, MongoDB, Redis, Sentinel, ZooKeeper
from message_servers import NATS, RabbitMQ
from server_locks import alone
from server_process import GLANCE, GONE_WITHIN, Server
from sql_servers import MariaDB, PgBouncer, PostgreSQL

KINDS: dict[str, type[Server]] = {
    server.kind: server for server in (PostgreSQL, MariaDB, Redis, MongoDB, Etcd, ZooKeeper, RabbitMQ, NATS)
}
#: Beside them, what is of use to nobody alone.
ALL_KINDS = {**KINDS, Sentinel.kind: Sentinel, PgBouncer.kind: PgBouncer}

_in_use: dict[str, Server] = {}


def share(session: Path, kind: str) -> Server:
    """Return the running server of the session; start it when nobody has."""
    if kind not in _in_use:
        _in_use[kind] = _attach_or_start(session, kind)
    return _in_use[kind]


def _attach_or_start(session: Path, kind: str) -> Server:
    server = KINDS[kind](session / kind)
    note = server.folder / "shared"
    with alone(session / f"{kind}.starting"):
        server.hold()  # waits while the keeper ends a server; afterwards the folder is gone, and a new one is started
        if note.exists():
            server.attach(note.read_text())
        else:
            shutil.rmtree(server.folder, ignore_errors=True)  # of a start that failed
            server.start()
            note.write_text(server.share())
    return server


def let_go() -> None:
    """Stop using the servers of the session in this process."""
    for server in _in_use.values():
        server.let_go()


def clear_away(session: Path) -> None:
    """Wait until the keepers have removed their servers after everybody has let go, and remove the rest."""
    deadline = time.monotonic() + GONE_WITHIN
    wait = threading.Event().wait
    while any(path.is_dir() for path in session.iterdir()) and time.monotonic() < deadline:
        wait(GLANCE)
    shutil.rmtree(session, ignore_errors=True)
