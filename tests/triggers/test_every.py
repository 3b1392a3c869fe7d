"""``every``: schedules as people say them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import MINUTE, zones_by_behaviour
from rows import each_row

from goscheduler import every as front_door
from goscheduler.codec import dumps, loads
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.schedulers._requested_trigger import trigger_of
from goscheduler.testing import ManualClock, ManualScheduler
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.combining import OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.every import every, read_every
from goscheduler.triggers.interval import IntervalTrigger

UTC = timezone.utc
BERLIN = "Europe/Berlin"
DAY = timedelta(days=1)
#: A Wednesday, at half past ten in Berlin.
NOW = datetime(2026, 5, 6, 8, 30, tzinfo=UTC)


@each_row(
    ("said", "expected"),
    [
        ("every 10m", IntervalTrigger(minutes=10, timezone=BERLIN)),
        ("every 1h30m", IntervalTrigger(minutes=90, timezone=BERLIN)),
        ("every 1d", IntervalTrigger(hours=24, timezone=BERLIN)),
        ("every 5 minutes", IntervalTrigger(minutes=5, timezone=BERLIN)),
        ("every 1 hour 30 minutes", IntervalTrigger(minutes=90, timezone=BERLIN)),
        ("every hour", IntervalTrigger(hours=1, timezone=BERLIN)),
        ("every hour at :15", CronTrigger(minute=15, timezone=BERLIN)),
        ("every hour at :15, :45", CronTrigger(minute="15,45", timezone=BERLIN)),
        ("EVERY  day  AT  09:00", CronTrigger(hour=9, timezone=BERLIN)),
        ("every day", CronTrigger(hour=0, timezone=BERLIN)),
        ("every 1 day at 9:00:30", CronTrigger(hour=9, second=30, minute=0, timezone=BERLIN)),
        ("every day at 9:00, 9:30, 17:00 and 17:30", CronTrigger(hour="9,17", minute="0,30", timezone=BERLIN)),
        ("every mon-fri at 09:00 and 17:00", CronTrigger(day_of_week="mon-fri", hour="9,17", timezone=BERLIN)),
        ("every weekday at 09:00", CronTrigger(day_of_week="mon-fri", hour=9, timezone=BERLIN)),
        ("every weekend", CronTrigger(day_of_week="sat,sun", hour=0, timezone=BERLIN)),
        ("every Monday and Friday at 8:00", CronTrigger(day_of_week="mon,fri", hour=8, timezone=BERLIN)),
        ("every fri-mon", CronTrigger(day_of_week="fri-mon", hour=0, timezone=BERLIN)),
        ("every week on tue, thu at 8:00", CronTrigger(day_of_week="tue,thu", hour=8, timezone=BERLIN)),
        ("every week at 8:00 on tue", CronTrigger(day_of_week="tue", hour=8, timezone=BERLIN)),
        ("every month on 15 at 9:00", CronTrigger(day=15, hour=9, timezone=BERLIN)),
        ("every month on last at 18:00", CronTrigger(day="last", hour=18, timezone=BERLIN)),
        ("every month on 2nd tue", CronTrigger(day="2nd tue", hour=0, timezone=BERLIN)),
        ("every 2 weeks on mon at 6:30", CalendarIntervalTrigger(
            weeks=2, hour=6, minute=30, start_date="mon", timezone=BERLIN)),
        ("every week", CalendarIntervalTrigger(weeks=1, timezone=BERLIN)),
        ("every 3 days at 4:00", CalendarIntervalTrigger(days=3, hour=4, timezone=BERLIN)),
        ("every month at 4:00", CalendarIntervalTrigger(months=1, hour=4, timezone=BERLIN)),
        ("every 2 years", CalendarIntervalTrigger(years=2, timezone=BERLIN)),
        ("every day at 9:00 and 17:30", OrTrigger(
            [CronTrigger(hour=9, timezone=BERLIN), CronTrigger(hour=17, minute=30, timezone=BERLIN)])),
    ],
)  # fmt: skip
def test_a_sentence_is_one_of_the_triggers_that_are_there(said: str, expected: BaseTrigger) -> None:
    found = read_every(said, BERLIN)
    assert found.same_schedule_as(expected), found
    assert trigger_of(said, ZoneInfo(BERLIN)).same_schedule_as(expected)


@each_row(
    ("given", "expected"),
    [
        ({"what": 600}, IntervalTrigger(minutes=10, timezone=BERLIN)),
        ({"what": timedelta(hours=2)}, IntervalTrigger(hours=2, timezone=BERLIN)),
        ({"what": "day", "at": time(9)}, CronTrigger(hour=9, timezone=BERLIN)),
        ({"what": "mon-fri", "at": ["09:00", time(17)]}, CronTrigger(
            day_of_week="mon-fri", hour="9,17", timezone=BERLIN)),
        ({"what": "month", "on": 1, "at": "9:00"}, CronTrigger(day=1, hour=9, timezone=BERLIN)),
        ({"what": "week", "on": ["mon", "thu"]}, CronTrigger(day_of_week="mon,thu", hour=0, timezone=BERLIN)),
        ({"what": "day", "at": "9:00", "end_date": "2030-01-01", "jitter": 5}, CronTrigger(
            hour=9, end_date="2030-01-01", jitter=5, timezone=BERLIN)),
        ({"what": "2 weeks", "on": "mon", "start_date": "2026-01-01"}, CalendarIntervalTrigger(
            weeks=2, start_date="2026-01-05", timezone=BERLIN)),
    ],
)  # fmt: skip
def test_arguments_say_the_same_as_words(given: dict[str, Any], expected: BaseTrigger) -> None:
    given = dict(given)
    assert every(given.pop("what"), timezone=BERLIN, **given).same_schedule_as(expected)


@each_row(
    ("said", "field", "told"),
    [
        ("every mnday", "every", 'did you mean "monday"'),
        ("every 5 mintues", "every", 'did you mean "minute"'),
        ("every blue moon", "every", '"10m"'),
        ("every -5m", "every", "-5m"),
        ("every 0s", "every", "above zero"),
        ("every 0 weeks", "every", "above zero"),
        ("every day at 25:00", "at", "25:00"),
        ("every day at 9", "at", '"09:00"'),
        ("every day at 9am", "at", "9am"),
        ("every day at :15", "at", '"hour"'),
        ("every 10m at 9:00", "at", "elapsed time"),
        ("every 1d at 9:00", "at", '"day" goes by the clock'),
        ("every 48h at 9:00", "at", '"2 days" goes by the clock'),
        ("every day at 9:00 at 10:00", "at", "once"),
        ("every day on mon", "on", '"week"'),
        ("every 10m on mon", "on", '"week"'),
        ("every mon on tue", "on", "weekdays already"),
        ("every week on moonday", "on", 'did you mean "monday"'),
        ("every week on 5", "on", "weekdays"),
        ("every month on 32", "on", "1 to 31"),
        ("every month on mon", "on", "1 to 31"),
        ("every 2 months on 5", "on", '"month"'),
        ("every 2 weeks on mon,tue", "on", "one weekday"),
    ],
)
def test_what_is_no_schedule_names_the_part_the_value_and_what_was_expected(said: str, field: str, told: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_every(said, BERLIN)
    assert caught.value.field == field
    assert told in str(caught.value)
    with pytest.raises(InvalidArgument) as caught:
        trigger_of(said, ZoneInfo(BERLIN))
    assert caught.value.field == f"trigger.{field}"


@each_row(
    ("given", "field"),
    [
        ({"what": None}, "every"),
        ({"what": True}, "every"),
        ({"what": float("nan")}, "every"),
        ({"what": 0}, "every"),
        ({"what": "day", "at": []}, "at"),
        ({"what": "day", "at": 9}, "at"),
        ({"what": "day", "at": [None]}, "at"),
        ({"what": "day", "at": ["09:00"] * 101}, "at"),
        ({"what": "day", "at": time(9, tzinfo=UTC)}, "at"),
        ({"what": "day", "at": time(9, microsecond=1)}, "at"),
        ({"what": "week", "on": []}, "on"),
        ({"what": "week", "on": 5.5}, "on"),
        ({"what": "week", "on": True}, "on"),
        ({"what": "day", "timezone": "Mars/Phobos"}, "timezone"),
        ({"what": "day", "jitter": -1}, "jitter"),
        ({"what": "day", "start_date": "2026-02-01", "end_date": "2026-01-01"}, "end_date"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(given: dict[str, Any], field: str) -> None:
    given = dict(given)
    with pytest.raises(InvalidArgument) as caught:
        every(given.pop("what"), **given)
    assert caught.value.field == field


@each_row(
    ("now", "first"),
    [
        (datetime(2026, 5, 6, 8, 30, tzinfo=UTC), "2026-05-11 06:30"),
        (datetime(2026, 5, 11, 4, 29, tzinfo=UTC), "2026-05-11 06:30"),
        (datetime(2026, 5, 11, 4, 30, tzinfo=UTC), "2026-05-11 06:30"),
        (datetime(2026, 5, 11, 4, 31, tzinfo=UTC), "2026-05-18 06:30"),
    ],
)
def test_weeks_from_a_weekday_begin_with_the_first_one_to_come(now: datetime, first: str) -> None:
    trigger = every("2 weeks", on="mon", at="6:30", timezone=BERLIN).anchored(now)
    times = [f"{moment:%Y-%m-%d %H:%M}" for moment in trigger.preview(2, now)]
    assert times == [first, f"{datetime.fromisoformat(first) + timedelta(weeks=2):%Y-%m-%d %H:%M}"]
    stored = loads(dumps(trigger))
    assert stored.preview(5, now) == trigger.preview(5, now)
    assert stored.same_schedule_as(every("2 weeks", on="mon", at="6:30", timezone=BERLIN))
    assert not stored.same_schedule_as(every("2 weeks", on="tue", at="6:30", timezone=BERLIN))


def test_a_schedule_that_is_declared_again_at_each_start_keeps_its_weeks() -> None:
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        for _ in range(2):
            scheduler.add_job(print, every("2 weeks", on="mon", timezone=UTC), id="a", replace_existing=True)
            assert scheduler.get_job("a").next_run_time.date() == date(2026, 5, 11)
            scheduler.advance("3d")


def test_jobs_are_added_in_words() -> None:
    with ManualScheduler(clock=ManualClock(NOW)) as scheduler:
        scheduler.add_job(print, "every weekday at 09:00", id="words")

        @scheduler.every("mon-fri", at="09:00", id="decorated", timezone=BERLIN, tags=["mail"])
        def mail() -> None:
            pass

        scheduler.reschedule_job("words", trigger="every day at 10:00")
        assert scheduler.get_job("words").trigger.explain().startswith("at 10:00 every day")
        assert scheduler.get_job("decorated").tags == ("mail",)
        assert scheduler.get_job("decorated").next_run_time == datetime(2026, 5, 7, 7, tzinfo=UTC)
        with pytest.raises(UnknownOption):
            scheduler.add_job(print, "every day", hour=5)
        with pytest.raises(InvalidArgument, match="did you mean"):
            scheduler.add_job(print, "every mnday")


def test_the_front_door_has_it() -> None:
    assert front_door is every


def first_shown(wall: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the first minute at which clocks show ``wall`` or a later time; None if they never show its date."""
    start = (wall - DAY).replace(tzinfo=UTC)
    shown = [(start + MINUTE * n, (start + MINUTE * n).astimezone(zone).replace(tzinfo=None)) for n in range(2 * 1440)]
    if not any(at.date() == wall.date() for _, at in shown):
        return None
    return next(moment for moment, at in shown if at >= wall)


def _changes() -> st.SearchStrategy[tuple[str, datetime]]:
    zones = zones_by_behaviour(2020, 2037)
    names = st.sampled_from(sorted(name for name, changes in zones.items() if changes))
    return names.flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(zones[name])))


CHANGES = st.deferred(_changes)
TIMES = st.builds(time, st.integers(0, 23), st.integers(0, 59))
WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


@given(CHANGES, st.lists(TIMES, min_size=1, max_size=3), st.sets(st.sampled_from(WEEKDAYS), min_size=1))
def test_around_clock_changes_it_fires_when_a_walk_day_by_day_says(
    change: tuple[str, datetime], at: list[time], on: set[str]
) -> None:
    zone, around = ZoneInfo(change[0]), change[1]
    days = [around.astimezone(zone).date() + DAY * n for n in range(-2, 3)]
    expected = sorted({
        moment
        for day in days if WEEKDAYS[day.weekday()] in on
        for wall in at if (moment := first_shown(datetime.combine(day, wall), zone)) is not None
    })  # fmt: skip
    trigger = every(",".join(sorted(on)), at=at, timezone=zone)
    begin, end = (datetime.combine(day, time(), zone) for day in (days[0], days[-1] + DAY))
    found = trigger.between(begin, end, 100)
    assert [moment.astimezone(UTC) for moment in found] == [at for at in expected if begin <= at < end]
