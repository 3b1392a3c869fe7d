"""A process that does something to jobs by way of the operations: ``acting_process.py URL NAME COUNT [die]``.

With ``die`` it is killed in the middle of its last act, when the store has been changed and nobody has been told.
"""

from __future__ import annotations

import os
import signal
import sys

from goscheduler.observer import Observer
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source


def main(url: str, name: str, count: str, *how: str) -> None:
    with Observer(url) as observer:
        operations, principal = Operations(Source(observer)), Principal(name, Role.ADMIN)
        for number in range(int(count)):
            if how and number == int(count) - 1:
                pause_and_die(observer)
            act = "pause_jobs" if number % 2 == 0 else "resume_jobs"
            operations.call(act, principal, {"ids": [f"job-of-{name}"], "reason": f"act {number}"}, via="cli")


def pause_and_die(observer: Observer) -> None:
    pause = observer.pause_job

    def killed(*args: object, **options: object) -> None:
        pause(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    observer.pause_job = killed


if __name__ == "__main__":
    main(*sys.argv[1:])
