"""The interval trigger: a grid of elapsed time."""

from __future__ import annotations

import math
import pickle
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument
from goscheduler.times import micros_of, to_micros
from goscheduler.triggers.interval import IntervalTrigger

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
ZONES = st.sampled_from([UTC, BERLIN, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("America/New_York")])
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))
INTERVALS = st.integers(1, 10**12).map(lambda microseconds: timedelta(microseconds=microseconds))


def every(interval: timedelta, **options: Any) -> IntervalTrigger:
    return IntervalTrigger(seconds=0, days=interval.days, **_rest(interval), **options)


def _rest(interval: timedelta) -> dict[str, float]:
    return {"minutes": (interval.seconds + interval.microseconds / 1e6) / 60}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"weeks": 1}, timedelta(weeks=1)),
        ({"days": 1, "hours": 2, "minutes": 3, "seconds": 4}, timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ({"seconds": 0.5}, timedelta(milliseconds=500)),
        ({"seconds": "5"}, timedelta(seconds=5)),
        ({"minutes": "1.5"}, timedelta(seconds=90)),
        ({"hours": 1, "minutes": -1}, timedelta(minutes=59)),
    ],
)
def test_the_interval_is_the_sum_of_its_parts(options: dict[str, Any], expected: timedelta) -> None:
    trigger = IntervalTrigger(**options)
    assert trigger.interval == expected
    assert trigger.interval_length == expected.total_seconds()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"seconds": 0},
        {"seconds": -5},
        {"minutes": 1, "seconds": -60},
        {"seconds": 1e-9},
        {"seconds": math.nan},
        {"seconds": math.inf},
        {"seconds": "nan"},
        {"seconds": "often"},
        {"weeks": 1e9},
        {"weeks": 10**400},
        {"weeks": "1" + "0" * 400},
        {"days": 999_999_999},
        {"days": 4_000_000},
    ],
)
def test_an_interval_that_is_not_positive_or_not_finite_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        IntervalTrigger(**options)
    assert caught.value.field in {"interval", *options}
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [True, None, [5], b"5", timedelta(seconds=5)])
def test_a_part_of_the_wrong_type_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type for seconds"):
        IntervalTrigger(seconds=value)


@pytest.mark.parametrize("jitter", [-1, math.nan, math.inf, 60, 61, "60"])
def test_jitter_must_be_shorter_than_the_interval_and_not_negative(jitter: Any) -> None:
    with pytest.raises(InvalidArgument, match="jitter"):
        IntervalTrigger(minutes=1, jitter=jitter)


def test_an_end_before_the_start_is_refused_also_inside_a_repeated_hour() -> None:
    later = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=BERLIN)
    earlier = datetime(2026, 10, 25, 2, 50, tzinfo=BERLIN)
    with pytest.raises(InvalidArgument, match="end_date cannot be earlier than start_date"):
        IntervalTrigger(seconds=5, start_date=later, end_date=earlier)
    assert IntervalTrigger(seconds=5, start_date=earlier, end_date=later).preview(1, NOON) == [earlier]


@pytest.mark.parametrize(
    ("options", "zone"),
    [
        ({"timezone": "Europe/Berlin", "start_date": NOON}, BERLIN),
        ({"start_date": NOON.astimezone(BERLIN), "end_date": NOON}, BERLIN),
        ({"end_date": NOON.astimezone(BERLIN) + timedelta(days=999)}, BERLIN),
        ({"timezone": "utc", "start_date": "2026-01-01"}, UTC),
    ],
)
def test_the_zone_is_the_given_one_else_that_of_the_start_or_the_end(options: dict[str, Any], zone: tzinfo) -> None:
    trigger = IntervalTrigger(seconds=5, **options)
    assert trigger.timezone is zone
    following = trigger.get_next_fire_time(None, trigger.start_date)
    assert following is not None
    assert following.tzinfo is zone


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (NOON, NOON),
        (NOON + timedelta(days=2), NOON + timedelta(days=2)),
        (NOON - timedelta(seconds=12), NOON + timedelta(seconds=3)),
        (NOON - timedelta(seconds=15), NOON),
        (NOON - timedelta(microseconds=1), NOON + timedelta(seconds=5, microseconds=-1)),
        (datetime(1, 1, 1, tzinfo=UTC), NOON),
    ],
)
def test_the_first_fire_time_is_the_start_or_the_next_on_its_grid(start: datetime, expected: datetime) -> None:
    assert IntervalTrigger(seconds=5, start_date=start).get_next_fire_time(None, NOON) == expected


def test_a_start_in_year_one_of_a_zone_east_of_utc_is_no_overflow() -> None:
    trigger = IntervalTrigger(seconds=5, start_date="0001-01-01", timezone=BERLIN)
    following = trigger.get_next_fire_time(None, NOON)
    assert following is not None
    assert 0 <= to_micros(following) - to_micros(NOON) < 5_000_000
    assert (to_micros(following) - to_micros(trigger.start_date)) % 5_000_000 == 0


def test_the_last_fire_time_of_the_calendar_ends_it() -> None:
    trigger = IntervalTrigger(days=1000, start_date="9998-12-31", timezone=UTC)
    assert trigger.preview(5, NOON) == [datetime(9998, 12, 31, tzinfo=UTC)]


def test_without_a_start_the_first_run_is_one_interval_from_now() -> None:
    before = SYSTEM_CLOCK.now()
    trigger = IntervalTrigger(seconds=5, timezone=UTC)
    assert before + 5 * SECOND <= trigger.start_date <= SYSTEM_CLOCK.now() + 5 * SECOND
    anchored = trigger.anchored(NOON)
    assert anchored.start_date == NOON + 5 * SECOND
    assert anchored.get_next_fire_time(None, NOON) == NOON + 5 * SECOND
    assert anchored.get_next_fire_time(NOON + 5 * SECOND, NOON) == NOON + 10 * SECOND
    assert trigger.start_date != anchored.start_date


def test_a_given_start_is_not_moved_by_the_scheduler() -> None:
    trigger = IntervalTrigger(seconds=5, start_date=NOON)
    assert trigger.anchored(NOON + SECOND) is trigger


def test_a_subclass_keeps_its_attributes_when_it_is_anchored() -> None:
    class Labelled(IntervalTrigger):
        def __getstate__(self) -> dict[str, Any]:
            return super().__getstate__() | {"label": self.label}

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            self.label = state["label"]

    trigger = Labelled(seconds=5)
    trigger.label = "mine"
    anchored = trigger.anchored(NOON)
    assert isinstance(anchored, Labelled)
    assert anchored.label == "mine"
    assert anchored.start_date == NOON + 5 * SECOND


def test_the_end_is_inclusive() -> None:
    trigger = IntervalTrigger(seconds=5, start_date=NOON, end_date=NOON + 10 * SECOND)
    assert trigger.preview(9, NOON) == [NOON, NOON + 5 * SECOND, NOON + 10 * SECOND]
    assert trigger.get_next_fire_time(None, NOON + 11 * SECOND) is None


def test_the_end_holds_in_the_second_pass_of_a_repeated_hour() -> None:
    start = datetime(2026, 10, 25, 2, 0, tzinfo=BERLIN)
    trigger = IntervalTrigger(minutes=20, start_date=start, end_date=start + timedelta(minutes=30))
    assert [moment.minute for moment in trigger.preview(9, start)] == [0, 20]


def test_a_start_in_the_first_pass_is_past_in_the_second() -> None:
    trigger = IntervalTrigger(hours=2, start_date=datetime(2026, 10, 25, 2, 50, tzinfo=BERLIN))
    now = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN)
    following = trigger.get_next_fire_time(None, now)
    assert following is not None
    assert following.isoformat() == "2026-10-25T03:50:00+01:00"


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-03-28 23:30", ["23:30+0100", "00:30+0100", "01:30+0100", "03:30+0200", "04:30+0200"]),
        ("2026-10-24 23:30", ["23:30+0200", "00:30+0200", "01:30+0200", "02:30+0200", "02:30+0100"]),
    ],
)
def test_hours_are_real_hours_across_clock_changes(start: str, expected: list[str]) -> None:
    trigger = IntervalTrigger(hours=1, start_date=start, timezone=BERLIN)
    assert [moment.strftime("%H:%M%z") for moment in trigger.preview(5, trigger.start_date)] == expected


@given(INTERVALS, MOMENTS, MOMENTS, ZONES)
def test_fire_times_lie_on_the_grid_and_are_the_first_after_the_previous(
    interval: timedelta, start: datetime, previous: datetime, zone: tzinfo
) -> None:
    trigger = every(interval, start_date=start, timezone=zone)
    length = micros_of(trigger.interval)
    following = trigger.get_next_fire_time(previous.astimezone(zone), previous)
    assert following is not None
    assert following.tzinfo is zone
    assert (to_micros(following) - to_micros(start)) % length == 0
    assert to_micros(following) > to_micros(previous)
    assert following == start or to_micros(following) - length <= to_micros(previous)
    first = trigger.get_next_fire_time(None, previous)
    assert first is not None
    assert to_micros(first) >= to_micros(previous)
    assert first == start or to_micros(first) - length < to_micros(previous)


@given(st.integers(2, 3600), st.data(), ZONES)
def test_jitter_does_not_drift_or_skip(seconds: int, data: st.DataObject, zone: tzinfo) -> None:
    jitter = data.draw(st.floats(0, seconds, exclude_max=True))
    trigger = IntervalTrigger(seconds=seconds, start_date=NOON, timezone=zone, jitter=jitter)
    moment: datetime | None = None
    for turn in range(20):
        moment = trigger.get_next_fire_time(moment, NOON)
        assert moment is not None
        delay = to_micros(moment) - to_micros(NOON + turn * timedelta(seconds=seconds))
        assert 0 <= delay <= round(jitter * 1e6)


def test_a_hundred_jittered_minutes_take_a_hundred_minutes() -> None:
    trigger = IntervalTrigger(minutes=1, start_date=NOON, jitter=30)
    moment = trigger.get_next_fire_time(None, NOON)
    delays = set()
    for turn in range(1, 101):
        moment = trigger.get_next_fire_time(moment, NOON)
        assert moment is not None
        delays.add(moment - NOON - turn * timedelta(minutes=1))
    assert len(delays) > 50
    assert max(delays) <= timedelta(seconds=30)


def test_jitter_does_not_pass_the_end() -> None:
    trigger = IntervalTrigger(minutes=1, start_date=NOON, end_date=NOON + SECOND, jitter=59)
    for _ in range(50):
        fire_time = trigger.get_next_fire_time(None, NOON)
        assert fire_time is not None
        assert NOON <= fire_time <= NOON + SECOND
        assert trigger.get_next_fire_time(fire_time, NOON) is None


@given(
    st.integers(1, 50),
    st.integers(-100, 100),
    st.integers(0, 300),
    st.integers(0, 5),
    st.none() | st.integers(0, 400),
)
def test_the_backlog_by_arithmetic_is_that_by_counting(
    seconds: int, first: int, span: int, keep: int, end: int | None
) -> None:
    start = datetime(2026, 10, 25, 2, 58, tzinfo=BERLIN)
    end_date = None if end is None else start + timedelta(seconds=end)
    trigger = IntervalTrigger(seconds=seconds, start_date=start, end_date=end_date)
    due = (start.astimezone(UTC) + timedelta(seconds=first)).astimezone(BERLIN)
    now = (due.astimezone(UTC) + timedelta(seconds=span)).astimezone(BERLIN)
    times, moment = [due], trigger.get_next_fire_time(due, now)
    while moment is not None and to_micros(moment) <= to_micros(now):
        times.append(moment)
        moment = trigger.get_next_fire_time(moment, now)
    backlog = trigger.backlog(due, now, keep)
    assert backlog.count == len(times)
    assert backlog.exact
    expected = times[len(times) - keep :] if keep < len(times) else times
    assert [to_micros(moment) for moment in backlog.latest] == [to_micros(moment) for moment in expected]


def test_thirty_days_of_seconds_are_counted_exactly_without_walking(monkeypatch: pytest.MonkeyPatch) -> None:
    def walked(*args: object) -> None:
        raise AssertionError("enumerated")

    monkeypatch.setattr(IntervalTrigger, "get_next_fire_time", walked)
    monkeypatch.setattr(IntervalTrigger, "_nominal_fire_time", walked)
    trigger = IntervalTrigger(seconds=1, start_date=NOON)
    now = NOON + timedelta(days=30, milliseconds=1)
    assert trigger.backlog(NOON, now, keep=2) == (
        2_592_001,
        (now - timedelta(seconds=1.001), now - timedelta(seconds=0.001)),
        True,
    )


def test_after_a_previous_time_of_another_grid_it_is_back_on_its_own() -> None:
    trigger = IntervalTrigger(seconds=10, start_date=NOON)
    assert trigger.get_next_fire_time(NOON + 13.7 * SECOND, NOON) == NOON + 20 * SECOND
    assert trigger.get_next_fire_time(NOON - timedelta(days=3), NOON) == NOON


def test_a_clock_set_back_does_not_move_the_next_fire_time_back() -> None:
    trigger = IntervalTrigger(seconds=10, start_date=NOON)
    assert trigger.get_next_fire_time(NOON + 20 * SECOND, NOON - timedelta(hours=1)) == NOON + 30 * SECOND


def test_an_open_start_does_not_make_another_schedule() -> None:
    stored = IntervalTrigger(hours=6, timezone=UTC).anchored(NOON)
    assert stored.same_schedule_as(IntervalTrigger(hours=6, timezone=UTC))
    assert pickle.loads(pickle.dumps(stored)).same_schedule_as(IntervalTrigger(hours=6, timezone=UTC))
    for other in (
        IntervalTrigger(hours=7, timezone=UTC),
        IntervalTrigger(hours=6, timezone=BERLIN),
        IntervalTrigger(hours=6, timezone=UTC, jitter=1),
        IntervalTrigger(hours=6, timezone=UTC, start_date=NOON),
        IntervalTrigger(hours=6, timezone=UTC, end_date=NOON + timedelta(days=999)),
    ):
        assert not stored.same_schedule_as(other)


def test_it_prints_as_in_apscheduler() -> None:
    trigger = IntervalTrigger(seconds=1, start_date="2009-07-04 00:00:02", timezone=BERLIN)
    assert str(trigger) == "interval[0:00:01]"
    assert repr(trigger) == (
        "<IntervalTrigger (interval=datetime.timedelta(seconds=1), start_date='2009-07-04 00:00:02 CEST', "
        "timezone='Europe/Berlin')>"
    )
    trigger = IntervalTrigger(days=2, start_date="2026-01-02", end_date="2026-02-02", timezone=BERLIN, jitter=3)
    assert repr(trigger) == (
        "<IntervalTrigger (interval=datetime.timedelta(days=2), start_date='2026-01-02 00:00:00 CET', "
        "end_date='2026-02-02 00:00:00 CET', jitter=3, timezone='Europe/Berlin')>"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minutes": 5}, "every 5 minutes from 2026-01-02 03:04:05 CET"),
        ({"hours": 1}, "every hour from 2026-01-02 03:04:05 CET"),
        ({"hours": 1, "minutes": 30}, "every 1 hour and 30 minutes from 2026-01-02 03:04:05 CET"),
        ({"weeks": 2, "days": 1, "seconds": 1}, "every 2 weeks, 1 day and 1 second from 2026-01-02 03:04:05 CET"),
        ({"seconds": 2.5}, "every 2.5 seconds from 2026-01-02 03:04:05 CET"),
        (
            {"hours": 2, "end_date": "2027-01-01", "jitter": 10},
            "every 2 hours from 2026-01-02 03:04:05 CET, until 2027-01-01 00:00:00 CET, delayed by up to 10 seconds",
        ),
    ],
)
def test_it_explains_itself(options: dict[str, Any], words: str) -> None:
    assert IntervalTrigger(start_date="2026-01-02 03:04:05", timezone=BERLIN, **options).explain() == words


def test_it_survives_pickling() -> None:
    trigger = IntervalTrigger(days=2, start_date="2026-10-25 02:30", end_date="2027-02-02", timezone=BERLIN, jitter=3)
    copy = pickle.loads(pickle.dumps(trigger))
    assert repr(copy) == repr(trigger)
    assert copy.preview(3, NOON) == trigger.preview(3, NOON)


def test_it_reads_what_apscheduler_pickled_and_refuses_what_makes_no_sense() -> None:
    state = {"version": 1, "timezone": UTC, "start_date": NOON, "end_date": None, "interval": SECOND}
    trigger = IntervalTrigger.__new__(IntervalTrigger)
    trigger.__setstate__((None, state))
    assert (trigger.interval, trigger.jitter, trigger.floating) == (SECOND, None, False)
    with pytest.raises(ValueError, match="version 3 of IntervalTrigger"):
        trigger.__setstate__(state | {"version": 3})
    with pytest.raises(InvalidArgument, match="must be positive"):
        trigger.__setstate__(state | {"interval": timedelta(0)})


def test_equal_intervals_share_one_object_and_there_is_no_dict() -> None:
    one, other = IntervalTrigger(seconds=5), IntervalTrigger(seconds=5.0)
    assert one.interval is other.interval
    assert not hasattr(one, "__dict__")
