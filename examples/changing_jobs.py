"""Pause, resume, modify, reschedule and remove a job while the scheduler runs."""

from __future__ import annotations

from goscheduler import BackgroundScheduler


def report(audience: str) -> None:
    print(f"Report for {audience}")


scheduler = BackgroundScheduler(timezone="UTC")
scheduler.start()
job = scheduler.add_job(report, "cron", hour=3, args=["the board"], id="report")
print(f"added:       {job.trigger}, runs next at {job.next_run_time:%H:%M}")

job.pause()
print(f"paused:      next run {job.next_run_time}")

job.resume()
print(f"resumed:     runs next at {job.next_run_time:%H:%M}")

job.modify(args=["everybody"], name="weekly report")
print(f"modified:    {job.name} for {job.args[0]}")

job.reschedule("cron", hour=5, minute=30)
print(f"rescheduled: {job.trigger}, runs next at {job.next_run_time:%H:%M}")

job.remove()
print(f"removed:     {scheduler.get_job('report')}")
scheduler.shutdown()
