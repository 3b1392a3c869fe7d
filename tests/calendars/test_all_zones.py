"""Calendars and recurrence rules against a walk day by day, around every clock change of the zones, 2020 to 2037.

A few zones are walked in every run of the tests, all of them by ``pytest -m faults tests/calendars``.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from oracle import clock_changes, zones_by_behaviour

from goscheduler import CronTrigger
from goscheduler.calendars import Dates, Hours, Weekdays
from goscheduler.times import first_instant_at
from goscheduler.triggers.calendar import CalendarTrigger
from goscheduler.triggers.rrule import RRuleTrigger

DAY = timedelta(days=1)
#: Changes at midnight, of half an hour, of a whole day, in Ramadan, none.
FEW = ("Africa/Casablanca", "America/Asuncion", "Australia/Lord_Howe", "Europe/Dublin", "Pacific/Apia", "UTC")
#: Times of the day that clocks leave out or show twice somewhere.
TIMES = (time(0, 15), time(1, 30), time(2, 30), time(9))


@pytest.mark.parametrize("which", ["few", pytest.param("all", marks=pytest.mark.faults)])
def test_they_fire_on_the_days_that_a_walk_says_at_the_first_moment_of_their_time(which: str) -> None:
    walked = 0
    few = {name: tuple(clock_changes(ZoneInfo(name), 2020, 2037)) for name in FEW}
    for name, changes in (few if which == "few" else zones_by_behaviour(2020, 2037)).items():
        for change in changes or (datetime(2026, 3, 29, tzinfo=timezone.utc),):
            for at in TIMES if which == "all" else TIMES[:: 1 + (walked % 2)]:
                check(ZoneInfo(name), change, at)
                walked += 1
    assert walked > (40 if which == "few" else 4_000)


def check(zone: ZoneInfo, change: datetime, at: time) -> None:
    first = change.astimezone(zone).date() - DAY * 4
    days = [first + DAY * number for number in range(9)]
    holiday = days[3]
    work = Weekdays("mon-sat") - Dates(holiday)
    start, end = (datetime.combine(day, time(), zone) for day in (days[0], days[-1]))
    daily = CronTrigger(hour=at.hour, minute=at.minute, timezone=zone)
    wanted = [day for day in days[:-1] if day.weekday() != 6 and day != holiday]
    expected = moments(wanted, at, zone)
    skipping = CalendarTrigger(daily, work)
    assert skipping.between(start, end, 99) == [each for each in expected if work.is_open(each)], (zone, change, at)
    rule = f"FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR,SA;BYHOUR={at.hour};BYMINUTE={at.minute}"
    walked = RRuleTrigger(rule, datetime.combine(days[0], time()), zone, exdates=[datetime.combine(holiday, at)])
    assert walked.between(start, end, 99) == [each for each in expected if start <= each < end], (zone, change, at)
    for moment in expected:
        if Hours("09:00-17:00").is_open(moment):
            assert (work & Hours("09:00-17:00")).next_open(moment) == moment


def moments(days: list[date], at: time, zone: ZoneInfo) -> list[datetime]:
    """Return the first moment of a time of the day on each of the days; a day that the zone leaves out has none."""
    found = [(day, first_instant_at(datetime.combine(day, at), zone)) for day in days]
    midnights = {day: first_instant_at(datetime.combine(day, time()), zone).date() for day in days}
    return [moment for day, moment in found if moment.date() == day or midnights[day] == day]
