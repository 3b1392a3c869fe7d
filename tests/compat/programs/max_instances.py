"""A job that is still running when it comes due again."""

from __future__ import annotations

import threading

from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MAX_INSTANCES
from apscheduler.schedulers.background import BackgroundScheduler


def main(show):
    skipped, executed, go_on = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def listener(event):
        if event.code == EVENT_JOB_MAX_INSTANCES:
            seen.append((event.job_id, event.jobstore, len(event.scheduled_run_times)))
            skipped.set()
        else:
            executed.set()

    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_listener(listener, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(lambda: go_on.wait(60), "interval", seconds=0.05, id="slow")
    assert skipped.wait(60)
    show(seen[0], executed.is_set())
    scheduler.remove_job("slow")
    go_on.set()
    assert executed.wait(60)
    scheduler.shutdown()
    show(scheduler.get_jobs())
