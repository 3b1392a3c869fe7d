"""Subclasses that override what the manual names and what people override all the same."""

from __future__ import annotations

import threading

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler


class OwnStore(MemoryJobStore):
    pass


class OwnExecutor(ThreadPoolExecutor):
    pass


class OwnScheduler(BackgroundScheduler):
    def __init__(self, *args, **kwargs):
        self.rounds = 0
        self.dispatched = []
        super().__init__(*args, **kwargs)

    def _create_default_executor(self):
        self.executor = OwnExecutor(1)
        return self.executor

    def _create_default_jobstore(self):
        self.store = OwnStore()
        return self.store

    def _create_lock(self):
        return threading.RLock()

    def _process_jobs(self):
        self.rounds += 1
        wait = super()._process_jobs()
        assert wait is None or wait >= 0
        return wait

    def _dispatch_event(self, event):
        self.dispatched.append(int(event.code))
        super()._dispatch_event(event)


def main(show):
    done = threading.Event()
    scheduler = OwnScheduler(timezone="UTC")
    scheduler.add_listener(lambda event: done.set(), EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(lambda: None, id="once", misfire_grace_time=60)
    assert done.wait(60)
    scheduler.shutdown()
    show(scheduler.rounds > 0, type(scheduler.executor).__name__, type(scheduler.store).__name__)
    show(sorted(set(scheduler.dispatched)))
