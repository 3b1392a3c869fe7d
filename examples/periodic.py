"""Schedules declared in code: a sync adds, changes and removes jobs, and firings go to a queue of the program."""

from __future__ import annotations

import queue

from goscheduler import BackgroundScheduler
from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.periodic import Dispatch, Schedule, ScheduleRegistry
from goscheduler.testing import EventRecorder

inbox: queue.Queue[str] = queue.Queue()


def publish(firing: Dispatch) -> None:
    """Stand in for a CeleryDispatch(app), an RQDispatch(queue) or a DramatiqDispatch(broker)."""
    inbox.put(f"{firing.job}({dict(firing.payload)})")


first = ScheduleRegistry(dispatch=publish)
first.register(
    Schedule(
        id="cleanup_hourly",
        cron="0 * * * *",
        job="cleanup_old_data",
        payload={"max_age_days": 30},
        timezone="America/New_York",
        priority="high",
    )
)
first.register(Schedule(id="weekly_report", cron="0 9 * * mon", job="generate_weekly_report"))

scheduler = BackgroundScheduler()
recorder = EventRecorder(scheduler)
scheduler.start()
print(scheduler.sync(first))

scheduler.run_now("cleanup_hourly")  # or wait for the hour
recorder.wait_for(EVENT_JOB_EXECUTED, "cleanup_hourly")
print(f"in the queue: {inbox.get(timeout=60)}")

second = ScheduleRegistry(dispatch=publish)  # the next version of the program
second.register(
    Schedule(id="cleanup_hourly", cron="@hourly", job="cleanup_old_data", payload={"max_age_days": 7}, timezone="UTC")
)


@second.every("*/15 * * * *")
def refresh_cache() -> None:
    """Refresh the cache."""


print(scheduler.sync(second, dry_run=True))
scheduler.sync(second)
print(f"runs of cleanup_hourly: {scheduler.schedule_state('cleanup_hourly').run_count}")
scheduler.shutdown()
