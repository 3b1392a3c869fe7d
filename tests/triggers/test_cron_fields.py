"""Keyword fields: what they accept, what they match, what they refuse."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.errors import InvalidArgument, NeverFires
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.cron.expressions import (
    MONTHS,
    WEEKDAYS,
    AllExpression,
    LastDayOfMonthExpression,
    MonthRangeExpression,
    RangeExpression,
    WeekdayPositionExpression,
    WeekdayRangeExpression,
)
from goscheduler.triggers.cron.fields import BaseField, DayOfMonthField

UTC = timezone.utc


def _matching(field: str, text: str | int) -> list[int]:
    trigger = CronTrigger(**{field: text}, timezone=UTC)  # type: ignore[arg-type]
    return sorted(next(part for part in trigger.fields if part.name == field).values)


@pytest.mark.parametrize(
    ("field", "text", "values"),
    [
        ("minute", 5, [5]),
        ("minute", "*/20", [0, 20, 40]),
        ("month", "*/4", [1, 5, 9]),
        ("minute", "50/4", [50, 54, 58]),
        ("minute", "1-9/3", [1, 4, 7]),
        ("minute", " 1 , 3-4 ", [1, 3, 4]),
        ("minute", "7-7", [7]),
        ("day_of_week", "0", [0]),
        ("day_of_week", "mon-fri", [0, 1, 2, 3, 4]),
        ("day_of_week", "mon-fri/2", [0, 2, 4]),
        ("day_of_week", "fri-mon", [0, 4, 5, 6]),
        ("day_of_week", "Monday,SUN", [0, 6]),
        ("day_of_week", "mon-mon", [0]),
        ("month", "jan-dec/3", [1, 4, 7, 10]),
        ("month", "nov-feb", [1, 2, 11, 12]),
        ("month", "January,may", [1, 5]),
        ("month", "oct/2", [10, 12]),
    ],
)
def test_a_field_matches_the_values_it_names(field: str, text: str | int, values: list[int]) -> None:
    assert _matching(field, text) == values


@pytest.mark.parametrize(
    ("given", "defaults"),
    [
        (
            {"hour": 5},
            {"year": "*", "month": "*", "day": "*", "week": "*", "day_of_week": "*", "minute": "0", "second": "0"},
        ),
        (
            {"year": 2030},
            {"month": "1", "day": "1", "week": "*", "day_of_week": "*", "hour": "0", "minute": "0", "second": "0"},
        ),
        (
            {"day_of_week": "fri"},
            {"year": "*", "month": "*", "day": "*", "week": "*", "hour": "0", "minute": "0", "second": "0"},
        ),
        ({"week": 8}, {"month": "*", "day": "*", "day_of_week": "*", "hour": "0", "minute": "0", "second": "0"}),
        ({"second": 1}, {"hour": "*", "minute": "*"}),
    ],
)
def test_a_field_left_out_is_everything_or_its_lowest_by_significance(
    given: dict[str, int | str], defaults: dict[str, str]
) -> None:
    fields = {field.name: field for field in CronTrigger(**given, timezone=UTC).fields}  # type: ignore[arg-type]
    assert {name: str(fields[name]) for name in defaults} == defaults
    assert all(field.is_default is (name not in given) for name, field in fields.items())


def test_a_trigger_without_any_field_fires_every_second() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert CronTrigger(timezone=UTC).preview(3, start) == [start + timedelta(seconds=n) for n in range(3)]


def test_day_and_day_of_week_must_both_match() -> None:
    trigger = CronTrigger(day=13, day_of_week="fri", timezone=UTC)
    assert [moment.date() for moment in trigger.preview(3, datetime(2026, 1, 1, tzinfo=UTC))] == [
        date(2026, 2, 13),
        date(2026, 3, 13),
        date(2026, 11, 13),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"day": "1st fri"}, ["2026-01-02", "2026-02-06"]),
        ({"day": "4TH Wed"}, ["2026-01-28", "2026-02-25"]),
        ({"day": "last"}, ["2026-01-31", "2026-02-28"]),
        ({"day": "last  sunday"}, ["2026-01-25", "2026-02-22"]),
        ({"day": "5th fri"}, ["2026-01-30", "2026-05-29"]),
        ({"day": "last,1"}, ["2026-01-01", "2026-01-31"]),
        ({"day_of_week": "2nd mon"}, ["2026-01-12", "2026-02-09"]),
        ({"week": 8}, ["2026-02-16", "2026-02-17"]),
        ({"week": 15, "day_of_week": 2}, ["2026-04-08", "2027-04-14"]),
        ({"month": 2, "day": 29}, ["2028-02-29", "2032-02-29"]),
    ],
)
def test_dates_by_place_week_and_leap_year(fields: dict[str, int | str], expected: list[str]) -> None:
    trigger = CronTrigger(**fields, timezone=UTC)  # type: ignore[arg-type]
    assert [str(moment.date()) for moment in trigger.preview(2, datetime(2026, 1, 1, tzinfo=UTC))] == expected


def test_week_53_on_a_monday_fires_only_in_years_that_have_one() -> None:
    trigger = CronTrigger(week=53, day_of_week="mon", timezone=UTC)
    dates = [moment.date() for moment in trigger.preview(3, datetime(2025, 1, 1, tzinfo=UTC))]
    assert dates == [date(2026, 12, 28), date(2032, 12, 27), date(2037, 12, 28)]


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("minute", "60", "Error validating expression '60': the last value (60) is higher than the maximum value (59)"),
        (
            "minute",
            "*/60",
            "Error validating expression '*/60': the step value (60) is higher than the total range of the",
        ),
        ("minute", "5-10/7", "the step value (7) is higher than the total range of the expression (5)"),
        ("minute", "*/" + "9" * 400, "is higher than the total range"),
        ("minute", "*/0", "Increment must be higher than 0"),
        ("hour", "22-2", "The minimum value in a range must not be higher than the maximum; write 22-23,0-2"),
        ("minute", "30-10", "write 30-59,0-10"),
        ("month", "11-2", "write 11-12,1-2"),
        ("day", "0", "the first value (0) is lower than the minimum value (1)"),
        ("day", "32", "the last value (32) is higher than the maximum value (31)"),
        ("month", "13", "the last value (13) is higher than the maximum value (12)"),
        ("day_of_week", "7", "the last value (7) is higher than the maximum value (6)"),
        ("year", "1", "the first value (1) is lower than the minimum value (1970)"),
        ("year", "99999", "the last value (99999) is higher than the maximum value (9999)"),
        ("day_of_week", "foo", 'Invalid weekday name "foo"'),
        ("day", "1st foo", 'Invalid weekday name "foo"'),
        ("month", "foo-bar", 'Invalid month name "foo"'),
        ("day_of_week", "mon tue", 'Unrecognized expression "mon tue" for field "day_of_week"'),
        ("day", "last-2", 'Unrecognized expression "last-2" for field "day"'),
        ("day", "lastfoo", 'Unrecognized expression "lastfoo" for field "day"'),
        ("day", "6th fri", 'Unrecognized expression "6th fri" for field "day"'),
        ("month", "jan-3", 'Unrecognized expression "jan-3" for field "month"'),
        ("minute", "jan", 'Unrecognized expression "jan" for field "minute"'),
        ("minute", "", 'Unrecognized expression "" for field "minute"'),
        ("minute", "1\x00", r'Unrecognized expression "1\x00" for field "minute"'),
        ("minute", "²", 'Unrecognized expression "²" for field "minute"'),
        ("minute", "٣", 'Unrecognized expression "٣" for field "minute"'),
        ("minute", "1\n", r'Unrecognized expression "1\n" for field "minute"'),
        ("minute", "a" * 100_000, "is too long"),
        ("minute", ",".join("1" * 65), "is too long"),
        pytest.param("minute", 10**5000, "has too many digits", id="5000 digits"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused_with_its_name(field: str, text: str | int, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        CronTrigger(**{field: text}, timezone=UTC)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert field in str(caught.value)
    assert caught.value.field == field
    assert len(str(caught.value)) < 1000
    assert "\x00" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "*/-1",
        "-1",
        "+5",
        "1.5",
        "1e1",
        "0x10",
        "1,,2",
        ",1",
        "1,",
        "1-2-3",
        "1/2/3",
        "*/",
        "/5",
        "-",
        "*-5",
        "**",
        "1 2",
        "(a+)+$",
        "L",
        "?",
        "H",
        "1#2",
        "15W",
    ],
)
def test_a_malformed_expression_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r'Unrecognized expression ".*" for field "minute"'):
        CronTrigger(minute=text, timezone=UTC)


@pytest.mark.parametrize("value", [1.5, True, b"1", [1], object()])
def test_a_field_of_the_wrong_type_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match='field "minute"'):
        CronTrigger(minute=value, timezone=UTC)  # type: ignore[arg-type]


def test_an_unknown_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="third"):
        CronTrigger(second=0, third=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "fields",
    [
        {"month": 2, "day": 30},
        {"month": 2, "day": 31},
        {"month": "4,6", "day": 31},
        {"month": 2, "day": "5th mon", "year": "2025-2027"},
        {"month": 2, "day": 29, "year": "1971-2099/4"},
        {"week": 1, "month": 6},
        {"day": "1-7", "day_of_week": "last mon", "month": 3},
    ],
)
def test_a_schedule_without_a_single_date_is_refused(fields: dict[str, int | str]) -> None:
    with pytest.raises(NeverFires, match="never fires"):
        CronTrigger(**fields, timezone=UTC)  # type: ignore[arg-type]


def test_a_year_that_makes_a_rare_date_possible_is_found_behind_many_that_do_not() -> None:
    trigger = CronTrigger(year="1971-8000/4,8004", month=2, day=29, timezone=UTC)
    assert trigger.preview(2, datetime(2026, 1, 1, tzinfo=UTC)) == [datetime(8004, 2, 29, tzinfo=UTC)]


def test_a_year_in_the_past_can_be_written_and_has_no_more_fire_times() -> None:
    trigger = CronTrigger(year=1999, timezone=UTC)
    assert trigger.get_next_fire_time(None, datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("expression", "text", "form"),
    [
        (AllExpression(), "*", "AllExpression()"),
        (AllExpression(5), "*/5", "AllExpression(5)"),
        (RangeExpression(1), "1", "RangeExpression(1)"),
        (RangeExpression(1, 3, 2), "1-3/2", "RangeExpression(1, 3, 2)"),
        (RangeExpression(5, None, 2), "5/2", "RangeExpression(5, None, 2)"),
        (MonthRangeExpression("dec"), "dec", "MonthRangeExpression('dec')"),
        (MonthRangeExpression("jan", "mar"), "jan-mar", "MonthRangeExpression('jan', 'mar')"),
        (WeekdayRangeExpression("monday", "fri", 2), "mon-fri/2", "WeekdayRangeExpression('mon', 'fri', 2)"),
        (WeekdayPositionExpression("last", "fri"), "last fri", "WeekdayPositionExpression('last', 'fri')"),
        (LastDayOfMonthExpression(), "last", "LastDayOfMonthExpression()"),
    ],
)
def test_an_expression_prints_as_it_is_written(expression: object, text: str, form: str) -> None:
    assert str(expression) == text
    assert repr(expression) == form
    assert eval(form) == expression


def test_expressions_and_fields_compare_by_all_they_say() -> None:
    assert RangeExpression(1, 9) != RangeExpression(1, 9, 2)
    assert BaseField("hour", "1-3") == BaseField("hour", "1-3", is_default=True)
    assert BaseField("hour", "1") != BaseField("minute", "1")
    assert hash(BaseField("hour", 1)) == hash(BaseField("hour", "1"))
    assert repr(DayOfMonthField("day", "last, 2")) == "DayOfMonthField('day', 'last,2')"


def test_a_place_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="6th"):
        WeekdayPositionExpression("6th", "fri")


@st.composite
def _date_fields(draw: st.DrawFn) -> dict[str, str]:
    numbers = {"month": (1, 12), "day": (1, 31), "week": (1, 53), "day_of_week": (0, 6)}
    fields = {}
    for name, (lowest, highest) in numbers.items():
        items = st.integers(lowest, highest).map(str)
        if name == "day":
            places = st.builds(
                "{} {}".format, st.sampled_from(["1st", "3rd", "5th", "last"]), st.sampled_from(WEEKDAYS)
            )
            items = st.one_of(items, places, st.just("last"))
        if name == "month":
            items = st.one_of(items, st.sampled_from(MONTHS))
        if draw(st.booleans()):
            fields[name] = ",".join(draw(st.lists(items, min_size=1, max_size=15)))
    return fields


def _date_matches(fields: dict[str, str], day: date) -> bool:
    """Read the date fields literally."""
    last_of_month = (day + timedelta(days=1)).day == 1
    in_last_week = (day + timedelta(days=7)).month != day.month
    place = f"{['1st', '2nd', '3rd', '4th', '5th'][(day.day - 1) // 7]} {WEEKDAYS[day.weekday()]}"
    names = {
        "month": {str(day.month), MONTHS[day.month - 1]},
        "week": {str(day.isocalendar()[1])},
        "day_of_week": {str(day.weekday())},
        "day": {str(day.day), place}
        | ({"last"} if last_of_month else set())
        | ({f"last {WEEKDAYS[day.weekday()]}"} if in_last_week else set()),
    }
    return all(names[name] & set(text.split(",")) for name, text in fields.items())


@given(fields=_date_fields(), start=st.dates(date(1999, 1, 1), date(2050, 1, 1)))
def test_dates_agree_with_a_literal_reading_of_the_fields_day_by_day(fields: dict[str, str], start: date) -> None:
    days = [start + timedelta(days=n) for n in range(800)]
    expected = [day for day in days if _date_matches(fields, day)]
    try:
        trigger = CronTrigger(**fields, hour=0, timezone=UTC)  # type: ignore[arg-type]
    except NeverFires:
        assert expected == []
        return
    first = datetime(start.year, start.month, start.day, tzinfo=UTC)
    found = [moment.date() for moment in trigger.preview(len(expected) + 1, first)]
    assert [day for day in found if day <= days[-1]] == expected
    if expected:
        backlog = trigger.backlog(_midnight(expected[0]), _midnight(days[-1]), 3)
        assert backlog == (len(expected), tuple(map(_midnight, expected[-3:])), True)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
