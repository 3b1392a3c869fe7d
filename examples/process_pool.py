"""Run heavy work in separate processes, so that it neither blocks threads nor crashes the scheduler.

The children import this file anew: what starts the scheduler must stand below ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import logging
import os
import threading

from goscheduler import BackgroundScheduler
from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from goscheduler.executors.pool import ProcessPoolExecutor


def sum_of_squares(limit: int) -> tuple[int, int]:
    return os.getpid(), sum(number * number for number in range(limit))


def crash() -> None:
    os._exit(3)  # as a segmentation fault would: the child is gone


def main() -> None:
    logging.getLogger("goscheduler").setLevel(logging.CRITICAL)
    heard: list[JobExecutionEvent] = []
    finished = threading.Semaphore(0)

    def listener(event: JobExecutionEvent) -> None:
        heard.append(event)
        finished.release()

    scheduler = BackgroundScheduler(executors={"default": ProcessPoolExecutor(max_workers=1)})
    scheduler.add_listener(listener, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    scheduler.start()
    for function, arguments in ((sum_of_squares, [1000]), (crash, []), (sum_of_squares, [10])):
        scheduler.add_job(function, args=arguments)
        finished.acquire(timeout=60)
    scheduler.shutdown()

    first, crashed, last = heard
    pid, total = first.retval
    print(f"Sum: {total}, computed in another process: {pid != os.getpid()}")
    print(f"The crash is an error of that run alone: {crashed.exception is not None}")
    print(f"The pool goes on: {last.retval[1]}")


if __name__ == "__main__":
    main()
