"""A Dask scheduler and its workers, each a process of its own that a test may kill."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import Any

PATIENCE = 60


class DaskCluster:
    """One scheduler on a port that stays, and workers with one thread each."""

    def __init__(self, folder: Path, path: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._environment = {**os.environ, "PYTHONPATH": str(path), "PYTHONWARNINGS": "ignore"}
        self._folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        self.scheduler = self._start("dask_scheduler", "--port", str(self.port), "--host", "127.0.0.1", "--no-show")
        return self.scheduler

    def add_worker(self, *options: str, nanny: bool = False) -> subprocess.Popen[bytes]:
        """Start a worker; a nanny starts it again when it ends."""
        where = ("--nthreads", "1", "--local-directory", str(self._folder), "--nanny" if nanny else "--no-nanny")
        worker = self._start("dask_worker", self.address, *where, *options)
        self.workers.append(worker)
        return worker

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--no-dashboard"]
        log = open(self._folder / f"{module}.log", "ab")  # noqa: SIM115 - the process has it
        with log:
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, cwd=self._folder)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait(PATIENCE)

    def close(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.terminate()  # a nanny takes its worker along
        for process in [*self.workers, self.scheduler]:
            process.wait(PATIENCE)


def wait_until(condition: Any, what: str, seconds: float = PATIENCE) -> None:
    """Wait until ``condition()`` is true; it is asked often."""
    end, pause = monotonic() + seconds, threading.Event()
    while not condition():
        assert monotonic() < end, what
        pause.wait(0.02)
