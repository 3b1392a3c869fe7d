"""A server that tests start for themselves: on a port of its own, with its files in a folder of its own.

A kind of server is a subclass that says which programs it needs, how it is started, and when it is ready.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import psutil
from server_locks import Hold

HOST = "127.0.0.1"
USER = "goscheduler"
PASSWORD = "not-secret"
READY_WITHIN = 120.0
GONE_WITHIN = 60.0
#: How long a server that serves may take for one call: only one that hangs takes longer, whatever the machine does.
ANSWER_WITHIN = 60
#: How long one question whether it serves already may take.
GLIMPSE = 5
#: How long one question for readiness waits before the next; the end of the process is noticed at once.
GLANCE = 0.02

_KEEPER = Path(__file__).with_name("keeper.py")
#: Below the range from which systems give ports to outgoing connections: a server that is down keeps its port.
_PORTS = range(15_000, 30_000)
_PROGRAM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")


@dataclass(frozen=True)
class Space:
    """An empty place on a server for one test."""

    #: Where it is. For SQL, MongoDB and Redis the URL names a database that nobody else uses.
    url: str
    #: A name that nobody else uses: the prefix of keys on etcd and ZooKeeper, of queues and streams on brokers.
    name: str


class Server:
    """One server of one kind: start it, stop it, kill it, freeze it, and start it again with the same data."""

    kind: ClassVar[str]
    #: Programs and Python packages without which it cannot be used.
    programs: ClassVar[Sequence[str]] = ()
    drivers: ClassVar[Sequence[str]] = ()
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, folder: Path, *options: str, durable: bool = False) -> None:
        """Describe a server in ``folder``; ``options`` are added to its command line.

        Without ``durable`` it does not wait for the disk: what it has confirmed survives its death, not the machine's.
        """
        self.folder = folder
        self.options = options
        self.durable = durable
        self.port = free_port()
        self._shared = False
        self._keeper: subprocess.Popen[str] | None = None
        self._hold: Hold | None = None
        self._pid: int | None = None

    @classmethod
    def missing(cls) -> str | None:
        """Return what this machine lacks to run it, or None."""
        programs = [program for program in cls.programs if cls.find_program(program) is None]
        drivers = [driver for driver in cls.drivers if find_spec(driver) is None]
        if sys.platform == "win32":
            programs.append("a POSIX system")
        return ", ".join(programs + drivers) or None

    @classmethod
    def find_program(cls, name: str) -> str | None:
        return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *_PROGRAM_FOLDERS]))

    @classmethod
    def program(cls, name: str) -> str:
        found = cls.find_program(name)
        assert found is not None, f"{name} is not installed; make servers"
        return found

    @property
    def url(self) -> str:
        """What a job store takes to connect."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._pid is not None, f"{self.kind} is not running"
        return self._pid

    def start(self) -> None:
        """Return when it serves."""
        assert not self.running, f"{self.kind} is running already"
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            self.prepare()
        self.hold()
        self._launch()
        try:
            self.until(self.ping)
            self.settle()
        except BaseException:
            self._end_what_is_left()
            raise

    def stop(self) -> None:
        """End it in an orderly way."""
        self._signal(signal.SIGCONT)
        psutil.Process(self.pid).send_signal(self.stop_signal)
        self._await_end()

    def kill(self) -> None:
        """End it as a power cut would: at once, with all its processes, cleaning up nothing."""
        self._signal(signal.SIGSTOP)
        self._signal(signal.SIGKILL)
        self._await_end()

    def freeze(self) -> None:
        """Stop its time: connections stay open and nothing is answered, until ``thaw``."""
        self._signal(signal.SIGSTOP)
        self.until(self._require_stopped)  # a thread on another processor goes on for some milliseconds

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start it again with the same data on the same port; stop it first when it runs."""
        self._refuse_if_shared()
        if self.running:
            self.stop()
        self.start()

    def close(self) -> None:
        """End it and remove its files."""
        self._end_what_is_left()
        self.forget()
        self.let_go()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.lock.unlink(missing_ok=True)

    def hold(self) -> None:
        """Keep it alive, once it is started, until ``let_go`` or the end of this process."""
        self._hold = self._hold or Hold(self.lock)

    def let_go(self) -> None:
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def share(self) -> str:
        """Return what another process gives to ``attach``; from now on the server cannot be stopped by anybody."""
        self._shared = True
        return json.dumps({"port": self.port, "pid": self.pid})

    def attach(self, note: str) -> None:
        """Use a server that another process has started in the same folder."""
        told = json.loads(note)
        self.port, self._pid, self._shared = told["port"], told["pid"], True

    def detach(self) -> None:
        """Forget a server that has ended; its keeper ends by itself."""
        self._keeper, self._pid, self._shared = None, None, False

    @property
    def has_ended(self) -> bool:
        """Whether its process, which this or another process has started, is gone."""
        return self._pid is None or not psutil.pid_exists(self._pid)

    @property
    def running(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    @property
    def lock(self) -> Path:
        """The file that everybody holds who uses this server."""
        return self.folder.with_suffix(".users")

    @contextmanager
    def fresh(self) -> Iterator[Space]:
        """Lend an empty place on this server; afterwards it is removed, from a private server with all the rest."""
        name = f"t{uuid.uuid4().hex[:12]}"
        yield Space(self.make_space(name), name)
        if self._shared:
            self.drop_space(name)

    # What a kind of server says of itself.

    def prepare(self) -> None:
        """Make what the first start needs in the new folder."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def run_as(self) -> str:
        """Return the user to run as, or nothing for the current one."""
        return ""

    def ping(self) -> None:
        """Raise unless it serves."""
        raise NotImplementedError

    def settle(self) -> None:
        """Do what remains when it answers."""

    def forget(self) -> None:
        """Free what it may have left outside of its folder."""

    def make_space(self, name: str) -> str:
        raise NotImplementedError

    def drop_space(self, name: str) -> None:
        raise NotImplementedError

    def until(self, attempt: Callable[[], object]) -> None:
        """Try until ``attempt`` does not raise; give up when the process ends or the time is over."""
        assert self._keeper is not None
        deadline = time.monotonic() + READY_WITHIN
        while True:
            try:
                attempt()
                return
            except Exception as error:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.kind} was not ready within {READY_WITHIN} s\n{self.log()}") from error
            try:
                self._keeper.wait(GLANCE)
                raise ChildProcessError(f"{self.kind} ended while it started\n{self.log()}")
            except subprocess.TimeoutExpired:
                continue

    def log(self) -> str:
        """Return the end of what the server wrote."""
        file = self.folder / "log"
        return file.read_text(errors="replace")[-2000:] if file.exists() else ""

    def _launch(self) -> None:
        arguments = [str(self.lock), str(self.folder), str(int(self.stop_signal)), self.run_as(), *self.command()]
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt from the keyboard is for the tests
        )
        assert self._keeper.stdout is not None
        with self._keeper.stdout as told:
            self._pid = int(told.readline())

    def _end_what_is_left(self) -> None:
        if self.running:
            with suppress(psutil.NoSuchProcess):  # it has just ended by itself, and its keeper is about to
                return self.kill()
            self._await_end()
        return None

    def _refuse_if_shared(self) -> None:
        assert not self._shared, f"other tests use this {self.kind} too; ask for a private_server"

    def _signal(self, number: signal.Signals) -> None:
        self._refuse_if_shared()
        server = psutil.Process(self.pid)
        if number == signal.SIGSTOP:
            server.suspend()  # first, so that it starts no other process after we have looked
        for process in (server, *server.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _require_stopped(self) -> None:
        server = psutil.Process(self.pid)
        for process in (server, *server.children(recursive=True)):
            if not is_stopped(process.pid):
                raise RuntimeError("still running")

    def _await_end(self) -> None:
        assert self._keeper is not None
        self._keeper.wait(GONE_WITHIN)
        self._keeper = self._pid = None


def is_stopped(pid: int) -> bool:
    """Tell whether all threads of a process stand still: one on another processor goes on for a while when told to."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    states = [thread.read_text().rpartition(")")[2].split()[0] for thread in threads]
    return all(state in "TtZX" for state in states or [psutil.Process(pid).status()[0].upper()])


def free_port() -> int:
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) != 0:
                return port
