"""Zones, wall times, instants and what users write for them."""

from __future__ import annotations

import copy
import math
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
import pytz
from dateutil import tz as dateutil_tz
from dateutil.zoneinfo import get_zonefile_instance
from hypothesis import given
from hypothesis import strategies as st

from goscheduler import times
from goscheduler.errors import InvalidArgument
from goscheduler.times import zones

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
PYTZ_BERLIN = pytz.timezone("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
APIA = ZoneInfo("Pacific/Apia")
CHANGING_ZONES = [BERLIN, LORD_HOWE, APIA, ZoneInfo("America/New_York"), ZoneInfo("Africa/Cairo")]


class NamedZone(tzinfo):
    """A zone as libraries make them: with a ``zone`` attribute, or only a name."""

    def __init__(self, zone: str | None, name: str = "X") -> None:
        self.zone = zone
        self._name = name

    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, dt: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, dt: datetime | None) -> str:
        return self._name


@pytest.mark.parametrize(
    ("given_zone", "expected"),
    [
        (None, None),
        ("UTC", UTC),
        ("utc", UTC),
        ("Utc", UTC),
        ("Europe/Berlin", BERLIN),
        ("EST5EDT", ZoneInfo("EST5EDT")),
        ("Etc/GMT+5", ZoneInfo("Etc/GMT+5")),
        (BERLIN, BERLIN),
        (UTC, UTC),
        (timezone(timedelta(hours=2)), timezone(timedelta(hours=2))),
        (NamedZone("Europe/Berlin"), BERLIN),
    ],
)
def test_a_zone_is_found_by_name_or_taken_as_it_is(given_zone: object, expected: object) -> None:
    assert times.astimezone(given_zone) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [3, b"UTC", ["UTC"], timedelta(hours=1)])
def test_what_is_no_zone_is_a_type_error_that_names_the_type(value: object) -> None:
    with pytest.raises(TypeError, match=f"Expected tzinfo, got {type(value).__name__} instead"):
        times.astimezone(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "Mars/Phobos",
        "America",
        "../../etc/passwd",
        "/etc/passwd",
        "Europe/../Europe/Berlin",
        "Europe/Berlin\x00",
        "Europe/Berlin\n",
        "Europe//Berlin",
        "A" * 10240,
        "tzdata.zi",
        "\u202eUTC",
        "UTC+2 ",
    ],
)
def test_an_unknown_or_malicious_zone_name_is_refused_in_a_short_printable_message(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        times.astimezone(name)
    assert caught.value.field == "timezone"
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "Europe/Berlin\0", "x" * 10_240])
def test_a_malicious_zone_name_never_reaches_the_file_system(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(key: str) -> None:
        raise AssertionError(f"looked up {key}")

    monkeypatch.setattr(zones, "ZoneInfo", touched)
    with pytest.raises(InvalidArgument):
        times.astimezone(name)


def test_missing_zone_data_is_told_with_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoZones:
        def __init__(self, key: str) -> None:
            raise LookupError(key)

    monkeypatch.setattr(zones, "ZoneInfo", NoZones)
    with pytest.raises(InvalidArgument, match="install the package tzdata"):
        times.astimezone("Europe/Berlin")


@pytest.mark.parametrize("zone", [NamedZone("local"), NamedZone(None, name="local")])
def test_a_zone_that_only_knows_it_is_local_is_refused(zone: tzinfo) -> None:
    with pytest.raises(ValueError, match="Unable to determine the name of the local timezone"):
        times.astimezone(zone)


def test_zones_of_pytz_become_those_of_the_standard_library() -> None:
    assert times.astimezone(PYTZ_BERLIN) is BERLIN
    assert times.astimezone(pytz.utc) is UTC
    assert times.astimezone(pytz.FixedOffset(90)) == timezone(timedelta(minutes=90))
    moment = PYTZ_BERLIN.localize(datetime(2026, 7, 1, 12))
    converted = times.convert_to_datetime(moment, None, "run_date")
    assert converted == datetime(2026, 7, 1, 12, tzinfo=BERLIN)
    assert converted.tzinfo is BERLIN


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (dateutil_tz.gettz("Europe/Berlin"), BERLIN),
        (get_zonefile_instance().get("America/Lima"), ZoneInfo("America/Lima")),
        (dateutil_tz.tzutc(), UTC),
        (dateutil_tz.tzoffset("BRST", -10800), timezone(timedelta(hours=-3))),
    ],
    ids=["a file", "the archive of dateutil", "UTC", "an offset"],
)
def test_zones_of_dateutil_become_those_of_the_standard_library(theirs: tzinfo, ours: tzinfo) -> None:
    assert times.astimezone(theirs) == ours


@pytest.mark.parametrize("zone", [dateutil_tz.tzstr("EST5EDT"), NamedZone(None)], ids=["rules", "own"])
def test_a_zone_without_a_name_whose_offset_changes_stays_what_it_is(zone: tzinfo) -> None:
    assert times.astimezone(zone) is zone


def test_a_zone_file_of_the_users_own_is_not_taken_for_one_of_the_database() -> None:
    own = copy.copy(dateutil_tz.gettz("Europe/Berlin"))
    own._filename = "/home/me/zoneinfo/My/Place"
    assert times.astimezone(own) is own


@pytest.mark.parametrize(("hour", "shown"), [(1, "01:30 CET"), (2, "03:30 CEST"), (3, "03:30 CEST")])
def test_a_wall_time_in_a_zone_of_pytz_has_the_offset_of_that_day(hour: int, shown: str) -> None:
    wall = datetime(2026, 3, 29, hour, 30)
    assert f"{times.normalize(times.localize(wall, PYTZ_BERLIN)):%H:%M %Z}" == shown


def test_what_arithmetic_leaves_in_a_zone_of_pytz_is_put_right_by_normalize() -> None:
    moment = times.localize(datetime(2026, 3, 28, 12), PYTZ_BERLIN) + timedelta(days=1)
    assert f"{times.normalize(moment):%H:%M %Z}" == "13:00 CEST"


def test_the_zone_of_this_machine_is_one_of_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tzlocal.get_localzone", lambda: PYTZ_BERLIN)
    assert times.local_timezone() is BERLIN


@pytest.mark.parametrize("error", [LookupError("no"), ValueError("no"), OSError("no"), UserWarning("no")])
def test_a_machine_whose_zone_cannot_be_told_is_taken_to_be_in_utc(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> tzinfo:
        raise error

    monkeypatch.setattr("tzlocal.get_localzone", fail)
    assert times.local_timezone() is UTC
    assert "using UTC" in caplog.text


def test_the_zone_of_the_machine_comes_from_tzlocal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tzlocal.get_localzone", lambda: BERLIN)
    assert times.local_timezone() is BERLIN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=BERLIN)),
        ("2026-1-2", datetime(2026, 1, 2, tzinfo=BERLIN)),
        ("2026-01-02 03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=BERLIN)),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=BERLIN)),
        ("2026-01-02 3:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=BERLIN)),
        ("2026-01-02T03:04", datetime(2026, 1, 2, 3, 4, tzinfo=BERLIN)),
        ("2026-01-02 03:04:05.5", datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=BERLIN)),
        ("2026-01-02 03:04:05.000005", datetime(2026, 1, 2, 3, 4, 5, 5, tzinfo=BERLIN)),
        ("2026-01-02 03:04:05.123456789", datetime(2026, 1, 2, 3, 4, 5, 123_456, tzinfo=BERLIN)),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))),
        ("2026-01-02T03:04:05+0200", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))),
        ("2026-01-02T03:04-05:30", datetime(2026, 1, 2, 3, 4, tzinfo=timezone(-timedelta(hours=5, minutes=30)))),
        ("  2026-01-02\n", datetime(2026, 1, 2, tzinfo=BERLIN)),
        ("2026-03-29 02:30:00", datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN)),
    ],
)
def test_a_date_string_is_read_in_the_given_zone_unless_it_has_its_own(text: str, expected: datetime) -> None:
    moment = times.convert_to_datetime(text, BERLIN, "run_date")
    assert moment == expected
    assert moment.tzinfo == expected.tzinfo


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "expected YYYY-MM-DD"),
        ("tomorrow", "expected YYYY-MM-DD"),
        ("2026-01-02Z", "expected YYYY-MM-DD"),
        ("2026-01-02 03", "expected YYYY-MM-DD"),
        ("2026-01-02 03:04:05 x", "expected YYYY-MM-DD"),
        ("٢٠٢٦-01-02", "expected YYYY-MM-DD"),
        ("2026-01-02\x00", "expected YYYY-MM-DD"),
        ("2026-02-30", "day"),
        ("2026-13-01", "month"),
        ("2026-01-02 24:00:00", "hour"),
        ("2026-01-02 23:59:60", "second"),
        ("2026-01-02 03:04:05+02:75", "offset"),
        ("2026-01-02 03:04:05+25:00", "timedelta|offset"),
        ("9" * 100_000, "expected YYYY-MM-DD"),
    ],
)
def test_an_impossible_date_string_is_refused_naming_field_and_value(value: str, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=f"Invalid date string for run_date: .*({reason})") as caught:
        times.convert_to_datetime(value, UTC, "run_date")
    assert caught.value.field == "run_date"
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [0, 1.5, b"2026-01-02", [], timedelta(1)])
def test_a_date_of_the_wrong_type_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match=f"Unsupported type for start_date: {type(value).__name__}"):
        times.convert_to_datetime(value, UTC, "start_date")  # type: ignore[arg-type]


def test_dates_datetimes_and_none_are_converted_too() -> None:
    assert times.convert_to_datetime(None, UTC, "x") is None
    assert times.convert_to_datetime(date(2026, 1, 2), "Europe/Berlin", "x") == datetime(2026, 1, 2, tzinfo=BERLIN)
    assert times.convert_to_datetime(datetime(2026, 1, 2), BERLIN, "x") == datetime(2026, 1, 2, tzinfo=BERLIN)
    aware = datetime(2026, 1, 2, tzinfo=UTC)
    assert times.convert_to_datetime(aware, BERLIN, "x") is aware


def test_a_naive_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidArgument, match='The "tz" argument must be specified if x has no timezone information'):
        times.convert_to_datetime(datetime(2026, 1, 2), None, "x")


@pytest.mark.parametrize("fold", [0, 1])
def test_both_passes_of_a_repeated_hour_are_kept_apart(fold: int) -> None:
    moment = times.convert_to_datetime(datetime(2026, 10, 25, 2, 30, fold=fold), BERLIN, "run_date")
    assert moment is not None
    assert moment.astimezone(UTC).hour == fold


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_in_a_gap_is_shifted_forward_by_the_gap(fold: int) -> None:
    shifted = datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN)
    assert times.localize(datetime(2026, 3, 29, 2, 30, fold=fold), BERLIN) == shifted
    assert times.normalize(datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN, fold=fold)) == shifted
    assert times.localize(datetime(2026, 10, 4, 2, 15), LORD_HOWE).time().isoformat() == "02:45:00"
    assert times.localize(datetime(2011, 12, 30, 12), APIA).isoformat() == "2011-12-31T12:00:00+14:00"


def test_a_naive_time_has_nothing_to_normalize() -> None:
    assert times.normalize(datetime(2026, 3, 29, 2, 30)) == datetime(2026, 3, 29, 2, 30)


@pytest.mark.parametrize(
    ("wall", "zone", "expected"),
    [
        (datetime(2026, 3, 29, 1, 59, 59), BERLIN, "2026-03-29T01:59:59+01:00"),
        (datetime(2026, 3, 29, 2), BERLIN, "2026-03-29T03:00:00+02:00"),
        (datetime(2026, 3, 29, 2, 30), BERLIN, "2026-03-29T03:00:00+02:00"),
        (datetime(2026, 3, 29, 2, 59, 59, 999_999), BERLIN, "2026-03-29T03:00:00+02:00"),
        (datetime(2026, 3, 29, 3), BERLIN, "2026-03-29T03:00:00+02:00"),
        (datetime(2026, 10, 25, 2, 30, fold=1), BERLIN, "2026-10-25T02:30:00+02:00"),
        (datetime(2026, 10, 4, 2, 15), LORD_HOWE, "2026-10-04T02:30:00+11:00"),
        (datetime(2011, 12, 30, 12), APIA, "2011-12-31T00:00:00+14:00"),
        (datetime(2026, 4, 24, 0, 30), ZoneInfo("Africa/Cairo"), "2026-04-24T01:00:00+03:00"),
    ],
)
def test_the_first_instant_of_a_wall_time_is_after_a_gap_and_in_the_first_pass(
    wall: datetime, zone: tzinfo, expected: str
) -> None:
    assert times.first_instant_at(wall, zone).isoformat() == expected


@given(
    st.integers(0, int(timedelta(days=40 * 366) / timedelta(microseconds=1))),
    st.sampled_from([UTC, *CHANGING_ZONES]),
)
def test_an_instant_survives_the_way_through_any_zone(microseconds: int, zone: tzinfo) -> None:
    moment = times.from_micros(microseconds, zone)
    assert times.to_micros(moment) == microseconds
    assert times.normalize(moment) == moment
    assert times.normalize(moment).fold == moment.fold


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), st.sampled_from([UTC, *CHANGING_ZONES]))
def test_an_instant_is_known_up_to_the_edges_of_the_calendar(wall: datetime, zone: tzinfo) -> None:
    offset = wall.replace(tzinfo=zone).utcoffset()
    assert offset is not None
    expected = (wall - datetime(1970, 1, 1) - offset) // timedelta(microseconds=1)
    assert times.to_micros(wall.replace(tzinfo=zone)) == expected


def test_an_instant_outside_the_calendar_is_an_overflow() -> None:
    with pytest.raises(OverflowError):
        times.from_micros(10**18, UTC)


def test_the_second_pass_of_a_repeated_hour_comes_after_the_first() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    assert times.to_micros(first.replace(fold=1)) - times.to_micros(first) == 3600 * times.SECOND


def test_timestamps_are_exact_and_none_stays_none() -> None:
    moment = datetime(2106, 2, 7, 6, 28, 15, 123_457, tzinfo=UTC)
    assert times.utc_timestamp_to_datetime(times.datetime_to_utc_timestamp(moment)) == moment
    assert times.utc_timestamp(datetime(1970, 1, 1, 1, tzinfo=BERLIN)) == 0.0
    assert times.datetime_to_utc_timestamp(datetime(1970, 1, 2)) == 86_400.0
    assert times.datetime_to_utc_timestamp(None) is None
    assert times.utc_timestamp_to_datetime(None) is None
    assert times.utc_timestamp_to_datetime(-1.5) == datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)
    assert times.timedelta_seconds(timedelta(days=1, microseconds=5)) == 86_400.000005


def test_adding_elapsed_time_crosses_clock_changes() -> None:
    hour = timedelta(hours=1)
    assert times.datetime_utc_add(datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN), hour).hour == 3
    assert times.datetime_utc_add(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), hour).fold == 1
    assert times.datetime_utc_add(datetime(2026, 1, 1), hour) == datetime(2026, 1, 1, 1)


def test_rounding_up_to_a_second() -> None:
    assert times.datetime_ceil(datetime(2026, 1, 2, 3, 4, 5)) == datetime(2026, 1, 2, 3, 4, 5)
    assert times.datetime_ceil(datetime(2026, 1, 2, 3, 4, 59, 1)) == datetime(2026, 1, 2, 3, 5)
    before_gap = datetime(2026, 3, 29, 1, 59, 59, 1, tzinfo=BERLIN)
    assert times.datetime_ceil(before_gap).isoformat() == "2026-03-29T03:00:00+02:00"


def test_times_and_zones_are_printed_as_apscheduler_does() -> None:
    assert times.datetime_repr(datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=BERLIN)) == "2026-01-02 03:04:05 CET"
    assert times.datetime_repr(None) == "None"
    assert times.timezone_repr(BERLIN) == "Europe/Berlin"
    assert times.timezone_repr(UTC) == "datetime.timezone.utc"


def test_a_date_is_read_from_an_iso_string() -> None:
    assert times.asdate("2026-01-02") == date(2026, 1, 2)
    assert times.asdate(date(2026, 1, 2)) == date(2026, 1, 2)
    assert times.asdate(None) is None
    with pytest.raises(InvalidArgument, match="Invalid isoformat string: 'soon'"):
        times.asdate("soon")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3d", timedelta(days=3)),
        ("1h30m", timedelta(minutes=90)),
        ("1h 30m", timedelta(minutes=90)),
        ("90s", timedelta(seconds=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("2w", timedelta(weeks=2)),
        ("1.5h", timedelta(minutes=90)),
        ("2MIN", timedelta(minutes=2)),
        ("7us", timedelta(microseconds=7)),
        (90, timedelta(seconds=90)),
        (0, timedelta(0)),
        (0.5, timedelta(milliseconds=500)),
        (timedelta(hours=1), timedelta(hours=1)),
    ],
)
def test_a_duration_is_a_timedelta_seconds_or_text_with_units(
    value: timedelta | float | str, expected: timedelta
) -> None:
    assert times.parse_duration(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "-3d",
        "3",
        "3y",
        "d",
        "1h30",
        "3d!",
        "1e9d",
        "999999999999w",
        -1,
        -0.5,
        timedelta(-1),
        math.nan,
        math.inf,
        -math.inf,
        1e300,
    ],
)
def test_a_duration_that_makes_no_sense_is_refused(value: timedelta | float | str) -> None:
    with pytest.raises(InvalidArgument, match="Invalid duration"):
        times.parse_duration(value)


@pytest.mark.parametrize("value", [True, None, [1]])
def test_a_duration_of_the_wrong_type_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="Unsupported type for duration"):
        times.parse_duration(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "expected"), [(5, 5), (2.5, 2.5), ("5", 5), (" 5 ", 5), ("2.5", 2.5), ("-3", -3)])
def test_numbers_may_come_as_text_from_a_configuration_file(value: float | str, expected: float) -> None:
    assert times.parse_number(value, "seconds") == expected


@pytest.mark.parametrize("value", ["five", "", "0x10", "nan", "inf", math.nan, math.inf])
def test_what_is_not_a_finite_number_is_refused(value: float | str) -> None:
    with pytest.raises(InvalidArgument, match="seconds must be a") as caught:
        times.parse_number(value, "seconds")
    assert caught.value.field == "seconds"


@pytest.mark.parametrize("value", [True, None, [5], 5j])
def test_a_number_of_the_wrong_type_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="Unsupported type for seconds"):
        times.parse_number(value, "seconds")  # type: ignore[arg-type]
