"""Schedulers that are counted, and real workers whose lines and metrics are read."""

from __future__ import annotations

import os
import signal
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import warm
from prometheus_client.parser import text_string_to_metric_families

from goscheduler import BackgroundScheduler

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))


class Worker:
    """``goscheduler worker`` in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process = warm.start(
            "-u", "-m", "goscheduler", "worker", *arguments, cwd=folder, stdin=warm.PIPE, stdout=warm.PIPE,
            stderr=warm.STDOUT, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.lines: list[str] = []

    def wait_for(self, text: str) -> str:
        """Return the next line that has ``text`` in it."""
        for line in self._output:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not printed:\n{''.join(self.lines)}")

    def stop(self) -> int:
        """Return the exit code, having read everything."""
        self._process.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> int:
        self.lines += self._output.readlines()
        return self._process.wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
        if self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def _output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Start a worker on a module that is written into its folder."""
    started: list[Worker] = []

    def start(source: str, *arguments: str) -> Worker:
        (tmp_path / "jobs.py").write_text(source, encoding="utf-8")
        started.append(Worker(tmp_path, "jobs:scheduler", *arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def running() -> Iterator[Callable[..., BackgroundScheduler]]:
    """Make schedulers, and shut them down in the end."""
    made: list[BackgroundScheduler] = []

    def make(**options: Any) -> BackgroundScheduler:
        made.append(BackgroundScheduler(timezone="UTC", **options))
        return made[-1]

    yield make
    for scheduler in made:
        if scheduler.running:
            scheduler.shutdown()


def read(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return the samples of a text by name and labels, as the parser of Prometheus reads them."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.get(sample.name, {}), f"{sample.name} {labels} twice"
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


@pytest.fixture
def samples() -> Callable[[str], Any]:
    return read


@pytest.fixture
def scrape() -> Callable[[str], str]:
    """Read a page as Prometheus does."""

    def get(url: str) -> str:
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return str(answer.read().decode())

    return get
