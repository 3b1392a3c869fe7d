"""What a calendar costs: next fire times a second on working days, and a firing with a calendar against one without.

Both are counted in processor time, in rounds that take turns, so that what else the machine does counts less.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

from measure import Row, print_table

from goscheduler import CronTrigger
from goscheduler.calendars import Calendar, Holidays, Weekdays
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.triggers.calendar import CalendarTrigger

ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2026, 1, 15, 12, 0, tzinfo=ZONE)
END = datetime(2036, 1, 15, 12, 0, tzinfo=ZONE)


WORK = Weekdays("mon-fri") - Holidays("DE", subdiv="BY")
DAYS = 3


def main(rounds: int = 9, steps: int = 20_000, jobs: int = 2_000) -> list[Row]:
    """Return the rates of both, with their bars."""
    trigger = CalendarTrigger(CronTrigger(hour=9, timezone=ZONE), WORK)
    rate = median([_walked(trigger, steps) for _ in range(rounds)])
    first = Row("next times on working days", f"{rate:,.0f}/s", "–", "–", "≥ 50,000/s", rate >= 50_000)
    with TemporaryDirectory() as folder:
        stores = {"memory": {}, "SQLite": {"jobstores": {"default": f"sqlite:///{folder}/jobs.db"}}}
        return [first, *(_compared(name, rounds, jobs, options) for name, options in stores.items())]


def _compared(name: str, rounds: int, jobs: int, options: dict[str, Any]) -> Row:
    spent: dict[bool, list[float]] = {True: [], False: []}
    _fire(jobs, None, options)
    for number in range(rounds):
        for calendar in [None, WORK] if number % 2 else [WORK, None]:
            spent[calendar is not None].append(_fire(jobs, calendar, options))
    more = median([ours / plain for ours, plain in zip(spent[True], spent[False], strict=True)]) - 1
    ours, plain = (jobs * DAYS / median(spent[each]) for each in (True, False))
    told = f"firing with a calendar, {name} (CPU)"
    return Row(told, f"{ours:,.0f}/s", f"{plain:,.0f}/s without", f"{more:+.1%}", "≤ +5 %", more <= 0.05)


def _walked(trigger: CalendarTrigger, steps: int) -> float:
    begin = time.process_time()
    previous = START
    for _ in range(steps):
        following = trigger.get_next_fire_time(previous, previous)
        previous = START if following is None or following > END else following
    return steps / (time.process_time() - begin)


def _fire(jobs: int, calendar: Calendar | None, store: dict[str, Any]) -> float:
    """Return the processor time of three rounds in which all jobs fire."""
    begins = datetime(2026, 1, 13, 0, 0, tzinfo=ZONE)
    with ManualScheduler(clock=ManualClock(begins), timezone=ZONE, lease=2_592_000, **store) as scheduler:
        options = {} if calendar is None else {"calendar": calendar}
        scheduler.remove_all_jobs()
        scheduler.add_jobs({"func": _nothing, "trigger": "cron", "hour": 9, **options} for _ in range(jobs))
        return _spent(lambda: scheduler.advance(timedelta(days=DAYS)))


def _spent(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


def _nothing() -> None:
    pass


if __name__ == "__main__":
    print_table(main())
