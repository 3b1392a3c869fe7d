"""A listener that tells success from failure by event.exception, as the user guide shows."""

from __future__ import annotations

import threading

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler


def works():
    return 42


def crashes():
    raise RuntimeError("no luck")


def main(show):
    results, finished = {}, threading.Semaphore(0)

    def my_listener(event):
        if event.exception:
            frames = event.traceback.strip().splitlines()
            results[event.job_id] = ("crashed", repr(event.exception), frames[-1].strip(), event.retval)
        else:
            results[event.job_id] = ("worked", event.retval, event.traceback)
        finished.release()

    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_listener(my_listener, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    scheduler.start()
    scheduler.add_job(works, id="good", misfire_grace_time=60)
    scheduler.add_job(crashes, id="bad", misfire_grace_time=60)
    assert finished.acquire(timeout=60)
    assert finished.acquire(timeout=60)
    scheduler.shutdown()
    show(sorted(results.items()))
    show(scheduler.get_jobs())
