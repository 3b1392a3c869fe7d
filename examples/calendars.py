"""Working days, opening hours, and a run that is left out once."""

from __future__ import annotations

from datetime import datetime, timezone

from goscheduler import every
from goscheduler.calendars import Dates, Hours, Named, Weekdays
from goscheduler.testing import ManualClock, ManualScheduler

work = Weekdays("mon-fri") - Dates("12-25", "12-26", name="Christmas")
start = datetime(2026, 12, 24, 8, tzinfo=timezone.utc)

with ManualScheduler(clock=ManualClock(start)) as scheduler:
    scheduler.add_calendar("inventory", Dates("2026-12-28"))
    scheduler.add_job(print, "cron", hour=9, args=["report"], id="report", calendar=work - Named("inventory"))
    poll = every("4h", start_date=start, timezone="UTC")
    scheduler.add_job(print, poll, args=["poll"], id="poll", calendar=work & Hours("08:00-17:00"))
    for job in scheduler.get_jobs():
        print(f"{job.id}: {job.trigger.explain()}")
        print(*(f"{time:%a %d %H:%M}" for time in job.trigger.preview(4, start)), sep=", ")
    scheduler.skip_next("report")
    print(f"after skip_next: {scheduler.get_job('report').next_run_time:%a %d %H:%M}")
