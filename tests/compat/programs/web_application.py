"""A scheduler that a web application keeps at the top of a module and configures later."""

from __future__ import annotations

import threading

from apscheduler.schedulers.background import BackgroundScheduler

scheduler = BackgroundScheduler()


class App:
    def __init__(self):
        self.config = {
            "SCHEDULER_JOBSTORES": {"default": {"type": "memory"}},
            "SCHEDULER_EXECUTORS": {"default": {"type": "threadpool", "max_workers": 2}},
            "SCHEDULER_TIMEZONE": "UTC",
        }
        self.visits = []
        self.called = threading.Event()

    def init_scheduler(self):
        scheduler.configure(
            jobstores=self.config["SCHEDULER_JOBSTORES"],
            executors=self.config["SCHEDULER_EXECUTORS"],
            timezone=self.config["SCHEDULER_TIMEZONE"],
        )
        for job in [{"id": "job1", "func": self.visit, "args": (1, 2), "trigger": "interval", "hours": 1}]:
            scheduler.add_job(replace_existing=True, **job)
        scheduler.start()

    def visit(self, a, b):
        self.visits.append((a, b))
        self.called.set()


def main(show):
    app = App()
    app.init_scheduler()
    show(scheduler.running, [job.id for job in scheduler.get_jobs()], str(scheduler.timezone))
    scheduler.add_job(app.visit, args=["once", "now"], id="now", misfire_grace_time=60)
    assert app.called.wait(60)
    show(app.visits)
    show([(job.id, job.name, job.args, str(job.trigger)) for job in scheduler.get_jobs() if job.id == "job1"])
    scheduler.pause_job("job1")
    show(scheduler.get_job("job1").next_run_time)
    scheduler.resume_job("job1")
    show(scheduler.get_job("job1").next_run_time is not None)
    scheduler.shutdown(wait=False)
    show(scheduler.running)
