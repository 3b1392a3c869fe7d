"""A cluster for tests: processes on one store, and the pipe in which they tell what happens."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import warm
from server_process import is_stopped

from goscheduler import BackgroundScheduler
from goscheduler.clock import SYSTEM_CLOCK

#: The stores whose servers are quick, and those that write every step to a log on several machines.
QUICK = ["sqlite", "postgresql", "mariadb", "redis", "mongodb"]
SLOW = ["etcd", "zookeeper"]
STORES = [*QUICK, *SLOW]
SERVERS = [kind for kind in STORES if kind != "sqlite"]
HERE = Path(__file__).parent
#: For how many seconds nothing may be told before a test fails.
PATIENCE = 60
#: How often that long may pass until what a test waits for: processes on a busy machine are slow, and do not hang.
MOST_TIMES = 3


class Node:
    """One process."""

    def __init__(self, process: warm.Process) -> None:
        self.process = process
        self.pid = process.pid

    def stop(self) -> None:
        """Let it end in an orderly way."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        deadline = SYSTEM_CLOCK.monotonic() + PATIENCE
        while not is_stopped(self.pid):
            assert SYSTEM_CLOCK.monotonic() < deadline, "it goes on"
            os.sched_yield()

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Cluster:
    """Processes on the store of a URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.nodes: list[Node] = []
        self.lines: list[list[str]] = []
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._rest = b""

    def start(self, *options: str) -> Node:
        """Start one process."""
        return self.start_program("cluster_node.py", *options)

    def start_program(self, name: str, *options: str) -> Node:
        """Start a program of this folder that takes the URL and the pipe."""
        return self.launch(HERE / name, self.url, "--pipe", str(self._writing), *options)

    def launch(self, *command: str | Path) -> Node:
        """Start a program that has the writing end of the pipe."""
        process = warm.start(*command, stdin=warm.PIPE, pass_fds=[self._writing], cwd=HERE)
        self.nodes.append(Node(process))
        return self.nodes[-1]

    def wait_for(self, done: Callable[[list[list[str]]], bool], seconds: float = PATIENCE) -> list[list[str]]:
        """Read what the processes tell until ``done`` says that it is enough."""
        began = told = SYSTEM_CLOCK.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self._reading, selectors.EVENT_READ)
            while not done(self.lines):
                left = min(told + seconds, began + MOST_TIMES * seconds) - SYSTEM_CLOCK.monotonic()
                assert left > 0, f"waited {seconds} seconds in vain; {len(self.lines)} lines, last {self.lines[-5:]}"
                if selector.select(left):
                    self._read()
                    told = SYSTEM_CLOCK.monotonic()
        return self.lines

    def said(self, word: str) -> list[list[str]]:
        """Return what has been told so far under a first word."""
        self._read()
        return [line for line in self.lines if line[0] == word]

    def wait_until(self, word: str, count: int, seconds: float = PATIENCE) -> list[list[str]]:
        """Wait until a word has been told so often."""
        self.wait_for(lambda lines: sum(line[0] == word for line in lines) >= count, seconds)
        return self.said(word)

    def add_jobs(self, jobs: Iterable[dict[str, Any]]) -> None:
        """Add jobs from a process that fires nothing."""
        with self.scheduler() as scheduler:
            scheduler.add_jobs(list(jobs))

    def scheduler(self, **options: Any) -> Onlooker:
        """Return a scheduler on the store that fires nothing, for a ``with`` statement."""
        return Onlooker({"jobstores": {"default": self.url}, "timezone": "UTC", **options})

    def close(self) -> None:
        for node in self.nodes:
            if node.process.poll() is None:
                node.thaw()
                node.kill()
            if node.process.stdin is not None:
                node.process.stdin.close()
        os.close(self._reading)
        os.close(self._writing)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._reading, 65536):
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                self.lines += [line.decode().split(" ") for line in lines]
        except BlockingIOError:
            return


class Onlooker:
    """A paused scheduler."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __enter__(self) -> BackgroundScheduler:
        self._scheduler = BackgroundScheduler(**self._options)
        self._scheduler.start(paused=True)
        return self._scheduler

    def __exit__(self, *exc_info: object) -> None:
        self._scheduler.shutdown()
