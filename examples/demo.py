"""Kill a scheduler on a SQLite file in the middle of a job; a second one goes on; the history shows both.

``python examples/demo.py [seconds]``. Needs the extra ``sqlalchemy``. Colours appear on a terminal only.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from goscheduler import BackgroundScheduler, current_run
from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_LEASE_LOST, JobExecutionEvent
from goscheduler.runs.records import Record

COLOURS = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
ON_A_TERMINAL = sys.stdout.isatty() and "NO_COLOR" not in os.environ
#: Other schedulers take over the runs of a scheduler that has not renewed its lease for this many seconds.
LEASE = 2.0
report_seconds = 0.0


def heartbeat() -> str:
    return "beats"


def flaky() -> str:
    if current_run().attempt < 3:
        raise ConnectionError("the server did not answer")
    return f"the server answered at attempt {current_run().attempt}"


def long_report() -> str:
    tell("yellow", "long-report", f"begins, attempt {current_run().attempt}")
    threading.Event().wait(report_seconds)
    return "is written"


def tell(colour: str, who: str, text: str) -> None:
    print(f"  process {os.getpid():<7} {paint(colour, f'{who:<12}')}  {text}", flush=True)


def hear(event: JobExecutionEvent) -> None:
    """Print one line for an event of the scheduler."""
    if event.code == EVENT_LEASE_LOST:
        tell("yellow", event.job_id, "belonged to a process that is gone; it is run again")
    elif event.exception is not None:
        tell("red", event.job_id, f"failed: {event.exception}")
    else:
        tell("green", event.job_id, str(event.retval))


def work(url: str, seconds: float) -> None:
    """Run one process of a cluster until its standard input ends; the long report takes ``seconds``."""
    global report_seconds
    report_seconds = seconds
    logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # failures are shown by the listener
    scheduler = BackgroundScheduler(jobstores={"default": url}, lease=LEASE, timezone="UTC")
    scheduler.add_listener(hear, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_LEASE_LOST)
    scheduler.start()
    sys.stdin.read()
    scheduler.shutdown()


def add_jobs(url: str, beat: float) -> None:
    """Add the jobs from a process that runs none of them."""
    soon = datetime.now(timezone.utc) + timedelta(seconds=beat)
    with_nothing_fired = BackgroundScheduler(jobstores={"default": url}, timezone="UTC")
    with_nothing_fired.start(paused=True)
    jobs = [
        with_nothing_fired.add_job("__main__:heartbeat", "interval", seconds=beat, id="heartbeat"),
        with_nothing_fired.add_job("__main__:flaky", "date", run_date=soon, id="flaky", retry=3),
        with_nothing_fired.add_job("__main__:long_report", "date", run_date=soon, id="long-report"),
    ]
    print(paint("bold", f"\n  Jobs in {url}\n"))
    for job in jobs:
        print(f"  {paint('cyan', f'{job.id:<12}')}  {job.trigger.explain()}")
    print()
    with_nothing_fired.shutdown()


def start_process(url: str, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(Path(__file__).resolve()), "--work", url, str(seconds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def main(seconds: float) -> None:
    beat = seconds / 10
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/demo.db"
        add_jobs(url, beat)
        first = start_process(url, 3600.0)  # it is killed before that
        wait_until(url, lambda onlooker: onlooker.live_runs("long-report") and onlooker.runs("heartbeat"))
        print(paint("bold", "\n  kill -9, in the middle of the long report\n"), flush=True)
        first.kill()
        first.wait()
        second = start_process(url, 2 * beat)
        wait_until(url, lambda onlooker: all_done(onlooker) and len(onlooker.runs("heartbeat")) > 4)
        second.communicate(b"")
        print_history(url)
    print("  make look    opens pages on a store full of life: http://127.0.0.1:8180/\n")


def wait_until(url: str, happened: Callable[[BackgroundScheduler], object]) -> None:
    """Wait until the store shows the expected state."""
    onlooker = BackgroundScheduler(jobstores={"default": url}, timezone="UTC")
    onlooker.start(paused=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not happened(onlooker):
        threading.Event().wait(0.05)
    onlooker.shutdown()


def all_done(onlooker: BackgroundScheduler) -> bool:
    return all(onlooker.runs(job_id, outcome="succeeded") for job_id in ("flaky", "long-report"))


def print_history(url: str) -> None:
    """Print the history of the store."""
    onlooker = BackgroundScheduler(jobstores={"default": url}, timezone="UTC")
    onlooker.start(paused=True)
    print(paint("bold", f"\n  The history:\n\n  {'job':<12} | {'fire time (UTC)':<15} | {'attempt':>7} | outcome"))
    print(f"  {'-' * 12}-|-{'-' * 15}-|-{'-' * 7}-|-{'-' * 20}")
    for record in sorted(onlooker.runs(limit=1000), key=_order):
        colour = "green" if record.outcome.value == "succeeded" else "red"
        outcome = paint(colour, record.outcome.value) + (f": {record.error_message}" if record.error_message else "")
        print(f"  {record.job_id:<12} | {record.scheduled_at:%H:%M:%S.%f} | {record.attempt:>7} | {outcome}")
    print()
    onlooker.shutdown()


def _order(record: Record) -> tuple[str, datetime, datetime]:
    return record.job_id, record.scheduled_at, record.finished_at


def paint(colour: str, text: str) -> str:
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if ON_A_TERMINAL else text


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], float(sys.argv[3]))
    else:
        main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
