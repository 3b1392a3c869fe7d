"""One server of each kind for a whole test session, however many worker processes it has.

The first user starts a server, the others attach to it, and its keeper ends it when the last of them has gone.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from keeper import NOTE
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

#: What the name of a file ends with that tells of a server that has ended by itself.
ENDED = "ended"

_in_use: dict[str, Server] = {}


def share(session: Path, kind: str) -> Server:
    """Return the running server of the session; start it when nobody has, or when it has ended by itself."""
    if kind not in _in_use:
        _in_use[kind] = KINDS[kind](session / kind)
        _attach_or_start(session, _in_use[kind])
    elif _in_use[kind].has_ended:
        _attach_or_start(session, _in_use[kind])
    return _in_use[kind]


def _attach_or_start(session: Path, server: Server) -> None:
    note = server.folder / NOTE
    with alone(session / f"{server.kind}.starting"):
        server.hold()  # waits while the keeper ends a server; afterwards the folder is gone, and a new one is started
        if note.exists():
            server.attach(note.read_text())
            if not server.has_ended:
                return
            with (session / f"{server.kind}.{ENDED}").open("a") as told:
                told.write(f"{server.kind} has ended by itself, and was started again. Its log:\n{server.log()}\n")
            server.detach()
        shutil.rmtree(server.folder, ignore_errors=True)  # of a start that failed, or of a server that is gone
        server.start()
        note.write_text(server.share())


def ended_by_themselves(session: Path) -> str:
    """Return what is to be told of servers that were not to end."""
    return "".join(path.read_text() for path in sorted(session.glob(f"*.{ENDED}")))


def let_go() -> None:
    """Stop using the servers of the session in this process."""
    for server in _in_use.values():
        if server.has_ended:
            shutil.rmtree(server.folder, ignore_errors=True)  # its keeper has ended with it
        server.let_go()


def clear_away(session: Path) -> None:
    """Wait until the keepers have removed their servers after everybody has let go, and remove the rest."""
    deadline = time.monotonic() + GONE_WITHIN
    wait = threading.Event().wait
    while any(path.is_dir() for path in session.iterdir()) and time.monotonic() < deadline:
        wait(GLANCE)
    shutil.rmtree(session, ignore_errors=True)
