"""``goscheduler worker``: real processes, real signals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm

from goscheduler.cli._board import Board
from goscheduler.cli.worker import give_back_runs
from goscheduler.events import EventCode, JobExecutionEvent, SchedulerEvent
from goscheduler.executors.base import BaseExecutor
from goscheduler.runs.model import Run
from goscheduler.testing import ManualScheduler

pytestmark = pytest.mark.serial

#: Jobs that say when they begin, and end when a line comes in.
SOURCE = """
import asyncio, os
from goscheduler import AsyncIOScheduler, BackgroundScheduler, BlockingScheduler, ThreadPoolExecutor

def wait_for_a_line():
    print("begun")
    os.read(0, 1)
    print("ended")

async def await_a_line():
    print("begun")
    await asyncio.to_thread(os.read, 0, 1)
    print("ended")

def made():
    return with_jobs(BackgroundScheduler())

def with_jobs(scheduler):
    scheduler.add_job(await_a_line if isinstance(scheduler, AsyncIOScheduler) else wait_for_a_line)
    return scheduler

background = with_jobs(BackgroundScheduler())
blocking = with_jobs(BlockingScheduler())
aio = with_jobs(AsyncIOScheduler())

def greet():
    print("hello", flush=True)
    raise RuntimeError("no \\x1b[2J luck")

def stop():
    short.shutdown()

short = BackgroundScheduler()
short.add_job(greet)
short.add_job(stop, "date", run_date=None)

crowded = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1), "mail": ThreadPoolExecutor(1)})
for number in range(3):
    crowded.add_job(wait_for_a_line, name=f"default {number}")
    crowded.add_job(lambda: print("mailed"), executor="mail")
"""


@pytest.fixture
def jobs_module(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(SOURCE, encoding="utf-8")


@pytest.mark.parametrize("kind", ["background", "blocking", "aio", "made"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_running_job_end_and_the_exit_code_is_0(
    process: Callable[..., Any], jobs_module: None, kind: str, number: signal.Signals
) -> None:
    worker = process("worker", f"jobs:{kind}")
    worker.wait_for("begun")
    worker.send(number)
    worker.wait_for("Draining")
    worker.answer()
    worker.wait_for("ended")
    assert worker.end() == 0
    assert "Worker stopped: 1 done, 0 failed, 0 retried, 0 dead" in worker.output


@pytest.mark.parametrize("kind", ["background", "aio"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_stops_at_once(
    process: Callable[..., Any], jobs_module: None, kind: str, number: signal.Signals, code: int
) -> None:
    worker = process("worker", f"jobs:{kind}")
    worker.wait_for("begun")
    worker.send(number)
    worker.wait_for("Draining")
    worker.send_until_it_ends(number)
    assert worker.end() == code
    assert "Stopped at once" in worker.output
    assert "ended" not in worker.output


def test_a_scheduler_that_a_job_shuts_down_ends_its_worker(process: Callable[..., Any], jobs_module: None) -> None:
    worker = process("worker", "--app", "jobs:short")
    assert worker.end() == 0
    assert "hello" in worker.output
    assert "1 failed" in worker.output


def test_log_lines_have_times_and_levels_and_no_control_characters(
    process: Callable[..., Any], jobs_module: None
) -> None:
    worker = process("worker", "jobs:short", POLL_INTERVAL="3000")
    assert worker.wait_for("no \\x1b[2J luck")
    worker.end()
    assert " WARNING goscheduler.worker: The poll interval is 3000 seconds" in worker.output
    assert " ERROR goscheduler.executors.default: " in worker.output
    assert "\x1b" not in worker.output


def test_the_log_level_silences_what_is_below_it(process: Callable[..., Any], jobs_module: None) -> None:
    worker = process("worker", "jobs:short", "--log-level", "error")
    worker.end()
    assert "ERROR" in worker.output
    assert "INFO" not in worker.output


def test_concurrency_from_the_environment_lets_jobs_run_side_by_side(
    process: Callable[..., Any], jobs_module: None
) -> None:
    worker = process("worker", "jobs:crowded", CONCURRENCY="3")
    for _ in range(3):
        worker.wait_for("begun")
    assert "ended" not in worker.output
    worker.send(signal.SIGTERM)
    worker.wait_for("Draining")
    for _ in range(3):
        worker.answer()
    assert worker.end() == 0


def test_an_option_goes_before_the_environment(process: Callable[..., Any], jobs_module: None) -> None:
    worker = process("worker", "jobs:crowded", "--queues", "mail", QUEUES="nix", POLL_INTERVAL="500ms")
    for _ in range(3):
        worker.wait_for("mailed")
    worker.send(signal.SIGTERM)
    assert worker.end() == 0
    assert "begun" not in worker.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nix:scheduler",), "there is no module 'nix'"),
        (("jobs:background", "--concurrency", "0"), "concurrency"),
        (("jobs:background", "--poll-interval", "soon"), "--poll-interval"),
        (("jobs:background", "--queues", "nix"), "there is no executor 'nix'; there are: default"),
        (("jobs:aio", "--concurrency", "2"), "--concurrency needs a pool"),
        (("jobs:background", "--log-level", "loud"), "--log-level must be one of"),
        ((), "which scheduler"),
    ],
)
def test_wrong_usage_is_told_in_a_line_and_is_exit_code_2(
    invoke: Callable[..., Any], module: object, jobs_module: None, arguments: tuple[str, ...], told: str
) -> None:
    try:
        result = invoke("worker", *arguments)
    finally:
        sys.modules.pop("jobs", None)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_a_scheduler_that_cannot_be_started_is_exit_code_1(process: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "down.py").write_text(
        "from goscheduler import BackgroundScheduler, MemoryJobStore\n"
        "class Down(MemoryJobStore):\n    def start(self, scheduler, alias):\n        raise OSError('refused')\n"
        "scheduler = BackgroundScheduler(jobstores={'default': Down()})\n",
        encoding="utf-8",
    )
    worker = process("worker", "down:scheduler")
    assert worker.end() == 1
    assert worker.lines[-1] == "Error: the scheduler failed: OSError: refused\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_on_a_terminal_a_line_of_counters_is_kept_up_to_date(jobs_module: None, tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    worker = warm.start(
        "-m", "goscheduler", "worker", "jobs:background", cwd=tmp_path, stdin=warm.PIPE, stdout=warm.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    os.close(theirs)
    assert worker.stdin is not None
    try:
        seen = _read_until(ours, b"1 running, 0 queued, 0 done")
        assert b"next due" in seen
        worker.send_signal(signal.SIGTERM)
        _read_until(ours, b"Draining")
        worker.stdin.write(b"\n")
        worker.stdin.flush()
        _read_until(ours, b"Worker stopped")
        assert worker.wait() == 0
    finally:
        worker.kill()
        worker.wait()
        worker.stdin.close()
        os.close(ours)


def _read_until(descriptor: int, text: bytes) -> bytes:
    seen = b""
    while text not in seen:
        try:
            seen += os.read(descriptor, 4096)
        except OSError as error:  # the other side is closed
            raise AssertionError(f"{text!r} was not shown:\n{seen!r}") from error
    return seen


class Hoarder(BaseExecutor):
    """Takes runs and never ends them."""

    def submit(self, run: Run) -> None:
        return


def test_runs_are_given_back_to_the_store() -> None:
    with ManualScheduler(executors={"default": Hoarder()}) as scheduler:
        scheduler.add_job(print, "interval", hours=1)
        scheduler.advance("1h")
        store = scheduler.engine.stores["default"]
        assert len(store.live_runs()) == 1
        give_back_runs(scheduler)
        assert store.live_runs() == []


def test_the_board_counts_what_it_hears_of() -> None:
    with ManualScheduler() as scheduler:
        board = Board(scheduler)
        for code in (EventCode.JOB_EXECUTED, EventCode.JOB_EXECUTED, EventCode.JOB_ERROR, EventCode.JOB_DEAD_LETTERED):
            board.count(JobExecutionEvent(code, "job", "default", scheduler.clock.now()))
        assert board.total() == "2 done, 1 failed, 0 retried, 1 dead"


def test_the_board_tells_when_something_is_due() -> None:
    with ManualScheduler() as scheduler:
        board = Board(scheduler)
        scheduler.run_due()
        assert board.line().endswith("next due never")
        scheduler.add_job(print, "interval", hours=1)
        scheduler.run_due()
        assert ":" in board.line().rpartition("next due ")[2]


def test_the_board_hears_only_of_what_it_counts() -> None:
    with ManualScheduler() as scheduler:
        board = Board(scheduler)
        scheduler.pause()
        scheduler.resume()
        assert board.total() == "0 done, 0 failed, 0 retried, 0 dead"
        with pytest.raises(KeyError):
            board.count(SchedulerEvent(EventCode.SCHEDULER_PAUSED))
