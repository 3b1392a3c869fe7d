"""Everything that a listener hears in the life of a scheduler."""

from __future__ import annotations

import threading
from collections import Counter

from apscheduler.events import EVENT_ALL, EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler


def noop():
    return "done"


def main(show):
    heard, executed = [], threading.Event()

    def listener(event):
        job_id, jobstore = getattr(event, "job_id", None), getattr(event, "jobstore", None)
        heard.append((type(event).__name__, int(event.code), job_id, jobstore))
        if event.code == EVENT_JOB_EXECUTED:
            executed.set()

    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_listener(listener, EVENT_ALL)
    scheduler.add_job(noop, "interval", hours=1, id="pending")
    scheduler.modify_job("pending", name="x")
    scheduler.start()
    scheduler.pause()
    scheduler.pause()
    scheduler.resume()
    scheduler.modify_job("pending", name="y")
    scheduler.pause_job("pending")
    scheduler.resume_job("pending")
    scheduler.reschedule_job("pending", trigger="interval", hours=2)
    scheduler.add_job(noop, "interval", hours=2, id="pending", replace_existing=True)
    scheduler.add_job(noop, id="once", misfire_grace_time=60)
    assert executed.wait(60)
    scheduler.remove_job("pending")
    scheduler.remove_all_jobs()
    scheduler.shutdown()
    show(sorted(Counter(heard).items(), key=repr))
    order = [entry[1] for entry in heard if entry[2] != "once"]
    show(order)
