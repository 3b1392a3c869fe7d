"""The cron trigger as schedulers and users see it: bounds, jitter, backlog, records, words."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from work import calls_of

from goscheduler.errors import InvalidArgument
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.cron.fields import BaseField

UTC = timezone.utc
NEW_YORK = ZoneInfo("America/New_York")
BERLIN = ZoneInfo("Europe/Berlin")


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


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (_utc(2026, 1, 1, 5), _utc(2026, 1, 1, 5)),
        (_utc(2026, 1, 1, 5, 0, 0, 1), _utc(2026, 1, 2, 5)),
        (_utc(2026, 1, 1, 4, 59, 59, 999_999), _utc(2026, 1, 1, 5)),
        (_utc(1900, 1, 1), _utc(1970, 1, 1, 5)),
        (datetime.min.replace(tzinfo=UTC), _utc(1970, 1, 1, 5)),
        (_utc(2106, 2, 7, 6, 28, 16), _utc(2106, 2, 8, 5)),
        (_utc(9999, 12, 31, 4), _utc(9999, 12, 31, 5)),
        (_utc(9999, 12, 31, 6), None),
        (datetime.max.replace(tzinfo=UTC), None),
    ],
    ids=str,
)
def test_the_first_fire_time_is_the_first_match_not_before_now(now: datetime, expected: datetime | None) -> None:
    assert CronTrigger(hour=5, timezone=UTC).get_next_fire_time(None, now) == expected


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "Europe/Berlin", "UTC"])
@pytest.mark.parametrize("moment", [datetime.min, datetime(1, 1, 2), datetime(9999, 12, 31, 12), datetime.max])
@pytest.mark.parametrize("hour", ["*", "5"])
def test_the_edges_of_the_calendar_overflow_nowhere(zone: str, moment: datetime, hour: str) -> None:
    trigger = CronTrigger(hour=hour, timezone=zone, jitter=10)
    edge = moment.replace(tzinfo=ZoneInfo(zone))
    first = trigger.get_next_fire_time(None, edge)
    assert first is None or first >= edge
    for previous in (edge, moment.replace(tzinfo=UTC)):
        following = trigger.get_next_fire_time(previous, edge)
        assert following is None or following > previous
    assert trigger.backlog(_utc(9998, 12, 1), edge, 2).count >= 1


def test_the_next_fire_time_is_later_than_the_previous_one_whatever_the_clock_says() -> None:
    trigger = CronTrigger(day="*", timezone=UTC)
    previous = _utc(2026, 11, 23)
    for now in (_utc(2026, 11, 20), _utc(2026, 11, 23), _utc(2026, 11, 30)):
        assert trigger.get_next_fire_time(previous, now) == _utc(2026, 11, 24)


def test_the_previous_fire_time_may_come_in_any_zone_and_between_matches() -> None:
    trigger = CronTrigger(hour=12, timezone=BERLIN)
    tokyo = ZoneInfo("Asia/Tokyo")
    assert trigger.get_next_fire_time(_utc(2026, 1, 5, 11, 0, 0, 5), _utc(2026, 1, 5)) == _utc(2026, 1, 6, 11)
    assert trigger.get_next_fire_time(datetime(2026, 1, 5, 19, 59, tzinfo=tokyo), _utc(2026, 1, 5)) == _utc(
        2026, 1, 5, 11
    )


@pytest.mark.parametrize("moment", [None, datetime(2026, 1, 1)])
def test_a_naive_time_is_refused_and_not_guessed(moment: datetime | None) -> None:
    with pytest.raises(TypeError, match="aware"):
        CronTrigger(hour=1, timezone=UTC).get_next_fire_time(moment, datetime(2026, 1, 1))


def test_start_and_end_are_included() -> None:
    trigger = CronTrigger(day="*", start_date="2026-03-01", end_date="2026-03-03", timezone=UTC)
    assert _walk(trigger, _utc(2026, 1, 1), 9) == ["03-01 00:00", "03-02 00:00", "03-03 00:00"]
    assert trigger.get_next_fire_time(_utc(2026, 1, 1), _utc(2026, 1, 1)) == _utc(2026, 3, 1)
    assert trigger.backlog(_utc(2026, 3, 1), _utc(2026, 6, 1), 5).count == 3


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"end_date .* cannot be earlier than start_date") as caught:
        CronTrigger(hour=1, start_date="2026-03-02", end_date="2026-03-01", timezone=UTC)
    assert caught.value.field == "end_date"


def test_the_zone_is_that_of_the_start_else_of_the_end() -> None:
    start, end = datetime(2026, 1, 1, tzinfo=BERLIN), datetime(2027, 1, 1, tzinfo=NEW_YORK)
    assert CronTrigger(hour=1, start_date=start, end_date=end).timezone is BERLIN
    assert CronTrigger(hour=1, start_date="2026-01-01", end_date=end).timezone is NEW_YORK
    assert CronTrigger(hour=1, start_date=start, timezone="UTC").timezone is UTC


def test_a_rare_date_is_found_without_stepping_through_the_years() -> None:
    trigger = CronTrigger(year="9996", month=2, day=29, hour="*", timezone=BERLIN)
    first, calls = calls_of(lambda: trigger.get_next_fire_time(None, _utc(2026, 1, 1)))
    assert first == datetime(9996, 2, 29, tzinfo=BERLIN)
    assert calls < 10_000  # and not one for each of 8,000 years


@pytest.mark.parametrize("jitter", [-1, -0.001, float("nan"), float("inf"), 1e300, 10**400, "x", ""])
def test_a_jitter_that_makes_no_sense_is_refused(jitter: float | str) -> None:
    with pytest.raises(InvalidArgument, match="jitter") as caught:
        CronTrigger(hour=1, jitter=jitter, timezone=UTC)
    assert caught.value.field == "jitter"


@pytest.mark.parametrize("jitter", [True, [], b"1"])
def test_a_jitter_of_the_wrong_type_is_a_type_error(jitter: object) -> None:
    with pytest.raises(TypeError, match="jitter"):
        CronTrigger(hour=1, jitter=jitter, timezone=UTC)  # type: ignore[arg-type]


def test_a_jitter_from_a_configuration_file_may_be_text() -> None:
    assert CronTrigger(hour=1, jitter="2.5", timezone=UTC).jitter == 2.5


@given(jitter=st.floats(0.001, 10_000), minute=st.sampled_from(["*", "*/5", "7"]))
def test_jitter_however_large_loses_no_firing_and_does_not_drift(jitter: float, minute: str) -> None:
    start = _utc(2026, 10, 24, 23)
    plain = CronTrigger(minute=minute, timezone=BERLIN).preview(61, start)
    delayed = CronTrigger(minute=minute, jitter=jitter, timezone=BERLIN).preview(60, start)
    for base, following, moment in zip(plain, plain[1:], delayed, strict=False):
        late = moment.astimezone(UTC) - base.astimezone(UTC)
        assert timedelta(0) <= late <= timedelta(seconds=jitter, microseconds=1)
        assert moment.astimezone(UTC) < following.astimezone(UTC)
    assert len(delayed) == 60


def test_jitter_uses_its_whole_range_and_ends_at_the_end_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.randint", lambda low, high: high)
    base = _utc(2026, 1, 1, 5)
    assert CronTrigger(hour=5, jitter=30, timezone=UTC).get_next_fire_time(None, base) == base + timedelta(seconds=30)
    ending = CronTrigger(hour=5, jitter=30, end_date=base + timedelta(seconds=10), timezone=UTC)
    assert ending.get_next_fire_time(None, base) == base + timedelta(seconds=10)
    crowded = CronTrigger(second="*", jitter=30, timezone=UTC)
    assert crowded.get_next_fire_time(None, base) == base + timedelta(microseconds=999_999)


def test_a_month_of_missed_seconds_is_counted_at_once() -> None:
    trigger = CronTrigger(second="*", timezone=BERLIN)
    first, now = datetime(2026, 3, 1, tzinfo=BERLIN), _utc(2026, 3, 31)
    backlog, calls = calls_of(lambda: trigger.backlog(first, now, 2))
    assert calls < 10_000
    assert backlog.count == (now - first).total_seconds() + 1
    assert backlog.latest == (now - timedelta(seconds=1), now)
    assert backlog.exact


def test_ten_years_of_missed_seconds_are_counted_at_once() -> None:
    trigger = CronTrigger(second="*", timezone=NEW_YORK)
    first, now = _utc(2016, 1, 1), _utc(2026, 1, 1, 0, 0, 0, 5)
    backlog, calls = calls_of(lambda: trigger.backlog(first, now))
    assert calls < 100_000  # of 315 million seconds
    assert backlog.count == int((now - first).total_seconds()) + 1
    assert backlog.latest == (_utc(2026, 1, 1),)


def test_a_backlog_before_the_first_fire_time_is_that_one_alone() -> None:
    first = _utc(2026, 1, 5)
    assert CronTrigger(day="*", timezone=UTC).backlog(first, _utc(2026, 1, 1), 3) == (1, (first,), True)


def test_a_backlog_that_keeps_more_than_there_is_begins_with_the_first() -> None:
    first = _utc(2026, 1, 1)
    backlog = CronTrigger(day="*", timezone=UTC).backlog(first, _utc(2026, 1, 3, 23), 10)
    assert backlog == (3, (first, _utc(2026, 1, 2), _utc(2026, 1, 3)), True)


def test_a_backlog_with_jitter_counts_the_undelayed_times() -> None:
    trigger = CronTrigger(minute="*", jitter=50, timezone=UTC)
    backlog = trigger.backlog(_utc(2026, 1, 1, 0, 0, 33), _utc(2026, 1, 1, 0, 10), 2)
    assert backlog == (11, (_utc(2026, 1, 1, 0, 9), _utc(2026, 1, 1, 0, 10)), True)


TRIGGERS = [
    CronTrigger(year="2009/2", month="1-4/3", day="5-6", timezone="Europe/Berlin"),
    CronTrigger(
        year=2030,
        month="5-6",
        day="20-28",
        hour=7,
        minute=25,
        second="*",
        start_date="2030-05-01",
        end_date="2030-06-27",
        timezone=BERLIN,
        jitter=3,
    ),
    CronTrigger(timezone=UTC),
    CronTrigger.from_crontab("0 0 13 * 5", NEW_YORK),
    CronTrigger.from_crontab("0 0 * * L5,1#2", "Asia/Tokyo"),
]


@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_trigger_comes_back_the_same(trigger: CronTrigger, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(trigger, protocol))
    for name in CronTrigger.__slots__:
        assert getattr(again, name) == getattr(trigger, name)
    assert repr(again) == repr(trigger)
    assert again.same_schedule_as(trigger)
    if not trigger.jitter:
        assert again.preview(5, _utc(2030, 1, 1)) == trigger.preview(5, _utc(2030, 1, 1))


def test_the_state_is_plain_values_and_of_version_2() -> None:
    state = CronTrigger.from_crontab("0 0 13 * 5", UTC).__getstate__()
    assert state == {
        "version": 2,
        "timezone": UTC,
        "start_date": None,
        "end_date": None,
        "fields": {"month": "*", "day": "13", "day_of_week": "fri", "hour": "0", "minute": "0"},
        "either_day": True,
        "jitter": None,
    }


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_state_with_field_objects_is_understood(wrapped: bool) -> None:
    fields = [BaseField("hour", "5"), BaseField("minute", 0, is_default=True)]
    state = {"version": 2, "timezone": UTC, "start_date": None, "end_date": None, "fields": fields, "jitter": None}
    trigger = CronTrigger.__new__(CronTrigger)
    trigger.__setstate__((None, state) if wrapped else state)
    assert repr(trigger) == "<CronTrigger (hour='5', timezone='datetime.timezone.utc')>"


def test_a_state_of_a_later_version_is_refused() -> None:
    trigger = CronTrigger.__new__(CronTrigger)
    with pytest.raises(ValueError, match="version 3 of CronTrigger, but only versions up to 2 can be handled"):
        trigger.__setstate__({**TRIGGERS[0].__getstate__(), "version": 3})


def test_a_trigger_prints_the_given_fields_in_their_order() -> None:
    trigger = CronTrigger(
        hour="8-10", month=2, year="2009", start_date="2009-02-03 11:00:00", timezone=BERLIN, jitter=5
    )
    assert str(trigger) == "cron[year='2009', month='2', hour='8-10']"
    assert repr(trigger) == (
        "<CronTrigger (year='2009', month='2', hour='8-10', start_date='2009-02-03 11:00:00 CET', jitter=5, "
        "timezone='Europe/Berlin')>"
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"minute": "*/30"}, {"minute": "0,30"}, True),
        ({"day_of_week": "mon-sun"}, {"day_of_week": "*"}, True),
        ({"minute": 1}, {"minute": 2}, False),
        ({"minute": 1}, {"minute": 1, "timezone": "Europe/Berlin"}, False),
        ({"minute": 1}, {"minute": 1, "jitter": 5}, False),
        ({"minute": 1, "jitter": 0}, {"minute": 1}, True),
        ({"minute": 1, "end_date": "2027-01-01"}, {"minute": 1}, False),
        ({"minute": 1, "start_date": "2026-01-01"}, {"minute": 1, "start_date": _utc(2026, 1, 1)}, True),
    ],
)
def test_two_triggers_are_the_same_schedule_if_they_fire_alike(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    first, second = (CronTrigger(**{"timezone": UTC, **fields}) for fields in (one, other))
    assert first.same_schedule_as(second) is same
    assert second.same_schedule_as(first) is same


def test_either_and_both_days_are_not_the_same_schedule() -> None:
    both = CronTrigger.from_crontab("0 0 13 * fri", UTC, dialect="apscheduler")
    assert not both.same_schedule_as(CronTrigger.from_crontab("0 0 13 * fri", UTC))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0 * * * *", "every hour"),
        ("30 * * * *", "at minute 30 of every hour"),
        ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
        ("0 9 * * 1-5", "at 09:00 on every Monday to Friday"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("0 0 1 * 5", "at 00:00 on day 1 of every month, and on every Friday"),
        ("0 0 1 jan 5", "at 00:00 on day 1 of January, and on every Friday in January"),
        ("0 0 */15 * 5", "at 00:00 on days 1, 16 and 31 of every month if it is a Friday"),
        ("0 0 L jan-mar *", "at 00:00 on the last day of January to March"),
        ("0 0 * 6 *", "at 00:00 on every day of June"),
        ("0 0 * 6 1#2", "at 00:00 on every 2nd Monday in June"),
        ("15,45 8-18 * * mon-fri", "at minutes 15 and 45 in the hours 8 to 18 on every Monday to Friday"),
        ("* 9 * * *", "every minute in the hour 9 every day"),
    ],
)
def test_a_crontab_line_is_explained_in_plain_english(line: str, words: str) -> None:
    assert CronTrigger.from_crontab(line, BERLIN).explain() == f"{words} (Europe/Berlin)"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "every second"),
        ({"second": "*/10"}, "every 10 seconds"),
        ({"second": "5"}, "at second 5 of every minute"),
        ({"minute": "3", "second": "*/30"}, "every 30 seconds of minute 3 of every hour"),
        ({"hour": 4, "second": 30, "minute": 0}, "at 04:00:30 every day"),
        ({"day": "1,2nd fri,last"}, "at 00:00 on day 1, the last day and the 2nd Friday of every month"),
        (
            {"year": "2030-2032", "week": "1,2", "day_of_week": 0},
            "at 00:00 on every Monday in ISO weeks 1 and 2 in 2030 to 2032",
        ),
        (
            {"hour": 1, "start_date": "2026-01-01", "end_date": "2026-02-01", "jitter": 5},
            "at 01:00 every day, from 2026-01-01 00:00:00 CET, until 2026-02-01 00:00:00 CET, up to 5 s later",
        ),
    ],
)
def test_fields_are_explained_in_plain_english(fields: dict[str, Any], words: str) -> None:
    assert CronTrigger(**fields, timezone=BERLIN).explain() == f"{words} (Europe/Berlin)"
