"""What print_jobs writes, with pending, scheduled, paused and no jobs."""

from __future__ import annotations

import io

from apscheduler.schedulers.background import BackgroundScheduler


def noop():
    pass


def printed(scheduler, *args):
    out = io.StringIO()
    scheduler.print_jobs(*args, out=out)
    return out.getvalue()


def main(show):
    scheduler = BackgroundScheduler(timezone="America/New_York", jobstores={"b": {"type": "memory"}})
    show(printed(scheduler))
    scheduler.add_job(noop, "date", run_date="2090-07-04 12:00:00", id="a")
    scheduler.add_job(noop, "interval", hours=36, id="b", jobstore="b", name="interval job")
    show(printed(scheduler))
    scheduler.start(paused=True)
    scheduler.pause_job("b")
    show(printed(scheduler), printed(scheduler, "b"), printed(scheduler, "default"))
    scheduler.remove_all_jobs()
    show(printed(scheduler))
    scheduler.shutdown()
