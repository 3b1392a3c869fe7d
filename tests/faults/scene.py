"""The scene of one run: a private server, a link for each process, the processes, and the client."""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import paths  # noqa: F401 - before those that it makes importable
import warm
from places import SERVERS, WITH_DOCUMENTS, Documents, at_port
from proxy import Proxy
from server_process import Server, is_stopped
from shared_servers import KINDS
from topologies import failover
from topology import Topology

HERE = Path(__file__).parent
NODES = 4
PATIENCE = 60.0
#: How long the first process may take that imports everything, on a machine that is busy with other things.
IMPORTED_WITHIN = 300.0
GLANCE = 0.02
DISK = "1000m"
URGENT = -10
STARTS = 3

_never = threading.Event()
#: Few enough to be used up, and enough for all processes of a run.
OPTIONS: dict[str, tuple[str, ...]] = {
    "postgresql": ("-c", "max_connections=120"),
    "mariadb": ("--max-connections=120",),
    "redis": ("--maxclients", "200"),
    "mongodb": ("--maxConns", "200"),
}


class Tail:
    """Reads what a ledger has got since it was last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.running: dict[tuple[str, int], dict[str, Any]] = {}
        """Runs that have begun and not ended."""
        self.ready = False
        self.started = 0

    def look(self) -> Tail:
        with suppress(FileNotFoundError), self._path.open("rb") as ledger:
            ledger.seek(self._read)
            whole, _, _ = (told := ledger.read()).rpartition(b"\n")
            self._read += len(whole) + bool(told and whole)
            for line in whole.splitlines():
                self._take(json.loads(line))
        return self

    def _take(self, line: dict[str, Any]) -> None:
        if line["e"] == "start":
            self.running[line["run"], line["fence"]] = line
            self.started += 1
        elif line["e"] == "end":
            self.running.pop((line["run"], line["fence"]), None)
        elif line["e"] == "ready":
            self.ready = True


class Node:
    """One process after another under one name, each of them a life."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.name = name
        self.life = -1
        self.process: warm.Process | None = None
        self._clock = scene.folder / f"clock-{name}"
        self._clock.write_bytes(struct.pack("d", 0.0))

    def start(self) -> None:
        """Begin another life."""
        self.life += 1
        self.ledger = self.scene.folder / f"ledger-{self.name}-{self.life}.jsonl"
        self.tail = Tail(self.ledger)
        scene, mutant = self.scene, ("--mutant", self.scene.mutant) if self.scene.mutant else ()
        with (scene.folder / f"errors-{self.name}.log").open("ab") as errors:
            self.process = warm.start(
                HERE / "node.py", scene.url_of(self.name), "--store", scene.store, "--name", self.name,
                "--life", str(self.life), "--ledger", self.ledger, "--clock", self._clock, "--lease", str(scene.lease),
                "--resource", scene.folder / "resource", *mutant, *(["--documents"] if scene.documents else []),
                *([] if scene.several else ["--pulse"]),  # one driver alone does not find the server that leads
                stdin=warm.DEVNULL, stdout=errors, stderr=errors, cwd=HERE,
            )  # fmt: skip

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def until_ready(self, seconds: float = PATIENCE) -> bool:
        return until(lambda: self.tail.look().ready, seconds)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> None:
        """Tell it to end in good order."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def until_ended(self, seconds: float = PATIENCE) -> bool:
        return until(lambda: not self.alive, seconds)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)
        pid = self.process.pid if self.process is not None else 0
        until(lambda: is_stopped(pid), PATIENCE)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def set_clock(self, seconds: float) -> None:
        """Let its wall clock be wrong from now on."""
        with self._clock.open("r+b") as control, mmap.mmap(control.fileno(), 8) as memory:
            memory[:8] = struct.pack("d", seconds)


class Scene:
    """Everything that a run needs."""

    def __init__(
        self, store: str, seed: int, folder: Path, lease: float, share: float, mutant: str | None, several: bool = False
    ) -> None:
        """Describe it; ``several`` servers stand in for each other, and no link can be spoiled then."""
        self.store = store
        self.seed = seed
        self.folder = folder
        self.lease = lease
        self.share = share
        self.mutant = mutant
        self.nodes = [Node(self, f"n{number}") for number in range(NODES)]
        self.several = several
        self.documents = store in WITH_DOCUMENTS and not several
        self.server: Server | None = None
        self.topology: Topology | None = None
        self.proxy: Proxy | None = None
        self.disk: Disk | None = None
        self.client: warm.Process | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Scene:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _build(self) -> None:
        work = Path("/tmp", f"goscheduler-faults-{os.getpid()}")
        work.mkdir(mode=0o755)
        self._stack.callback(shutil.rmtree, work, ignore_errors=True)
        warm.use(lambda: work)
        self._stack.callback(warm.let_go)
        prefer(os.getpid())
        warm.READY_WITHIN = IMPORTED_WITHIN
        warm.run("-c", "pass", timeout=IMPORTED_WITHIN)
        # The server and the links stand for other machines, which have processors of their own.
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, URGENT)
        self.disk = self._stack.enter_context(Disk(work / "disk"))
        if self.several:
            self._start_several(work / "servers")
        elif self.store in SERVERS:
            self._start_server(work / "disk" / "server")
        else:
            self.url = f"sqlite:///{work / 'disk' / 'jobs.db'}"
        self._stack.callback(self._end_processes)
        if self.documents:
            Documents(self.store, self.url).make()

    def _start_several(self, folder: Path) -> None:
        self.topology = failover(self.store, folder)
        self._stack.callback(self.topology.close)
        self.topology.start()
        self.url = self.topology.url

    def _start_server(self, folder: Path) -> None:
        server = self.server = KINDS[self.store](folder, *OPTIONS.get(self.store, ()))
        self._stack.callback(server.close)
        self.start_server()
        name = "faults"
        self.url = server.make_space(name)
        if self.store in ("etcd", "zookeeper"):
            self.url = f"{self.url}/{name}"
        self.proxy = Proxy(server.port, random.Random(self.seed))
        self._stack.callback(self.proxy.close)
        for link in [node.name for node in self.nodes] + ["client"]:
            self.proxy.open(link)

    def start_server(self) -> None:
        """Start the server, for the first time or again."""
        assert self.server is not None
        for _ in range(STARTS):  # on a busy machine it may miss a deadline of its driver
            try:
                self.server.start()
                break
            except Exception as error:
                failure = error
        else:
            raise failure
        prefer(self.server.pid)

    def url_of(self, name: str) -> str:
        """Return the URL of the store, as one process gets to it."""
        return self.url if self.proxy is None else at_port(self.url, self.proxy.links[name].port)

    def start_nodes(self) -> None:
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            assert node.until_ready(), f"{node.name} has not come up"

    def start_client(self) -> None:
        with (self.folder / "errors-client.log").open("ab") as errors:
            self.client = warm.start(
                HERE / "client.py", self.url_of("client"), "--store", self.store, "--seed", str(self.seed),
                "--record", self.folder / "client.jsonl", "--lease", str(self.lease), "--share", str(self.share),
                *(["--documents"] if self.documents else []),
                stdin=warm.DEVNULL, stdout=warm.PIPE, stderr=errors, cwd=HERE,
            )  # fmt: skip
        assert self.client.stdout is not None
        assert self.client.stdout.readline().strip() == b"set up", "the client has not come up"

    def stop_client(self) -> None:
        assert self.client is not None
        self.client.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.client.wait(PATIENCE)

    def living(self) -> list[Node]:
        return [node for node in self.nodes if node.alive]

    def _end_processes(self) -> None:
        for process in [self.client, *(node.process for node in self.nodes)]:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(PATIENCE)


class Disk:
    """A small disk of its own, which can be filled; a plain folder where the system lends none."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.mounted = False

    def __enter__(self) -> Disk:
        self.place.mkdir(mode=0o755)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", str(self.place)]
        self.mounted = subprocess.run(mount, check=False, capture_output=True).returncode == 0
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.place)], check=True, capture_output=True)

    def fill(self) -> None:
        """Leave no room for another byte."""
        with suppress(OSError), (self.place / "ballast").open("ab", buffering=0) as ballast:
            piece = bytes(1 << 20)
            while True:
                ballast.write(piece)

    def free(self) -> None:
        (self.place / "ballast").unlink(missing_ok=True)


def prefer(pid: int) -> None:
    """Give the session of a process more of a processor that is busy with other things, where the system does so."""
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(URGENT), encoding="ascii")


def pause(seconds: float) -> None:
    """Let time pass: a fault lasts, and what follows it takes its time."""
    _never.wait(seconds)


def until(done: Callable[[], object], seconds: float) -> bool:
    """Wait until something is so; False if it takes too long."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        pause(GLANCE)
    return True


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Return what a file of JSON lines holds."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)
