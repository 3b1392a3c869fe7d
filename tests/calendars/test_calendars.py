"""Calendars: when they are open, why they are closed, and how they are combined."""

from __future__ import annotations

import functools
import operator
import pickle
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import MINUTE, minutes_shown, zones_by_behaviour
from rows import each_row

from goscheduler.calendars import Calendar, Dates, DayCalendar, Holidays, Hours, Named, Weekdays
from goscheduler.calendars.named import know_calendar
from goscheduler.codec import CodecError, decode, dumps, encode, loads
from goscheduler.errors import InvalidArgument

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
DAY = timedelta(days=1)
WORK = Weekdays("mon-fri") - Holidays("DE", subdiv="BY")
OFFICE = Hours("09:00-12:00", "13:00-17:30") & WORK
#: Christmas Day, a Friday.
CHRISTMAS = datetime(2026, 12, 25, 9, tzinfo=BERLIN)


@each_row(
    ("calendar", "next_open", "closed_since", "last_open", "why"),
    [
        (WORK, "2026-12-28 00:00", "2026-12-25 00:00", "2026-12-24 23:59", "Christmas Day"),
        (OFFICE, "2026-12-28 09:00", "2026-12-24 17:30", "2026-12-24 17:29", "Christmas Day"),
        (Weekdays("sat,sun"), "2026-12-26 00:00", "2026-12-21 00:00", "2026-12-20 23:59", "Friday"),
        (Hours("10:00-24:00"), "2026-12-25 10:00", "2026-12-25 00:00", "2026-12-24 23:59",
         "09:00 is outside 10:00-24:00"),
        (Dates("12-31"), "2026-12-31 00:00", "2026-01-01 00:00", "2025-12-31 23:59", "2026-12-25 is not in its dates"),
        (WORK & Weekdays("sat"), None, None, None, "Christmas Day"),
        (WORK | Dates("2026-12-26"), "2026-12-26 00:00", "2026-12-25 00:00", "2026-12-24 23:59",
         "Christmas Day, 2026-12-25 is not in its dates"),
        (WORK - Hours("23:00-24:00", "00:00-10:00", timezone="UTC"), "2026-12-28 11:00", "2026-12-25 00:00",
         "2026-12-24 23:59", "Christmas Day"),
    ],
)  # fmt: skip
def test_a_closed_calendar_says_until_when_since_when_and_why(
    calendar: Calendar, next_open: str | None, closed_since: str | None, last_open: str | None, why: str
) -> None:
    found = [calendar.next_open(CHRISTMAS), calendar.closed_since(CHRISTMAS), calendar.last_open(CHRISTMAS)]
    assert [moment and f"{moment:%Y-%m-%d %H:%M}" for moment in found] == [next_open, closed_since, last_open]
    assert (calendar.is_open(CHRISTMAS), calendar.why(CHRISTMAS)) == (False, why)


def test_an_open_calendar_has_no_reason_and_says_when_it_closes() -> None:
    monday = datetime(2026, 12, 28, 11, tzinfo=BERLIN)
    assert OFFICE.why(monday) == ""
    assert OFFICE.next_open(monday) == OFFICE.last_open(monday) == monday
    assert OFFICE.next_closed(monday) == monday.replace(hour=12)
    assert Weekdays("mon-sun").next_closed(monday) is None
    assert Hours("00:00-24:00").next_closed(monday) is None


def test_a_zone_of_its_own_goes_before_that_of_the_moment() -> None:
    tokyo = Weekdays("mon-fri", timezone="Asia/Tokyo")
    sunday_night = datetime(2026, 5, 3, 18, tzinfo=UTC)
    assert tokyo.is_open(sunday_night)
    assert not Weekdays("mon-fri").is_open(sunday_night)
    assert (tokyo & Weekdays("mon")).next_open(sunday_night) == datetime(2026, 5, 4, tzinfo=UTC)


def test_it_is_explained() -> None:
    assert OFFICE.explain() == "09:00-12:00, 13:00-17:30 and (Monday to Friday without holidays of DE-BY)"
    assert Dates("2026-05-01", "12-24/12-26", "2027-01-01", "2028-01-01").explain().endswith("2027-01-01 and 1 more")
    assert Dates("2026-05-01", name="shutdown").explain() == "shutdown"
    assert (Weekdays("mon,wed", timezone="UTC") | Named("more")).explain() == 'Monday, Wednesday (UTC) or "more"'


@each_row(
    ("make", "field", "told"),
    [
        (lambda: Weekdays("mun-fri"), "days", "did you mean"),
        (lambda: Weekdays(""), "days", "mon-fri"),
        (lambda: Weekdays([]), "days", "weekdays"),
        (lambda: Weekdays("mon-wed-fri"), "days", "two"),
        (lambda: Weekdays(5), "days", "5"),
        (lambda: Weekdays("mon", timezone="Mars/Phobos"), "timezone", "Mars"),
        (lambda: Hours("17:30-09:00"), "hours", "write 17:30-24:00 and 00:00-09:00"),
        (lambda: Hours("09:00-09:00"), "hours", "end before they begin"),
        (lambda: Hours("22:00-00:00"), "hours", "write 22:00-24:00"),
        (lambda: Hours("09:00-24:01"), "hours", "24:00"),
        (lambda: Hours("09:60-10:00"), "hours", "24:00"),
        (lambda: Hours("9-17"), "hours", "09:00-17:30"),
        (lambda: Hours(), "hours", "1 to 50"),
        (lambda: Hours(9), "hours", "9"),
        (lambda: Dates(), "dates", "1 to"),
        (lambda: Dates("2026-13-01"), "dates", "2026-13-01"),
        (lambda: Dates("02-30"), "dates", "02-30"),
        (lambda: Dates("2026-12-24/2026-12-20"), "dates", "ends before it begins"),
        (lambda: Dates("12-24/01-02"), "dates", "up to 12-31"),
        (lambda: Dates("2026-12-24/12-26"), "dates", "two with a slash"),
        (lambda: Dates(datetime(2026, 1, 1)), "dates", "dates"),
        (lambda: Dates("2026-01-01", name=5), "name", "5"),
        (lambda: Holidays("XX"), "country", "'XX'"),
        (lambda: Holidays(""), "country", "''"),
        (lambda: Holidays(5), "country", "5"),
        (lambda: Holidays("DE", subdiv="Bayern-Süd"), "subdiv", "BY"),
        (lambda: Holidays("DE", categories="bang"), "categories", "bang"),
        (lambda: Named(""), "name", "1 to 100"),
        (lambda: Named(5), "name", "5"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(make: Callable[[], Calendar], field: str, told: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.field == field
    assert told in str(caught.value)


def test_only_calendars_are_combined_and_not_without_end() -> None:
    with pytest.raises(TypeError):
        WORK | "mon"  # type: ignore[operator]
    with pytest.raises(InvalidArgument, match="deep"):
        functools.reduce(operator.or_, [Hours("09:00-10:00")] * 100)


def test_a_named_calendar_is_what_its_name_stands_for_now() -> None:
    calendar = WORK - Named("more")
    with pytest.raises(InvalidArgument, match=r"add_calendar\('more'"):
        calendar.is_open(datetime(2026, 12, 28, tzinfo=BERLIN))
    know_calendar("more", Dates("2026-12-28", name="inventory"))
    assert calendar.why(datetime(2026, 12, 28, tzinfo=BERLIN)) == 'inventory ("more")'
    know_calendar("more", Dates("2026-12-29"))
    assert calendar.is_open(datetime(2026, 12, 28, tzinfo=BERLIN))
    know_calendar("other", Named("more"))
    with pytest.raises(InvalidArgument, match="itself"):
        know_calendar("more", WORK - Named("other"))


def test_a_calendar_of_ones_own_needs_one_method() -> None:
    class OddDays(DayCalendar):
        def is_open_on(self, day: date) -> bool:
            return day.day % 2 == 1

        def told(self, moment: datetime) -> str:
            return f"day {moment.day}"

        def explain(self) -> str:
            return "odd days"

        def __getstate__(self) -> dict[str, object]:
            return {}

        def __setstate__(self, state: object) -> None:
            pass

    assert (OddDays() & Weekdays("mon-fri")).next_open(CHRISTMAS.replace(day=26)) == datetime(
        2026, 12, 29, tzinfo=BERLIN
    )


CALENDARS = [
    Weekdays("fri-mon", timezone="UTC"), Hours("09:00-17:30"), Dates("2026-12-24/2027-01-02", "02-29", name="x"),
    Holidays("US", categories=["public"]), Holidays("XNYS"), Named("later"), OFFICE, WORK,
]  # fmt: skip


@pytest.mark.parametrize("calendar", CALENDARS, ids=lambda calendar: calendar.explain())
def test_it_comes_out_of_a_store_as_it_went_in(calendar: Calendar) -> None:
    for copy in (loads(dumps(calendar)), pickle.loads(pickle.dumps(calendar))):
        assert (copy, hash(copy), copy.explain()) == (calendar, hash(calendar), calendar.explain())
        if not calendar.names:
            assert copy.next_open(CHRISTMAS) == calendar.next_open(CHRISTMAS)


@each_row(
    ("calendar", "key", "value"),
    [
        (Weekdays("mon"), "days", [7]),
        (Weekdays("mon"), "days", []),
        (Weekdays("mon"), "days", ["mon"]),
        (Weekdays("mon"), "timezone", 5),
        (Hours("09:00-10:00"), "spans", [[10, 5]]),
        (Hours("09:00-10:00"), "spans", [[0.5, 5]]),
        (Hours("09:00-10:00"), "spans", [[-1, 5]]),
        (Hours("09:00-10:00"), "spans", []),
        (Dates("2026-01-01"), "dates", ["soon"]),
        (Dates("2026-01-01"), "dates", "2026-01-01"),
        (Dates("2026-01-01"), "dates", [5]),
        (Dates("2026-01-01"), "name", None),
        (Holidays("DE"), "country", None),
        (Holidays("DE"), "categories", [5]),
        (Named("x"), "name", ""),
        (WORK, "operator", "^"),
        (WORK, "left", 5),
        (WORK, "right", Hours("09:00-10:00")),
        (OFFICE, "left", None),
    ],
)
def test_a_stored_calendar_that_could_not_have_been_made_is_refused(
    calendar: Calendar, key: str, value: object
) -> None:
    record = encode(calendar)
    record["value"][key] = encode(value)
    with pytest.raises(CodecError):
        decode(record)


# Against a walk minute by minute around clock changes


def _changes() -> st.SearchStrategy[tuple[str, datetime]]:
    zones = zones_by_behaviour(2020, 2037)
    names = st.sampled_from(sorted(name for name, changes in zones.items() if changes))
    return names.flatmap(lambda name: st.tuples(st.just(name), st.sampled_from(zones[name])))


NAMES = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
#: Tells whether it is open in a minute, from the wall time of that and from the latest that clocks have shown so far.
Rule = Callable[[datetime, datetime], bool]


@st.composite
def rules(draw: st.DrawFn, zone: str, around: date, depth: int = 2) -> tuple[Calendar, Rule]:
    """Return a calendar, and the same rule read literally."""
    kind = draw(st.sampled_from(["days", "hours", "dates", *(["both"] * 3 if depth else [])]))
    if kind == "days":
        names = draw(st.sets(st.sampled_from(NAMES), min_size=1))
        return Weekdays(sorted(names)), lambda wall, _: NAMES[wall.weekday()] in names
    if kind == "dates":
        days = draw(st.sets(st.integers(-3, 3).map(lambda n: around + DAY * n), min_size=1))
        return Dates(*sorted(days)), lambda wall, _: wall.date() in days
    if kind == "hours":
        start = draw(st.integers(0, 1439))
        end = draw(st.integers(start + 1, 1440))
        text = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
        return Hours(text), lambda _, latest: _within(start, end, latest)
    (left, of_left), (right, of_right) = draw(rules(zone, around, depth - 1)), draw(rules(zone, around, depth - 1))
    sign = draw(st.sampled_from("|&-"))
    if sign == "|":
        return left | right, lambda wall, latest: of_left(wall, latest) or of_right(wall, latest)
    if sign == "&":
        return left & right, lambda wall, latest: of_left(wall, latest) and of_right(wall, latest)
    return left - right, lambda wall, latest: of_left(wall, latest) and not of_right(wall, latest)


def _within(start: int, end: int, latest: datetime) -> bool:
    """Tell whether clocks have shown the opening of some day, and not its closing yet."""
    midnights = (datetime.combine(latest.date() - DAY * days, time()) for days in (0, 1))
    return any(midnight + MINUTE * start <= latest < midnight + MINUTE * end for midnight in midnights)


@settings(max_examples=20)
@given(st.data())
def test_around_clock_changes_it_is_open_when_a_walk_by_minutes_says(data: st.DataObject) -> None:
    name, change = data.draw(st.deferred(_changes))
    zone = ZoneInfo(name)
    calendar, rule = data.draw(rules(name, change.astimezone(zone).date()))
    walk = minutes_shown(zone, change - 2 * DAY, change + 2 * DAY)
    expected, latest = {}, walk[0][1]
    for at, wall in walk:
        latest = max(latest, wall)
        expected[at] = rule(wall, latest)
    minutes = list(expected)
    for at in (data.draw(st.sampled_from(minutes)) for _ in range(6)):
        local = at.astimezone(zone)
        assert calendar.is_open(local) == expected[at], (calendar, local)
        following = next((each for each in minutes if each >= at and expected[each]), None)
        if following is not None:
            found = calendar.next_open(local)
            assert found is not None
            assert found.astimezone(UTC) == following, (calendar, local)
        closing = next((each for each in minutes if each >= at and not expected[each]), None)
        if closing is not None:
            found = calendar.next_closed(local)
            assert found is not None
            assert found.astimezone(UTC) == closing, (calendar, local)
        opened = [each for each in minutes if each < at and expected[each]]
        if opened and not expected[at]:
            found = calendar.closed_since(local)
            assert found is not None
            assert found.astimezone(UTC) == opened[-1] + MINUTE, (calendar, local)
