"""A module for ``goscheduler worker worker:scheduler``. Run as a program, it starts such a worker and stops it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

from goscheduler import BlockingScheduler

scheduler = BlockingScheduler()
beats = itertools.count(1)


@scheduler.scheduled_job("interval", seconds=0.2, id="heartbeat")
def heartbeat() -> None:
    number = next(beats)
    print(f"beat {number}", flush=True)
    if number == 3:
        os.kill(os.getpid(), signal.SIGTERM)  # somebody stops the container
        print("this job comes to its end all the same", flush=True)


def main() -> None:
    command = [sys.executable, "-m", "goscheduler", "worker", "worker:scheduler", "--log-level", "error"]
    done = subprocess.run(command, cwd=Path(__file__).parent, check=False)
    print(f"the worker has ended with exit code {done.returncode}")


if __name__ == "__main__":
    main()
