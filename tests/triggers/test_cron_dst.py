"""Clock changes and zones by example; every zone's are held against an oracle in the tests beside this one."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytz
from dateutil import tz as dateutil_tz

from goscheduler.errors import InvalidArgument
from goscheduler.triggers.cron import CronTrigger

UTC = timezone.utc
NEW_YORK = ZoneInfo("America/New_York")


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def _walk(trigger: CronTrigger, start: datetime, n: int) -> list[str]:
    """Return the first fire times from ``start`` on in UTC, as the scheduler asks for them."""
    times = []
    moment = trigger.get_next_fire_time(None, start)
    while moment is not None and len(times) < n:
        times.append(f"{moment.astimezone(UTC):%m-%d %H:%M}")
        moment = trigger.get_next_fire_time(moment, start)
    return times


def test_a_daily_job_at_midnight_runs_on_the_day_after_spring_forward() -> None:
    trigger = CronTrigger(hour=0, timezone=NEW_YORK)
    assert _walk(trigger, _utc(2026, 3, 7, 12), 3) == ["03-08 05:00", "03-09 04:00", "03-10 04:00"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Europe/London"])
def test_a_monthly_job_runs_in_april_although_clocks_changed_in_march(zone: str) -> None:
    trigger = CronTrigger(day=1, timezone=zone)
    dates = [moment.date() for moment in trigger.preview(3, _utc(2026, 2, 15))]
    assert dates == [date(2026, 3, 1), date(2026, 4, 1), date(2026, 5, 1)]


def test_a_weekday_job_at_midnight_runs_on_the_monday_after_spring_forward() -> None:
    trigger = CronTrigger(day_of_week="mon-fri", hour=0, timezone=NEW_YORK)
    dates = [moment.date() for moment in trigger.preview(2, _utc(2026, 3, 6, 12))]
    assert dates == [date(2026, 3, 9), date(2026, 3, 10)]


@pytest.mark.parametrize(
    ("zone", "fields", "start", "expected"),
    [
        pytest.param(
            "America/New_York",
            {"hour": 2, "minute": 30},
            _utc(2026, 3, 8),
            ["03-08 07:00", "03-09 06:30"],
            id="at the first instant after the gap",
        ),
        pytest.param(
            "America/New_York",
            {"hour": 2, "minute": "*/10"},
            _utc(2026, 3, 8),
            ["03-08 07:00", "03-09 06:00"],
            id="many times in the gap are one firing",
        ),
        pytest.param(
            "America/New_York",
            {"hour": "2,3", "minute": "0,30"},
            _utc(2026, 3, 8),
            ["03-08 07:00", "03-08 07:30", "03-09 06:00"],
            id="the end of the gap is not fired twice",
        ),
        pytest.param(
            "America/Havana", {"hour": 0}, _utc(2026, 3, 8, 4), ["03-08 05:00", "03-09 04:00"], id="a gap at midnight"
        ),
        pytest.param(
            "Australia/Lord_Howe",
            {"hour": 2, "minute": 15},
            _utc(2026, 10, 3),
            ["10-03 15:30", "10-04 15:15"],
            id="a gap of half an hour",
        ),
        pytest.param(
            "Pacific/Apia",
            {"hour": 9},
            _utc(2011, 12, 29),
            ["12-29 19:00", "12-30 19:00", "12-31 19:00"],
            id="a date that does not exist is skipped",
        ),
    ],
)
def test_a_wall_time_that_is_left_out(zone: str, fields: dict[str, Any], start: datetime, expected: list[str]) -> None:
    assert _walk(CronTrigger(**fields, timezone=zone), start, len(expected)) == expected


def test_a_wall_time_in_the_repeated_hour_fires_once_the_first_time() -> None:
    trigger = CronTrigger(hour=1, minute=30, timezone=NEW_YORK)
    assert _walk(trigger, _utc(2026, 11, 1), 2) == ["11-01 05:30", "11-02 06:30"]


def test_a_job_added_during_the_second_pass_waits_for_the_next_day() -> None:
    trigger = CronTrigger(hour=1, minute="30,45", timezone=NEW_YORK)
    assert _walk(trigger, _utc(2026, 11, 1, 6, 10), 1) == ["11-02 06:30"]


def test_half_hourly_keeps_real_time_through_the_repeated_hour() -> None:
    trigger = CronTrigger(minute="*/30", timezone=NEW_YORK)
    times = trigger.preview(6, _utc(2026, 11, 1, 5))
    assert [moment.astimezone(UTC) for moment in times] == [
        _utc(2026, 11, 1, 5) + timedelta(minutes=30 * n) for n in range(6)
    ]
    assert [moment.fold for moment in times] == [0, 0, 1, 1, 0, 0]


def test_hourly_keeps_real_time_across_the_gap() -> None:
    assert _walk(CronTrigger(minute=0, timezone=NEW_YORK), _utc(2026, 3, 8, 6), 3) == [
        "03-08 06:00",
        "03-08 07:00",
        "03-08 08:00",
    ]


def test_the_end_is_an_instant_and_not_a_wall_time() -> None:
    end = datetime(2026, 11, 1, 1, 5, tzinfo=NEW_YORK)
    trigger = CronTrigger(minute="*/30", end_date=end, timezone=NEW_YORK)
    assert trigger.get_next_fire_time(datetime(2026, 11, 1, 1, 0, tzinfo=NEW_YORK), end) is None


def test_the_start_is_an_instant_and_not_a_wall_time() -> None:
    start = datetime(2026, 11, 1, 1, 40, fold=1, tzinfo=NEW_YORK)
    first = CronTrigger(minute="*/30", start_date=start, timezone=NEW_YORK).get_next_fire_time(None, _utc(2026, 10, 1))
    assert first is not None
    assert first.astimezone(UTC) == _utc(2026, 11, 1, 7)


class _NoFold(tzinfo):
    """A home-made zone: UTC+1, from July 2026 on UTC+2."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        late = moment is not None and moment.replace(tzinfo=None) >= datetime(2026, 7, 1, 2)
        return timedelta(hours=2 if late else 1)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    def tzname(self, moment: datetime | None) -> str:
        return "HOME"


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        (UTC, _utc(2026, 3, 28, 12), ["03-29 02:30", "03-30 02:30"]),
        (timezone(timedelta(hours=-5), "X"), _utc(2026, 3, 28, 12), ["03-29 07:30", "03-30 07:30"]),
        (timezone(timedelta(hours=1, microseconds=7)), _utc(2026, 3, 28, 12), ["03-29 01:29", "03-30 01:29"]),
        (dateutil_tz.gettz("Europe/Berlin"), _utc(2026, 3, 28, 12), ["03-29 01:00", "03-30 00:30"]),
        (_NoFold(), _utc(2026, 6, 30, 12), ["07-01 01:00", "07-02 00:30"]),
        ("EST5EDT", _utc(2026, 3, 7, 12), ["03-08 07:00", "03-09 06:30"]),
        ("utc", _utc(2026, 3, 28, 12), ["03-29 02:30", "03-30 02:30"]),
    ],
    ids=["UTC", "named offset", "odd offset", "dateutil", "no fold", "EST5EDT", "lower case"],
)
def test_any_time_zone_will_do(zone: tzinfo | str, start: datetime, expected: list[str]) -> None:
    trigger = CronTrigger(hour=2, minute=30, timezone=zone)
    assert _walk(trigger, start, 2) == expected
    first = trigger.get_next_fire_time(None, start)
    assert first is not None
    assert trigger.backlog(first, start + timedelta(days=10)).count == 10


def test_two_fixed_offsets_that_differ_only_in_name_keep_their_names() -> None:
    zones = [timezone(timedelta(hours=1), name) for name in ("ONE", "OTHER")]
    names = [CronTrigger(hour=3, timezone=zone).preview(1, _utc(2026, 1, 1))[0].tzname() for zone in zones]
    assert names == ["ONE", "OTHER"]


def test_a_pytz_fixed_offset_is_accepted() -> None:
    assert _walk(CronTrigger(hour=2, timezone=pytz.FixedOffset(60)), _utc(2026, 1, 1), 1) == ["01-01 01:00"]


@pytest.mark.parametrize("zone", ["Mars/Phobos", "../../etc/passwd", "UTC\x00", "A" * 10_000])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArgument, match="timezone"):
        CronTrigger(hour=1, timezone=zone)


def test_a_zone_of_the_wrong_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Expected tzinfo, got int instead"):
        CronTrigger(hour=1, timezone=5)  # type: ignore[arg-type]
