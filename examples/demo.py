"""Ten seconds of a scheduler at work: several triggers, a failure, a pause, and a table of what happened.

``python examples/demo.py [seconds]``. Colours appear on a terminal only.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from goscheduler import BackgroundScheduler, CronTrigger, DateTrigger, OrTrigger
from goscheduler.events import (
    EVENT_JOB_ADDED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MODIFIED,
    EVENT_JOB_REMOVED,
    JobEvent,
    JobExecutionEvent,
)

COLOURS = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
ON_A_TERMINAL = sys.stdout.isatty() and "NO_COLOR" not in os.environ


class Screen:
    """Prints what happens, with the time since the start, and counts it."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self.counts: Counter[tuple[str, int]] = Counter()

    def hear(self, event: JobEvent) -> None:
        """Print one line for an event of the scheduler."""
        self.counts[event.job_id, event.code] += 1
        if isinstance(event, JobExecutionEvent) and event.exception is not None:
            self.say("red", event.job_id, f"failed: {event.exception}")
        elif isinstance(event, JobExecutionEvent):
            self.say("green", event.job_id, str(event.retval))
        elif event.code == EVENT_JOB_REMOVED:
            self.say("dim", event.job_id, "has no more fire times")

    def say(self, colour: str, who: str, text: str) -> None:
        print(f"{time.monotonic() - self._begin:5.1f} s  {paint(colour, f'{who:<12}')}  {text}", flush=True)


def heartbeat() -> str:
    return "beats"


def on_the_even_second() -> str:
    return f"the wall clock shows {datetime.now(timezone.utc):%H:%M:%S.%f}"


def alarm() -> str:
    return "rings"


def flaky(attempts: list[int]) -> str:
    attempts.append(1)
    if len(attempts) % 2 == 0:
        raise ConnectionError("the server did not answer")
    return "the server answered"


def main(seconds: float) -> None:
    logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # failures are shown by the listener
    beat = seconds / 10
    screen = Screen()
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_listener(
        screen.hear, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_ADDED | EVENT_JOB_MODIFIED | EVENT_JOB_REMOVED
    )
    explained = add_jobs(scheduler, beat)
    print(paint("bold", "\n  A BackgroundScheduler with these jobs:\n"))
    for job_id, text in explained.items():
        print(f"  {paint('cyan', f'{job_id:<12}')}  {text}")
    print()
    scheduler.start()
    play(scheduler, screen, beat)
    remaining = {job.id: f"{job.next_run_time:%H:%M:%S.%f}"[:-4] for job in scheduler.get_jobs()}
    scheduler.shutdown()
    print_summary(screen.counts, list(explained), remaining)


def add_jobs(scheduler: BackgroundScheduler, beat: float) -> dict[str, str]:
    """Add the jobs; return the schedule of each in plain English."""
    now = datetime.now(timezone.utc)
    twice = OrTrigger([DateTrigger(now + timedelta(seconds=turn * beat)) for turn in (1.5, 8.5)])
    jobs = [
        scheduler.add_job(heartbeat, "interval", seconds=beat, id="heartbeat"),
        scheduler.add_job(on_the_even_second, CronTrigger(second="*/2", timezone="UTC"), id="even-second"),
        scheduler.add_job(flaky, "interval", seconds=2.4 * beat, args=[[]], id="flaky"),
        scheduler.add_job(alarm, "date", run_date=now + timedelta(seconds=3 * beat), id="alarm"),
        scheduler.add_job(alarm, twice, id="two-alarms"),
    ]
    return {job.id: job.trigger.explain() for job in jobs}


def play(scheduler: BackgroundScheduler, screen: Screen, beat: float) -> None:
    """Let the scheduler run; pause and resume one of the jobs on the way."""
    steps: list[tuple[float, Callable[[], object] | None, str]] = [
        (4.2, lambda: scheduler.pause_job("heartbeat"), "heartbeat is paused"),
        (2.6, lambda: scheduler.resume_job("heartbeat"), "heartbeat is resumed"),
        (3.3, None, "that is all"),
    ]
    for beats, act, text in steps:
        threading.Event().wait(beats * beat)
        if act is not None:
            act()
        screen.say("yellow", "you", text)


def print_summary(counts: Counter[tuple[str, int]], job_ids: list[str], remaining: dict[str, str]) -> None:
    """Print how often each job ran and failed, and when it would run next."""
    print(paint("bold", f"\n  {'job':<12} | {'ran':>4} | {'failed':>6} | next run (UTC)"))
    print(f"  {'-' * 12}-|-{'-' * 4}-|-{'-' * 6}-|-{'-' * 14}")
    for job_id in job_ids:
        failed = counts[job_id, EVENT_JOB_ERROR]
        ran = counts[job_id, EVENT_JOB_EXECUTED] + failed
        tally = paint("red" if failed else "dim", f"{failed:>6}")
        print(f"  {job_id:<12} | {ran:>4} | {tally} | {remaining.get(job_id, 'finished')}")
    print()


def paint(colour: str, text: str) -> str:
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if ON_A_TERMINAL else text


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
