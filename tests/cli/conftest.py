"""A module with schedulers in it, as a user has one, and ways to run commands on it."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import warm
from typer.testing import CliRunner

from goscheduler.cli.app import app

ROOT = Path(__file__).resolve().parent.parent.parent

#: A store that behaves, within one process, like a database: it outlives schedulers and is shared by them.
KEPT = """
from goscheduler.jobstores._local.reading import LocalNotes
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.testing import ManualScheduler

class Kept(MemoryJobStore):
    keeps_objects = False
    shared = True

    @property
    def _notes(self):
        return self.__dict__.setdefault("_kept_notes", LocalNotes())

    def shutdown(self):
        pass
"""

_numbers = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Write a module into the current directory, and return its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    for name in ("GOSCHEDULER_APP", "GOSCHEDULER_STORE"):
        monkeypatch.delenv(name, raising=False)
    written: list[str] = []

    def write(source: str) -> str:
        written.append(f"cli_app_{next(_numbers)}")
        (tmp_path / f"{written[-1]}.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        return written[-1]

    yield write
    for name in written:
        sys.modules.pop(name, None)


@pytest.fixture
def invoke() -> Callable[..., Any]:
    """Run a command in this process; the result has ``exit_code``, ``stdout`` and ``stderr``."""

    def run(*arguments: str, **environment: str) -> Any:
        return CliRunner().invoke(app, list(arguments), env=environment, catch_exceptions=False)

    return run


class Process:
    """A command in a process of its own, whose lines are waited for."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._process = warm.start(
            "-u", "-m", "goscheduler", *arguments, cwd=folder, stdin=warm.PIPE, stdout=warm.PIPE, stderr=warm.STDOUT,
            text=True, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )  # fmt: skip
        self.lines: list[str] = []

    def wait_for(self, text: str) -> str:
        """Return the next line that has ``text`` in it."""
        for line in self._stream("stdout"):
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not printed:\n{''.join(self.lines)}")

    def answer(self) -> None:
        """Let a job go on that reads a line from stdin."""
        self._stream("stdin").write("\n")
        self._stream("stdin").flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def send_until_it_ends(self, number: signal.Signals) -> None:
        """Send a signal again and again: one that follows the first at once is taken for its echo."""
        while self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(0.3)
            except subprocess.TimeoutExpired:
                continue

    def end(self) -> int:
        """Return the exit code, having read everything."""
        self.lines += self._stream("stdout").readlines()
        return self._process.wait()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for name in ("stdin", "stdout"):
            self._stream(name).close()

    def _stream(self, name: str) -> IO[str]:
        stream: IO[str] = getattr(self._process, name)
        return stream


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start a command in a process of its own."""
    started: list[Process] = []

    def start(*arguments: str, **environment: str) -> Process:
        started.append(Process(tmp_path, *arguments, **environment))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[None]:
    """Let modules import the store that outlives schedulers."""
    (tmp_path / "cli_kept.py").write_text(KEPT, encoding="utf-8")
    yield
    sys.modules.pop("cli_kept", None)


def work(number: int) -> None:
    """Do nothing."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a store with six jobs: four that are billing, two that are reports."""
    from goscheduler import BackgroundScheduler

    found = f"sqlite:///{tmp_path}/jobs.db"
    scheduler = BackgroundScheduler(jobstores={"default": found})
    scheduler.start(paused=True)
    for number in range(6):
        scheduler.add_job(
            work, "interval", hours=1 + number, id=f"job-{number}", tags=["billing" if number < 4 else "reports"],
            args=[number],
        )  # fmt: skip
    scheduler.shutdown()
    return found
