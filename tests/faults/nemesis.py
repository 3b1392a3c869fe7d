"""The faults: each begins and is healed, and both are recorded with the moment and the process that it is about."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from places import SERVERS, STORES
from scene import Node, Scene, until

#: Of faults that hit a process, so many in a hundred are aimed at one inside a run.
AIMED = 80


class Record:
    """Writes nemesis.jsonl."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, fault: str, phase: str, node: Node | str | None = None, detail: Any = None) -> float:
        moment = time.monotonic()
        name, life = (node.name, node.life) if isinstance(node, Node) else (node, None)
        line = {"t": moment, "fault": fault, "phase": phase, "node": name, "life": life, "detail": detail}
        os.write(self._file, (json.dumps(line) + "\n").encode())
        return moment


class Fault:
    """One fault: ``begin``, ``seconds`` later ``end``."""

    name: ClassVar[str]
    stores: ClassVar[tuple[str, ...]] = STORES
    #: How long it lasts, in leases.
    leases: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def __init__(self, scene: Scene, record: Record, luck: random.Random) -> None:
        self.scene = scene
        self.luck = luck
        self._record = record

    @property
    def seconds(self) -> float:
        return self.luck.uniform(*self.leases) * self.scene.lease

    def possible(self) -> bool:
        return self.scene.store in self.stores

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def note(self, phase: str, node: Node | str | None = None, detail: Any = None) -> None:
        self._record.write(self.name, phase, node, detail)

    def target(self) -> Node:
        """Return a process; in most cases one that has just begun a run that takes long."""
        living = self.scene.living()
        if self.luck.randrange(100) < AIMED:
            until(lambda: any(self._promise(node) for node in living), self.scene.lease)
            return max(living, key=self._promise)
        return self.luck.choice(living)

    def _promise(self, node: Node) -> float:
        now = time.monotonic()
        long = ("long", "beside", "once-long", "once-crash-dead", "once-crash-fails", "queue", "passing")
        runs = [run for run in node.tail.look().running.values() if run["kind"] in long]
        return max((run["t"] - now + self.scene.lease for run in runs), default=0.0)


class Kill(Fault):
    """A process is killed, and started again."""

    name = "kill"
    leases = (0.0, 0.5)

    def begin(self) -> None:
        self.node = self.target()
        self.note("begin", self.node)
        self.node.kill()

    def end(self) -> None:
        self.note("end", self.node)
        self.node.start()


class Freeze(Fault):
    """A process stands still for longer than its lease."""

    name = "freeze"
    leases = (1.4, 1.8)

    def begin(self) -> None:
        self.node = self.target()
        self.note("begin", self.node)
        self.node.freeze()

    def end(self) -> None:
        self.node.thaw()
        self.note("end", self.node)


class FreezeShort(Freeze):
    """A process stands still for less than half of its lease; nothing may come of it."""

    name = "freeze_short"
    leases = (0.3, 0.42)


class FreezeInCall(Freeze):
    """A process stands still for longer than its lease while it is inside a call of the store."""

    name = "freeze_in_call"

    def begin(self) -> None:
        self.node = self.luck.choice(self.scene.living())
        self.note("begin", self.node)
        caught = self._freeze_with_lock() if self.scene.proxy is None else self._freeze_with_request()
        self.note("aimed", self.node, {"inside": caught})
        self.node.freeze()

    def _freeze_with_request(self) -> bool:
        """Stop it as soon as the server has got some request of it, so that it holds what the server lends it."""
        assert self.scene.proxy is not None
        link = self.scene.proxy.links[self.node.name]
        left = self.luck.randrange(8)

        def noticed() -> None:
            nonlocal left
            if left:
                left -= 1
                link.wait_for_request = noticed
            else:
                self.node.signal(_STOP)
                caught.append(True)

        caught: list[bool] = []
        link.wait_for_request = noticed
        until(lambda: caught, self.scene.lease)
        link.wait_for_request = None
        return bool(caught)

    def _freeze_with_lock(self) -> bool:
        """Stop it while it holds the lock for writing to the file."""
        assert self.node.process is not None
        pid = self.node.process.pid
        deadline = time.monotonic() + 2 * self.scene.lease
        while time.monotonic() < deadline:
            if _writes(pid):
                self.node.signal(_STOP)
                self.node.freeze()
                if _writes(pid):
                    return True
                self.node.thaw()
        return False


class Restart(Fault):
    """A process is told to end, and another one takes its place."""

    name = "restart"

    def begin(self) -> None:
        self.node = self.target()
        self.note("begin", self.node)
        self.node.end()
        if not self.node.until_ended(8 * self.scene.lease):
            self.note("hangs", self.node)
            self.node.kill()

    def end(self) -> None:
        self.note("end", self.node)
        self.node.start()


class Clocks(Fault):
    """The clocks of some processes are wrong by some seconds, ahead or behind, and jump."""

    name = "clock"
    leases = (1.5, 2.0)

    def begin(self) -> None:
        living = self.scene.living()
        self.nodes = self.luck.sample(living, max(1, len(living) // 2))
        # The processes of a file are on one machine, and so their clocks jump together.
        together = self.luck.choice((-5.0, 5.0)) if self.scene.proxy is None else None
        if together is not None:
            self.nodes = living
        for node in self.nodes:
            wrong = together or self.luck.choice((-1, 1)) * self.luck.uniform(3.0, 5.0)
            self.note("begin", node, {"seconds": wrong})
            node.set_clock(wrong)

    def end(self) -> None:
        for node in self.nodes:
            node.set_clock(0.0)
            self.note("end", node)


class LinkFault(Fault):
    """Something is wrong with the links of some processes."""

    stores = SERVERS
    mode: ClassVar[str]
    most: ClassVar[int] = 1
    delay: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def begin(self) -> None:
        assert self.scene.proxy is not None
        target = self.target()
        others = [node for node in self.scene.living() if node is not target]
        self.hit: list[Node | str] = [target, *self.luck.sample(others, min(self.most - 1, len(others)))]
        if self.most > 1:
            self.hit.append("client")
        for node in self.hit:
            self.note("begin", node)
            self.strike(_name(node))

    def strike(self, name: str) -> None:
        assert self.scene.proxy is not None
        self.scene.proxy.spoil(name, self.mode, self.delay)

    def end(self) -> None:
        assert self.scene.proxy is not None
        late = self.luck.random() < 0.5
        for node in self.hit:
            self.scene.proxy.heal(_name(node), late)
            self.note("end", node, {"late": late})


class Blackhole(LinkFault):
    name = mode = "blackhole"
    leases = (1.4, 2.0)


class CutOff(LinkFault):
    """Nobody reaches the server, and nobody is told."""

    name = "cut_off"
    mode = "blackhole"
    most = 99
    leases = (1.2, 1.6)


class DropReplies(LinkFault):
    name = mode = "drop_replies"
    leases = (1.0, 1.5)


class Slow(LinkFault):
    name = mode = "slow"
    most = 99
    delay = (0.005, 0.08)
    leases = (1.2, 1.6)


class Refuse(LinkFault):
    """Connections are reset, and no new ones are made."""

    name = mode = "refuse"
    most = 3
    leases = (1.0, 1.5)

    def strike(self, name: str) -> None:
        assert self.scene.proxy is not None
        super().strike(name)
        self.scene.proxy.reset(name)


class Reset(LinkFault):
    """All connections are reset, several times."""

    name = "reset"
    mode = "pass"
    most = 99
    leases = (0.4, 0.6)

    def strike(self, name: str) -> None:
        assert self.scene.proxy is not None
        self.scene.proxy.reset(name)

    def end(self) -> None:
        for node in self.hit:
            self.strike(_name(node))
        super().end()


class ServerKill(Fault):
    """The server is killed, and started again with its files."""

    name = "server_kill"
    stores = SERVERS
    leases = (0.2, 0.8)

    def begin(self) -> None:
        assert self.scene.server is not None
        self.note("begin")
        self.scene.server.kill()

    def end(self) -> None:
        self.scene.start_server()
        self.note("end")


class LongOutage(ServerKill):
    """The server is away for longer than a lease, and comes back."""

    name = "server_away"
    leases = (1.3, 1.8)


class StartWithoutServer(ServerKill):
    """The server is killed; processes are killed and started while it is away, and must come up when it is back."""

    name = "start_without_server"
    leases = (0.5, 1.0)

    def begin(self) -> None:
        super().begin()
        self.nodes = self.luck.sample(self.scene.living(), 2)
        for node in self.nodes:
            self._record.write("kill", "begin", node)
            node.kill()
            self._record.write("kill", "end", node)
            node.start()


class ServerFreeze(Fault):
    """The server stands still; connections stay open and nothing is answered."""

    name = "server_freeze"
    stores = SERVERS
    leases = (0.4, 1.5)

    def begin(self) -> None:
        assert self.scene.server is not None
        self.note("begin")
        self.scene.server.freeze()

    def end(self) -> None:
        assert self.scene.server is not None
        self.scene.server.thaw()
        self.note("end")


class DiskFull(Fault):
    """The disk of the store has no room; a server that ends because of it is started again when there is."""

    name = "disk_full"
    leases = (1.0, 1.4)

    def possible(self) -> bool:
        return self.scene.disk is not None and self.scene.disk.mounted

    def begin(self) -> None:
        assert self.scene.disk is not None
        self.note("begin")
        self.scene.disk.fill()

    def end(self) -> None:
        assert self.scene.disk is not None
        self.scene.disk.free()
        ended = self.scene.server is not None and not self._serves()
        if ended:
            self.scene.start_server()
        self.note("end", detail={"server_ended": ended})


    def _serves(self) -> bool:
        """Tell whether the server goes on; one that gives up takes its time to do so."""
        server = self.scene.server
        assert server is not None
        if until(lambda: not server.running, self.scene.lease / 2):
            return False
        with suppress(ChildProcessError):
            server.until(server.ping)
            return True
        return False


class Connections(Fault):
    """Somebody else has all connections of the server, and ours are reset."""

    name = "connections"
    stores = ("postgresql", "mariadb", "redis", "mongodb")
    leases = (1.0, 1.4)

    def begin(self) -> None:
        assert self.scene.server is not None
        assert self.scene.proxy is not None
        self.note("begin")
        self.taken: list[Any] = []
        self._take_all()
        for name in self.scene.proxy.links:
            self.scene.proxy.reset(name)
        self._take_all()
        self.note("aimed", detail={"taken": len(self.taken)})

    def _take_all(self) -> None:
        deadline = time.monotonic() + self.scene.lease
        with suppress(Exception):  # the one that is refused
            while time.monotonic() < deadline:
                self.taken.append(_connect(self.scene.store, self.scene.url))

    def end(self) -> None:
        for connection in self.taken:
            connection.close()
        self.note("end")


class ForeignWriter(Fault):
    """Another program has the file of SQLite locked for writing."""

    name = "foreign_writer"
    stores = ("sqlite",)
    leases = (0.6, 1.5)

    def begin(self) -> None:
        self.note("begin")
        path = self.scene.url.removeprefix("sqlite:///")
        self._other = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._other.execute("BEGIN IMMEDIATE")

    def end(self) -> None:
        self._other.execute("ROLLBACK")
        self._other.close()
        self.note("end")


class Failover(Fault):
    """The server that leads is killed for good, and another one takes its place."""

    name = "failover"
    stores = ("postgresql", "redis", "mongodb", "etcd", "zookeeper")

    def possible(self) -> bool:
        return self.scene.topology is not None

    def begin(self) -> None:
        assert self.scene.topology is not None
        self.note("begin", detail={"keeps_confirmed": self.scene.topology.keeps_confirmed})
        self.scene.topology.fail_over()

    def end(self) -> None:
        assert self.scene.topology is not None
        self.note("end")
        self.scene.topology.rejoin()


FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        Kill, Freeze, FreezeShort, FreezeInCall, Restart, Clocks, Blackhole, CutOff, DropReplies, Slow, Refuse, Reset,
        ServerKill, LongOutage, StartWithoutServer, ServerFreeze, DiskFull, Connections, ForeignWriter,
        Failover,
    )
}  # fmt: skip

_STOP = 19


def play(scene: Scene, faults: list[str], record: Record, calm: float) -> float:
    """Let every fault happen once, in an order that the seed decides, and return the moment of the last heal."""
    luck = random.Random(f"nemesis {scene.seed}")
    order = [FAULTS[name](scene, record, luck) for name in faults]
    luck.shuffle(order)
    healed = time.monotonic()
    for fault in order:
        time.sleep(calm * luck.uniform(0.8, 1.2))
        if not fault.possible():
            record.write(fault.name, "impossible")
            continue
        fault.begin()
        time.sleep(fault.seconds)
        fault.end()
        healed = time.monotonic()
    return healed


def _name(node: Node | str) -> str:
    return node if isinstance(node, str) else node.name


def _writes(pid: int) -> bool:
    """Tell whether a process holds a lock for writing on some file."""
    return bool(re.search(rf"POSIX\s+ADVISORY\s+WRITE\s+{pid}\s", Path("/proc/locks").read_text()))


def _connect(store: str, url: str) -> Any:
    """Return one more connection to the server."""
    if store == "postgresql":
        import psycopg

        return psycopg.connect(url.replace("+psycopg", ""), connect_timeout=2)
    if store == "mariadb":
        import pymysql
        from sqlalchemy.engine import make_url

        place = make_url(url)
        return pymysql.connect(
            host=place.host, port=place.port or 0, user=place.username, password=place.password or "", connect_timeout=2
        )
    import socket

    found = re.search(r"127\.0\.0\.1:(\d+)", url)
    assert found is not None
    connection = socket.create_connection(("127.0.0.1", int(found[1])), timeout=0.05)
    with suppress(TimeoutError):  # who is refused is told so, or is closed
        connection.recv(100)
        raise ConnectionRefusedError
    return connection
