"""The calendar interval trigger: a sequence of dates at one time of day."""

from __future__ import annotations

import itertools
import pickle
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument
from goscheduler.times import to_micros
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
APIA = ZoneInfo("Pacific/Apia")
CAIRO = ZoneInfo("Africa/Cairo")
NUUK = ZoneInfo("America/Nuuk")
DAY = timedelta(days=1)


def dates(trigger: CalendarIntervalTrigger, n: int, after: datetime) -> list[str]:
    return [moment.date().isoformat() for moment in trigger.preview(n, after)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"years": 1, "start_date": "2024-02-29"}, ["2024-02-29", "2028-02-29", "2032-02-29"]),
        ({"months": 1, "start_date": "2026-01-31"}, ["2026-01-31", "2026-03-31", "2026-05-31"]),
        ({"months": 1, "start_date": "2026-01-30"}, ["2026-01-30", "2026-03-30", "2026-04-30"]),
        ({"months": 2, "start_date": "2025-12-31"}, ["2025-12-31", "2026-08-31", "2026-10-31"]),
        ({"weeks": 2, "start_date": "2026-01-05"}, ["2026-01-05", "2026-01-19", "2026-02-02"]),
        ({"days": 3, "start_date": "2026-02-27"}, ["2026-02-27", "2026-03-02", "2026-03-05"]),
        ({"months": 1, "days": 1, "start_date": "2026-01-30"}, ["2026-01-30", "2026-03-31", "2026-06-01"]),
        ({"months": "1", "weeks": "1", "start_date": "2026-01-01"}, ["2026-01-01", "2026-02-08", "2026-03-15"]),
        ({"days": 1, "start_date": date(2026, 1, 1), "end_date": date(2026, 1, 2)}, ["2026-01-01", "2026-01-02"]),
        ({"years": 5000, "start_date": "2026-01-01"}, ["2026-01-01", "7026-01-01"]),
        ({"days": 1_000_000, "start_date": "9000-01-01"}, ["9000-01-01"]),
        (
            {"days": 1, "start_date": datetime(2026, 1, 1, 23, 30, tzinfo=UTC)},
            ["2026-01-02", "2026-01-03", "2026-01-04"],
        ),
    ],
)
def test_a_step_adds_months_until_the_date_exists_and_then_days(options: dict[str, Any], expected: list[str]) -> None:
    trigger = CalendarIntervalTrigger(timezone=BERLIN, **options)
    assert dates(trigger, 3, datetime(2020, 1, 1, tzinfo=UTC)) == expected


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "days"),
        ({"days": 0, "hour": 5}, "days"),
        ({"days": -1}, "days"),
        ({"years": -1, "days": 1}, "years"),
        ({"months": -2}, "months"),
        ({"weeks": 1.5}, "weeks"),
        ({"days": float("nan")}, "days"),
        ({"days": "daily"}, "days"),
        ({"days": 10**400}, "days"),
        ({"days": 1, "hour": 24}, "hour"),
        ({"days": 1, "minute": 60}, "minute"),
        ({"days": 1, "second": 60}, "second"),
        ({"days": 1, "second": -1}, "second"),
        ({"days": 1, "jitter": -1}, "jitter"),
        ({"days": 1, "start_date": "soon"}, "start_date"),
        ({"days": 1, "start_date": "2026-02-01", "end_date": "2026-01-31"}, "end_date"),
        ({"days": 1, "timezone": "Mars/Phobos"}, "timezone"),
    ],
)
def test_what_makes_no_sense_is_refused_naming_the_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument, match=r"interval must be at least|cannot be earlier|" + field) as caught:
        CalendarIntervalTrigger(**options)
    assert caught.value.field == field
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "options",
    [
        {"days": True},
        {"days": None},
        {"days": 1, "hour": [3]},
        {"days": 1, "start_date": 3},
        {"days": 1, "timezone": 3},
    ],
)
def test_a_value_of_the_wrong_type_is_a_type_error(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        CalendarIntervalTrigger(**options)


def test_the_first_fire_time_is_never_in_the_past() -> None:
    trigger = CalendarIntervalTrigger(days=7, hour=3, start_date="2016-01-01", timezone=BERLIN)
    now = datetime(2026, 6, 3, 12, tzinfo=UTC)
    first = trigger.get_next_fire_time(None, now)
    assert first == datetime(2026, 6, 5, 3, tzinfo=BERLIN)
    assert trigger.get_next_fire_time(None, first) == first


def test_without_a_start_it_counts_from_today_in_its_zone() -> None:
    trigger = CalendarIntervalTrigger(days=2, hour=3, timezone=APIA)
    assert trigger.floating
    assert abs(trigger.start_date - SYSTEM_CLOCK.now().astimezone(APIA).date()) <= DAY
    anchored = trigger.anchored(datetime(2026, 6, 1, 12, tzinfo=UTC))
    assert anchored.start_date == date(2026, 6, 2)
    assert dates(anchored, 2, datetime(2026, 6, 1, 12, tzinfo=UTC)) == ["2026-06-02", "2026-06-04"]
    fixed = CalendarIntervalTrigger(days=2, start_date="2026-01-01", timezone=APIA)
    assert fixed.anchored(SYSTEM_CLOCK.now()) is fixed


@pytest.mark.parametrize(
    ("zone", "hour", "minute", "day", "expected"),
    [
        (BERLIN, 2, 30, "2026-03-29", "2026-03-29T03:00:00+02:00"),
        (BERLIN, 2, 30, "2026-10-25", "2026-10-25T02:30:00+02:00"),
        (ZoneInfo("Australia/Lord_Howe"), 2, 15, "2026-10-04", "2026-10-04T02:30:00+11:00"),
        (CAIRO, 0, 0, "2026-04-24", "2026-04-24T01:00:00+03:00"),
        (ZoneInfo("America/New_York"), 2, 30, "2026-03-08", "2026-03-08T03:00:00-04:00"),
    ],
)
def test_in_a_gap_it_runs_right_after_it_and_in_an_overlap_once_at_the_first(
    zone: tzinfo, hour: int, minute: int, day: str, expected: str
) -> None:
    trigger = CalendarIntervalTrigger(days=1, hour=hour, minute=minute, start_date=day, timezone=zone)
    fire_times = trigger.preview(2, datetime(2026, 1, 1, tzinfo=UTC))
    assert fire_times[0].isoformat() == expected
    following = fire_times[1]
    assert (following.date() - fire_times[0].date(), following.hour, following.minute) == (DAY, hour, minute)


def test_a_gap_that_reaches_into_the_next_day_does_not_lose_the_run() -> None:
    # Clocks went from 23:30 to 00:30 of the next day.
    toronto = ZoneInfo("America/Toronto")
    trigger = CalendarIntervalTrigger(days=1, hour=23, minute=45, start_date="1919-03-30", timezone=toronto)
    found = [moment.isoformat() for moment in trigger.preview(2, datetime(1919, 3, 30, tzinfo=UTC))]
    assert found == ["1919-03-31T00:30:00-04:00", "1919-03-31T23:45:00-04:00"]


def test_a_date_that_the_zone_left_out_is_skipped() -> None:
    trigger = CalendarIntervalTrigger(days=1, hour=12, start_date="2011-12-29", timezone=APIA)
    assert dates(trigger, 3, datetime(2011, 12, 1, tzinfo=UTC)) == ["2011-12-29", "2011-12-31", "2012-01-01"]


def brute_force(options: dict[str, Any], after: datetime, n: int) -> list[int]:
    """Walk day by day through what the calendar says, knowing nothing of the trigger's ways."""
    day, zone = options["start_date"], options["timezone"]
    wall = time(options["hour"], options["minute"])
    found: list[int] = []
    while len(found) < n:
        moment = first_moment(datetime.combine(day, wall), zone)
        if moment is not None and to_micros(moment) >= to_micros(after):
            found.append(to_micros(moment))
        day = next_date(day, options)
    return found


def first_moment(wall: datetime, zone: tzinfo) -> datetime | None:
    """Look at every quarter of an hour for the first that shows ``wall`` or, on the same date, something later."""
    moment = wall.replace(tzinfo=UTC) - timedelta(hours=27)
    local = moment.astimezone(zone).replace(tzinfo=None)
    while local < wall:
        moment += timedelta(minutes=15)
        local = moment.astimezone(zone).replace(tzinfo=None)
    return moment.astimezone(zone) if local.date() == wall.date() else None


def next_date(day: date, options: dict[str, Any]) -> date:
    months = options["months"]
    year, month = day.year, day.month
    while months:
        year, month = year + (month - 1 + months) // 12, (month - 1 + months) % 12 + 1
        try:
            day = day.replace(year=year, month=month)
            break
        except ValueError:
            continue
    return day + timedelta(days=options["days"])


@given(
    st.sampled_from([(0, 1), (0, 3), (0, 7), (1, 0), (2, 0), (5, 0), (1, 1), (12, 0)]),
    st.dates(date(2010, 1, 1), date(2011, 12, 31)),
    st.integers(0, 23),
    st.sampled_from([0, 15, 30]),
    st.sampled_from([UTC, BERLIN, APIA, CAIRO, NUUK, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("America/Sao_Paulo")]),
    st.datetimes(datetime(2009, 12, 1), datetime(2012, 12, 31), timezones=st.just(UTC)),
)
def test_it_agrees_with_a_walk_through_the_calendar(
    step: tuple[int, int], start: date, hour: int, minute: int, zone: tzinfo, after: datetime
) -> None:
    options = {
        "months": step[0],
        "days": step[1],
        "start_date": start,
        "hour": hour,
        "minute": minute,
        "timezone": zone,
    }
    trigger = CalendarIntervalTrigger(**options)  # type: ignore[arg-type]
    found = trigger.preview(6, after)
    assert [to_micros(moment) for moment in found] == brute_force(options, after, 6)
    assert all(moment.tzinfo is zone for moment in found)


@given(st.integers(0, 200_000), st.integers(1, 3))
def test_jitter_never_skips_a_day(jitter: int, days: int) -> None:
    trigger = CalendarIntervalTrigger(
        days=days, hour=23, minute=59, start_date="2026-03-20", timezone=BERLIN, jitter=jitter
    )
    nominal = trigger.preview(16, datetime(2026, 1, 1, tzinfo=UTC))
    moment: datetime | None = None
    for expected, following in itertools.pairwise(nominal):
        moment = trigger.get_next_fire_time(moment, datetime(2026, 1, 1, tzinfo=UTC))
        assert moment is not None
        assert to_micros(expected) <= to_micros(moment) < to_micros(following)
        assert to_micros(moment) - to_micros(expected) <= jitter * 1_000_000


def test_jitter_does_not_pass_the_end_date() -> None:
    trigger = CalendarIntervalTrigger(
        days=1, hour=23, start_date="2026-01-01", end_date="2026-01-01", timezone=BERLIN, jitter=86_400
    )
    for _ in range(50):
        fire_time = trigger.get_next_fire_time(None, datetime(2026, 1, 1, tzinfo=UTC))
        assert fire_time is not None
        assert fire_time.date() == date(2026, 1, 1)
        assert trigger.get_next_fire_time(fire_time, fire_time) is None


def test_after_a_previous_time_of_another_sequence_it_is_back_on_its_own() -> None:
    trigger = CalendarIntervalTrigger(months=1, hour=3, start_date="2026-01-15", timezone=UTC)
    previous = datetime(2026, 4, 20, 7, tzinfo=UTC)
    assert trigger.get_next_fire_time(previous, previous) == datetime(2026, 5, 15, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    "options", [{"days": 1}, {"months": 1}, {"years": 1, "days": 1}, {"months": 1, "days": 1}, {"weeks": 1}]
)
def test_a_start_in_year_one_is_reached_and_the_calendar_ends(options: dict[str, int]) -> None:
    trigger = CalendarIntervalTrigger(start_date="0001-01-01", timezone=BERLIN, **options)  # type: ignore[arg-type]
    now = datetime(2026, 6, 1, tzinfo=UTC)
    first = trigger.get_next_fire_time(None, now)
    assert first is not None
    assert first >= now
    last = datetime(9999, 12, 31, 12, tzinfo=UTC)
    assert trigger.get_next_fire_time(last, last) is None


def test_the_backlog_is_counted_by_date() -> None:
    trigger = CalendarIntervalTrigger(days=1, hour=2, minute=30, start_date="2026-03-01", timezone=BERLIN, jitter=60)
    first = datetime(2026, 3, 27, 2, 30, tzinfo=BERLIN)
    backlog = trigger.backlog(first, datetime(2026, 3, 30, 2, 30, tzinfo=BERLIN), keep=2)
    assert (backlog.count, backlog.exact) == (4, True)
    assert [moment.isoformat() for moment in backlog.latest] == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_it_prints_as_in_apscheduler() -> None:
    trigger = CalendarIntervalTrigger(
        years=1,
        months=5,
        weeks=6,
        days=8,
        hour=3,
        second=8,
        start_date="2016-03-05",
        end_date="2020-12-25",
        timezone=BERLIN,
    )
    text = (
        "CalendarIntervalTrigger(years=1, months=5, weeks=6, days=8, time='03:00:08', start_date='2016-03-05', "
        "end_date='2020-12-25', timezone='Europe/Berlin')"
    )
    assert repr(trigger) == text
    assert str(trigger) == text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"months": 2, "hour": 3}, "every 2 months at 03:00 Europe/Berlin from 2026-01-02"),
        ({"days": 1, "second": 5}, "every day at 00:00:05 Europe/Berlin from 2026-01-02"),
        (
            {"years": 1, "weeks": 2, "end_date": "2030-01-01", "jitter": 5},
            "every 1 year and 2 weeks at 00:00 Europe/Berlin from 2026-01-02 until 2030-01-01, "
            "delayed by up to 5 seconds",
        ),
        (
            {"months": 1, "start_date": "2026-01-31"},
            "every month at 00:00 Europe/Berlin from 2026-01-31, skipping months without a day 31",
        ),
    ],
)
def test_it_explains_itself(options: dict[str, Any], words: str) -> None:
    defaults: dict[str, Any] = {"start_date": "2026-01-02", "timezone": BERLIN}
    assert CalendarIntervalTrigger(**(defaults | options)).explain() == words


@pytest.mark.parametrize("start_date", ["2026-01-31", None])
def test_it_survives_pickling(start_date: str | None) -> None:
    trigger = CalendarIntervalTrigger(months=1, hour=3, start_date=start_date, timezone=BERLIN, jitter=5)
    copy = pickle.loads(pickle.dumps(trigger))
    assert repr(copy) == repr(trigger)
    assert (copy.jitter, copy.floating) == (5, start_date is None)
    assert copy.same_schedule_as(trigger)
    with pytest.raises(ValueError, match="version 2 of CalendarIntervalTrigger"):
        copy.__setstate__(trigger.__getstate__() | {"version": 2})


def test_an_open_start_does_not_make_another_schedule_but_jitter_and_time_do() -> None:
    stored = CalendarIntervalTrigger(days=2, hour=3, timezone=UTC).anchored(datetime(2026, 1, 1, tzinfo=UTC))
    assert stored.same_schedule_as(CalendarIntervalTrigger(days=2, hour=3, timezone=UTC))
    for options in ({"days": 3}, {"hour": 4}, {"jitter": 1}, {"start_date": "2026-01-01"}, {"timezone": BERLIN}):
        changed: dict[str, Any] = {"days": 2, "hour": 3, "timezone": UTC} | options
        assert not stored.same_schedule_as(CalendarIntervalTrigger(**changed))


def test_it_has_no_dict() -> None:
    assert not hasattr(CalendarIntervalTrigger(days=1), "__dict__")
