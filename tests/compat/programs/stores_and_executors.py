"""Several stores and executors, configured as in the user guide."""

from __future__ import annotations

import threading

from apscheduler.events import EVENT_ALL, EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler


def name_of_thread():
    return threading.current_thread() is threading.main_thread()


def main(show):
    scheduler = BackgroundScheduler(
        jobstores={"alchemy": MemoryJobStore(), "default": {"type": "memory"}},
        executors={
            "default": ThreadPoolExecutor(20),
            "processpool": ProcessPoolExecutor(5),
            "inline": {"class": "apscheduler.executors.debug:DebugExecutor"},
        },
        job_defaults={"coalesce": False, "max_instances": 3},
        timezone="UTC",
    )
    done, heard = threading.Semaphore(0), []
    scheduler.add_listener(lambda event: done.release(), EVENT_JOB_EXECUTED)
    scheduler.add_listener(lambda event: heard.append((type(event).__name__, int(event.code), event.alias)), EVENT_ALL)
    scheduler.start()
    later = scheduler.add_job(name_of_thread, "interval", hours=1, id="x", jobstore="alchemy")
    scheduler.add_job(name_of_thread, "interval", hours=1, id="x", jobstore="default")
    show(later.coalesce, later.max_instances)
    try:
        scheduler.add_job(name_of_thread, "interval", hours=1, id="x", jobstore="alchemy")
    except ConflictingIdError as error:
        show(isinstance(error, KeyError), str(error).strip("'"))
    show([job.id for job in scheduler.get_jobs("alchemy")], len(scheduler.get_jobs()))
    scheduler.add_job(name_of_thread, executor="inline", id="now", misfire_grace_time=60)
    assert done.acquire(timeout=60)
    scheduler.remove_job("x", "alchemy")
    show(scheduler.get_jobs("alchemy"), [job.id for job in scheduler.get_jobs("default") if job.id == "x"])
    try:
        scheduler.remove_job("x", "alchemy")
    except JobLookupError as error:
        show(isinstance(error, KeyError), str(error).strip("'"))
    scheduler.add_jobstore("memory", "third")
    scheduler.remove_jobstore("third")
    scheduler.add_executor("threadpool", "extra", max_workers=1)
    scheduler.remove_executor("extra")
    scheduler.remove_all_jobs("default")
    scheduler.shutdown()
    show([event for event in heard if event[1] in (1, 2, 16, 32, 64, 128, 256)])
