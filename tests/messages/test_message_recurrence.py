"""The number of times of a recurrence, against counting them one by one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.messages import Recurrence
from goscheduler.messages._recurrence import occurrence_of, recurrence_of, trigger_of
from goscheduler.times import micros_of, to_micros
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger

FIRST = datetime(2026, 3, 27, 12, 7, tzinfo=timezone.utc)
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"]
LINES = ["* * * * *", "*/7 3 * * *", "30 2 * * *", "0 0 1 * *", "0 9 * * 1-5", "@hourly"]


def times_of(trigger, first, most=500):
    """Return the fire times from ``first`` on, one by one."""
    found, moment = [], trigger.get_next_fire_time(None, first)
    while moment is not None and len(found) < most:
        found.append(moment)
        moment = trigger.get_next_fire_time(moment, moment)
    return found


@given(line=st.sampled_from(LINES), zone=st.sampled_from(ZONES), number=st.integers(1, 60))
def test_a_crontab_line_comes_exactly_as_often_as_asked(line, zone, number):
    recurrence = Recurrence(cron=line, timezone=zone, max_occurrences=number)
    without_end = trigger_of(Recurrence(cron=line, timezone=zone), FIRST, timezone.utc)
    trigger = trigger_of(recurrence, FIRST, timezone.utc)
    times = times_of(trigger, FIRST)
    assert times == times_of(without_end, FIRST, number)
    assert [occurrence_of(trigger, moment) for moment in times] == list(range(1, number + 1))


@given(
    seconds=st.floats(0.5, 1e6),
    number=st.integers(1, 60),
    zone=st.sampled_from(ZONES),
)
def test_an_interval_comes_exactly_as_often_as_asked_whatever_the_clocks_do(seconds, number, zone):
    first = FIRST.astimezone(ZoneInfo(zone))
    trigger = trigger_of(Recurrence(interval=seconds, max_occurrences=number), first, ZoneInfo(zone))
    times = times_of(trigger, first)
    assert len(times) == number
    assert {to_micros(later) - to_micros(earlier) for earlier, later in pairwise(times)} <= {
        micros_of(timedelta(seconds=seconds))
    }
    assert [occurrence_of(trigger, moment) for moment in times] == list(range(1, number + 1))


@pytest.mark.parametrize("most", [None, 5])
def test_the_earlier_of_two_ends_counts(most):
    until = FIRST + timedelta(hours=2)
    by_interval = trigger_of(Recurrence(interval="1h", until=until, max_occurrences=most), FIRST, timezone.utc)
    by_crontab = trigger_of(Recurrence(cron="7 * * * *", until=until, max_occurrences=most), FIRST, timezone.utc)
    assert len(times_of(by_interval, FIRST)) == len(times_of(by_crontab, FIRST)) == 3
    few = trigger_of(Recurrence(cron="7 * * * *", until=until, max_occurrences=2), FIRST, timezone.utc)
    assert len(times_of(few, FIRST)) == 2


@pytest.mark.parametrize("line", ["* * * * *", "*/7 3 * * *", "30 2 * * *"])
def test_a_large_number_of_times_is_exact_too(line):
    number = 3000
    trigger = trigger_of(Recurrence(cron=line, timezone="Europe/Berlin", max_occurrences=number), FIRST, timezone.utc)
    without_end = trigger_of(Recurrence(cron=line, timezone="Europe/Berlin"), FIRST, timezone.utc)
    times = times_of(without_end, FIRST, number + 1)
    assert trigger.get_next_fire_time(times[-3], times[-3]) == times[-2]
    assert trigger.get_next_fire_time(times[-2], times[-2]) is None
    assert occurrence_of(trigger, times[-2]) == number


@pytest.mark.parametrize("recurrence", [
    Recurrence(cron="* * * * *", max_occurrences=1_000_000),
    Recurrence(cron="0 0 29 2 *", max_occurrences=1_000_000),
    Recurrence(interval="1000w", max_occurrences=1_000_000),
])
def test_a_large_number_is_found_without_counting_and_the_calendar_may_end_before(recurrence):
    trigger = trigger_of(recurrence, FIRST, timezone.utc)
    assert trigger.get_next_fire_time(None, FIRST) is not None


EVERY_FORM = [
    *LINES, "0 0 L * *", "0 0 * * 5#2", "0 0 * * L5", "0 0 13 * 5", "0 0 */2 * 5", "0 0 * jan-mar,dec sun",
    "0 0 * * fri-mon", "5/10 3-6/2 * * *", "0 0 * * 1-5/2", "0 0 1,L * 5#2,L5",
]  # fmt: skip


@given(line=st.sampled_from(EVERY_FORM), zone=st.sampled_from(ZONES), number=st.none() | st.integers(1, 60))
def test_the_recurrence_of_a_trigger_makes_the_same_trigger(line, zone, number):
    trigger = trigger_of(Recurrence(cron=line, timezone=zone, max_occurrences=number), FIRST, timezone.utc)
    found = recurrence_of(trigger)
    assert found.max_occurrences == number
    assert trigger_of(found, FIRST, timezone.utc).same_schedule_as(trigger)


@given(seconds=st.integers(1, 10**6), number=st.none() | st.integers(1, 60), until=st.none() | st.integers(1, 10**7))
def test_the_recurrence_of_an_interval_says_every_end(seconds, number, until):
    end = None if until is None else FIRST + timedelta(seconds=until)
    given = Recurrence(interval=seconds, max_occurrences=number, until=end)
    trigger = trigger_of(given, FIRST, timezone.utc)
    found = recurrence_of(trigger)
    assert (found.interval, found.until) == (given.interval, trigger.end_date)
    assert trigger_of(found, FIRST, timezone.utc).same_schedule_as(trigger)


@pytest.mark.parametrize(
    "trigger", [CalendarIntervalTrigger(days=1), CronTrigger(second="*/5"), DateTrigger(FIRST)]
)
def test_a_trigger_that_no_recurrence_makes_has_none(trigger):
    assert recurrence_of(trigger) is None
