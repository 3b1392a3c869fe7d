"""A script whose last line is scheduler.start(); a job shuts it down from another thread."""

from __future__ import annotations

import threading

from apscheduler.schedulers import SchedulerAlreadyRunningError, SchedulerNotRunningError
from apscheduler.schedulers.blocking import BlockingScheduler


def main(show):
    calls = []
    scheduler = BlockingScheduler(timezone="UTC")
    enough = threading.Event()

    def tick():
        calls.append("tick")
        if len(calls) == 2:
            enough.set()

    def stop_later():
        enough.wait(60)
        try:
            scheduler.start()
        except SchedulerAlreadyRunningError as error:
            calls.append(str(error))
        scheduler.shutdown()

    scheduler.add_job(tick, "interval", seconds=0.05, misfire_grace_time=60)
    stopper = threading.Thread(target=stop_later)
    stopper.start()
    scheduler.start()
    stopper.join()
    show(calls[:2], calls[-1], scheduler.running)
    try:
        scheduler.shutdown()
    except SchedulerNotRunningError as error:
        show(str(error))
