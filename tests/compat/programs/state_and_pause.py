"""Pausing the scheduler and single jobs; states and what is refused in each."""

from __future__ import annotations

import threading

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers import SchedulerAlreadyRunningError, SchedulerNotRunningError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_PAUSED, STATE_RUNNING, STATE_STOPPED


def main(show):
    executed, calls = threading.Event(), []
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.add_listener(lambda event: executed.set(), EVENT_JOB_EXECUTED)
    show(scheduler.state == STATE_STOPPED, scheduler.running)
    for method in (scheduler.shutdown, scheduler.pause, scheduler.resume):
        try:
            method()
        except SchedulerNotRunningError as error:
            show(str(error))
    scheduler.start(paused=True)
    show(scheduler.state == STATE_PAUSED, scheduler.running)
    scheduler.add_job(lambda: calls.append(1), misfire_grace_time=None, id="once")
    show([job.id for job in scheduler.get_jobs()], calls)
    for method in (scheduler.start, scheduler.configure):
        try:
            method()
        except SchedulerAlreadyRunningError as error:
            show(str(error))
    scheduler.resume()
    assert executed.wait(60)
    show(scheduler.state == STATE_RUNNING, calls)
    scheduler.pause()
    scheduler.pause()
    show(scheduler.state == STATE_PAUSED)
    scheduler.shutdown(wait=True)
    show(scheduler.state == STATE_STOPPED)
