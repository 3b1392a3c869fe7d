"""What users write, as type checkers see it. Nothing runs this: mypy checks it in ``make lint``, pyright in a test.

A line that ends in ``# type: ignore`` must be refused, and no other line: both checkers report an ignore too many.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from typing_extensions import Unpack, assert_type

from goscheduler import AsyncIOScheduler, BackgroundScheduler, Call, CronTrigger, Job, Limit, Retry, call, task
from goscheduler.typing import CronArgs, JobArgs
from goscheduler.util import undefined

scheduler = BackgroundScheduler()
options: dict[str, Any] = {}


@task("mail.send")
def send(order: int, urgent: bool = False) -> str:
    return f"{order} {urgent}"


@task("mail.later")
async def send_later(order: int) -> None: ...


# Decorators keep what they decorate.
assert_type(send(1, urgent=True), str)
send("1")  # type: ignore
later: Callable[[int], Coroutine[Any, Any, None]] = send_later
sooner: Callable[[str], Coroutine[Any, Any, None]] = send_later  # type: ignore

# A trigger by its name has its own arguments.
assert_type(scheduler.add_job(send, "cron", hour=3, minute="*/5", args=[1], id="a", retry=3), Job)
scheduler.add_job(send, "cron", [1], {"urgent": True}, "a", "name", day_of_week="mon-fri", jitter=3)
scheduler.add_job(send, trigger="interval", seconds=1.5, start_date=datetime(2026, 1, 1), timeout=timedelta(minutes=1))
scheduler.add_job(send, "date", run_date="2026-01-01", if_exists="replace", next_run_time=None)
scheduler.add_job(send, "calendarinterval", months=1, hour=3, calendar="work", on_closed="after")
scheduler.add_job(send, "rrule", rule="FREQ=DAILY")
scheduler.add_job(send, "or", triggers=[CronTrigger(hour=1), CronTrigger(hour=2)])
scheduler.add_job(send, CronTrigger(hour=1), calendar="work", overlap="queue", limits=Limit("mail", concurrency=1))
scheduler.add_job(send, "every 2 weeks on mon at 6:30", tags=["a"], metadata={"tenant": "7"})
scheduler.add_job("myapp.mail:send", run_date=datetime(2026, 1, 1))
scheduler.add_job(send, "cron", None, None, None, None, 30, True, 1, undefined, "default", "default", True, hour=3)
scheduler.add_job(send, "a_plug_in", **options)
scheduler.add_job(send, "cron", hours=3)  # type: ignore
scheduler.add_job(send, "cron", hour=3.5)  # type: ignore
scheduler.add_job(send, "cron", hour=[1, 2])  # type: ignore
scheduler.add_job(send, "interval", second=5)  # type: ignore
scheduler.add_job(send, "interval", seconds=timedelta(seconds=5))  # type: ignore
scheduler.add_job(send, "rrule", dtstart="2026-01-01")  # type: ignore
scheduler.add_job(send, "date", hour=3)  # type: ignore
scheduler.add_job(send, CronTrigger(hour=1), hour=2)  # type: ignore
scheduler.add_job(send, "a_plug_in", phase="full")  # type: ignore

# Options have types.
scheduler.add_job(send, retry=Retry(max_attempts=3), misfire_grace_time=None, dead_letter=True)
scheduler.add_job(send, "cron", hour=3, overlap="wait")  # type: ignore
scheduler.add_job(send, "cron", hour=3, retry="often")  # type: ignore
scheduler.add_job(send, "cron", hour=3, timeout="10s")  # type: ignore
scheduler.add_job(send, "cron", hour=3, tags="mail")  # type: ignore
scheduler.add_job(send, "cron", hour=3, max_instance=2)  # type: ignore
scheduler.add_job(send, "cron", hour=3, if_exists="skip")  # type: ignore
scheduler.add_job(17, "cron", hour=3)  # type: ignore

# call() compares arguments with the function.
assert_type(call(send, 1, urgent=True), Call[str])
scheduler.add_job(call(send, 1), "cron", hour=3)
scheduler.add_job(call(send_later, 1))
call(send)  # type: ignore
call(send, "1")  # type: ignore
call(send, 1, urgnt=True)  # type: ignore


# So do the other doors.
@scheduler.scheduled_job("cron", hour=3, id="nightly", retry=2)
def nightly(days: int = 1) -> int:
    return days


assert_type(nightly(2), int)


@scheduler.scheduled_job("interval", hour=3)  # type: ignore
def hourly() -> None: ...


@scheduler.every("mon-fri", at="09:00", id="mail", retry=2)
def daily() -> None: ...


assert_type(scheduler.modify_job("a", name="b", max_instances=2, func=call(send, 2)), Job)
scheduler.modify_job("a", max_instances="two")  # type: ignore
scheduler.modify_job("a", trigger="cron")  # type: ignore
assert_type(scheduler.reschedule_job("a", trigger="cron", hour=3), Job)
scheduler.reschedule_job("a", "default", "cron", hour=3)
scheduler.reschedule_job("a", trigger="cron", hours=3)  # type: ignore


def change(job: Job) -> None:
    assert_type(job.reschedule("interval", minutes=5), Job)
    job.modify(priority=1)
    job.reschedule("interval", minute=5)  # type: ignore
    job.modify(priority="high")  # type: ignore


async def on_a_loop(scheduler: AsyncIOScheduler) -> None:
    assert_type(await scheduler.aio.add_job(send, "cron", hour=3, args=[1]), Job)
    assert_type(await scheduler.aio.modify_job("a", name="b"), Job)
    await scheduler.aio.reschedule_job("a", trigger="interval", seconds=3)
    await scheduler.aio.add_job(send, "cron", hours=3)  # type: ignore
    await scheduler.aio.reschedule_job("a", trigger="interval", second=3)  # type: ignore


# Wrappers of one's own.
def add_report(func: Callable[[], object], **options: Unpack[JobArgs]) -> Job:
    return scheduler.add_job(func, "cron", hour=2, **options)


def at_night(**when: Unpack[CronArgs]) -> Job:
    return scheduler.add_job(send, "cron", args=[1], **when)


add_report(lambda: None, id="sales", retry=3)
add_report(lambda: None, hour=4)  # type: ignore
