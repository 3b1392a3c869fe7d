"""Cron jobs by keyword, with names, ranges, lists and positions; when they run next."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger

BERLIN = ZoneInfo("Europe/Berlin")

CASES = [
    {"month": "6-8,11-12", "day": "3rd fri", "hour": "0-3"},
    {"day_of_week": "mon-fri", "hour": 5, "minute": 30, "end_date": "2087-05-30"},
    {"year": 2087, "month": 1, "day": "last"},
    {"hour": "*/3", "minute": "*/20"},
    {"day_of_week": "sun", "second": "5,10"},
    {"week": 53, "day_of_week": "mon"},
    {"day": "1st sun,15", "hour": 12},
    {"second": "*/15"},
    {"minute": "1-59/7"},
    {"month": "feb", "day": 29},
    {"day_of_week": "0,2,4", "hour": 8},
    {"month": "jan,jul", "day": "2nd tue", "hour": 8, "start_date": "2087-02-01"},
]


def noop():
    pass


def main(show):
    scheduler = BackgroundScheduler(timezone=BERLIN)
    for case in CASES:
        trigger = scheduler.add_job(noop, "cron", **case).trigger
        now = datetime(2086, 7, 1, 12, 0, 0, 500, tzinfo=BERLIN)
        previous, times = None, []
        for _ in range(4):
            previous = trigger.get_next_fire_time(previous, previous or now)
            if previous is None:
                break
            times.append(previous.isoformat())
        show(str(trigger), repr(trigger), times)
    show([field.name for field in CronTrigger(hour=3, timezone=BERLIN).fields], CronTrigger.FIELD_NAMES)
    for wrong in ({"hour": 24}, {"minute": "*/0"}, {"day": "32"}, {"month": "foo"}, {"day_of_week": "fri-mon"}):
        try:
            scheduler.add_job(noop, "cron", **wrong)
        except ValueError:
            show(wrong, "ValueError")
        else:
            show(wrong, "accepted")
