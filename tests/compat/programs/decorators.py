"""Jobs declared with decorators at the top of a module, as the user guide shows."""

from __future__ import annotations

from apscheduler.schedulers.background import BackgroundScheduler

sched = BackgroundScheduler(timezone="UTC")


@sched.scheduled_job("interval", id="my_job_id", seconds=2, max_instances=2)
def tick():
    return "tick"


@sched.scheduled_job("cron", day="last sun", hour=3)
def last_sunday():
    return "sunday"


def main(show):
    show(tick(), last_sunday())
    show(sorted((job.id == "my_job_id", job.name, str(job.trigger)) for job in sched.get_jobs()))
    sched.start(paused=True)
    show([job.max_instances for job in sched.get_jobs() if job.id == "my_job_id"])
    show([job.pending for job in sched.get_jobs()])
    sched.shutdown()
    show(sched.running)
