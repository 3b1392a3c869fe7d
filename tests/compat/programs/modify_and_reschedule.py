"""job.modify, job.reschedule and their twins on the scheduler, before and after the start."""

from __future__ import annotations

from apscheduler.schedulers.background import BackgroundScheduler


def work(a, b=2):
    return a + b


def main(show):
    scheduler = BackgroundScheduler(timezone="Europe/Berlin")
    job = scheduler.add_job(work, "interval", minutes=5, id="work", args=[1])
    show(str(job), repr(job))
    job.modify(max_instances=6, name="Alternate name")
    show(job.name, job.max_instances)
    scheduler.start(paused=True)
    show(job.max_instances, job.args, job.kwargs, job.coalesce, job.pending)
    scheduler.modify_job("work", args=(3,), kwargs={"b": 4})
    show(job.args, job.kwargs)
    scheduler.reschedule_job("work", trigger="cron", minute="*/5")
    show(str(job.trigger), job.next_run_time.minute % 5, job.next_run_time.tzname() in ("CET", "CEST"))
    job.reschedule("date", run_date="2090-02-03 04:05:06")
    show(str(job))
    job.pause()
    show(str(job))
    job.resume()
    show(str(job))
    for wrong in ({"id": "x"}, {"nonsense": 1}, {"args": "text"}, {"max_instances": 0}, {"trigger": "cron"}):
        try:
            job.modify(**wrong)
        except (ValueError, TypeError, AttributeError) as error:
            show(isinstance(error, TypeError), str(error).split(",")[0])
    show(job.max_instances, job.args, str(job.trigger))
    job.remove()
    show(scheduler.get_job("work"), scheduler.get_jobs())
    scheduler.shutdown()
