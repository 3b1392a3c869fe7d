"""What the jobs of a cluster do: they write a line into the pipe that the test reads."""

from __future__ import annotations

import fcntl
import os
import signal
import threading

from goscheduler import RunCancelled, current_run
from goscheduler.clock import SYSTEM_CLOCK

_pipe = -1


def write_to(descriptor: int) -> None:
    """Write the lines of this process there."""
    global _pipe
    _pipe = descriptor


def say(*words: object) -> None:
    """Write one line; lines of several processes do not mix, because they are short."""
    os.write(_pipe, (" ".join(map(str, words)) + "\n").encode())


def work() -> None:
    """Tell that this firing was run, and by whom."""
    run = current_run()
    say("ran", run.job_id, run.fire_id, run.attempt, os.getpid())


def tick() -> None:
    """Tell by whom this was run, and when by the clock that all processes share."""
    say("tick", current_run().job_id, os.getpid(), SYSTEM_CLOCK.monotonic())


def die() -> None:
    """Take the whole process along."""
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for(path: str) -> None:
    """Tell of the start, and go on when nobody has the file locked any more."""
    run = current_run()
    say("began", run.job_id, os.getpid())
    with open(path, encoding="ascii") as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    say("ended", run.job_id, os.getpid())


def until_cancelled() -> None:
    """Go on until somebody cancels this run."""
    run = current_run()
    say("began", run.job_id, os.getpid())
    never = threading.Event()
    try:
        while True:
            run.check()
            never.wait(0.02)
    except RunCancelled as end:
        say("cancelled", run.job_id, end.reason.replace(" ", "_"))
        raise
