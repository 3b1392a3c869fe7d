"""The date trigger."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument
from goscheduler.triggers.date import DateTrigger

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run_date", "expected"),
    [
        (date(2026, 1, 2), "2026-01-02T00:00:00+01:00"),
        (datetime(2026, 1, 2, 3), "2026-01-02T03:00:00+01:00"),
        ("2026-01-02 03:04:05.5", "2026-01-02T03:04:05.500000+01:00"),
        ("2026-01-02T03:04", "2026-01-02T03:04:00+01:00"),
        ("2026-01-02T03:04:05+0200", "2026-01-02T03:04:05+02:00"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        ("2026-03-29 02:30", "2026-03-29T03:30:00+02:00"),
        (datetime(2026, 10, 25, 2, 30, fold=1), "2026-10-25T02:30:00+01:00"),
        ("0001-01-01", "0001-01-01T00:00:00+00:53:28"),
        ("2106-02-07 06:28:16", "2106-02-07T06:28:16+01:00"),
    ],
)
def test_a_date_is_read_in_the_triggers_zone_unless_it_has_its_own(run_date: Any, expected: str) -> None:
    assert DateTrigger(run_date, BERLIN).run_date.isoformat() == expected


@pytest.mark.parametrize("run_date", ["", "tomorrow", "2026-02-30", "2026-01-02 23:59:60"])
def test_a_date_that_does_not_exist_is_refused(run_date: str) -> None:
    with pytest.raises(InvalidArgument, match="run_date") as caught:
        DateTrigger(run_date)
    assert caught.value.field == "run_date"


@pytest.mark.parametrize("run_date", [0, 1.5, True, b"2026-01-02", []])
def test_a_date_of_the_wrong_type_is_a_type_error(run_date: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type for run_date"):
        DateTrigger(run_date)


@pytest.mark.parametrize(
    ("zone", "error"), [("Mars/Phobos", InvalidArgument), ("../x", InvalidArgument), (3, TypeError)]
)
def test_a_wrong_zone_is_refused(zone: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        DateTrigger("2026-01-01", zone)


@pytest.mark.parametrize("days", [-10_000, -1, 0, 1])
def test_it_fires_once_also_when_the_date_is_past(days: int) -> None:
    trigger = DateTrigger(NOON + timedelta(days=days))
    assert trigger.get_next_fire_time(None, NOON) == NOON + timedelta(days=days)


def test_after_any_previous_fire_time_there_is_none_left() -> None:
    trigger = DateTrigger(NOON)
    assert trigger.get_next_fire_time(NOON - timedelta(days=1), NOON) is None
    assert trigger.get_next_fire_time(NOON, NOON) is None


def test_without_a_date_it_fires_now_in_the_given_zone() -> None:
    before = SYSTEM_CLOCK.now()
    trigger = DateTrigger(timezone=BERLIN)
    assert before <= trigger.run_date <= SYSTEM_CLOCK.now()
    assert trigger.run_date.tzinfo is BERLIN


def test_an_open_date_is_filled_in_by_the_scheduler_and_a_given_one_is_not() -> None:
    floating = DateTrigger(timezone=BERLIN)
    anchored = floating.anchored(NOON)
    assert anchored.run_date == NOON
    assert anchored.run_date.tzinfo is BERLIN
    fixed = DateTrigger(NOON)
    assert fixed.anchored(NOON + timedelta(days=1)) is fixed


def test_the_same_schedule_is_the_same_date_or_two_open_ones() -> None:
    assert DateTrigger(NOON).same_schedule_as(DateTrigger(NOON))
    assert not DateTrigger(NOON).same_schedule_as(DateTrigger(NOON + timedelta(microseconds=1)))
    assert DateTrigger().same_schedule_as(DateTrigger().anchored(NOON))
    assert not DateTrigger().same_schedule_as(DateTrigger(NOON))


def test_the_backlog_is_the_one_date() -> None:
    assert DateTrigger(NOON).backlog(NOON, NOON + timedelta(days=9), keep=5) == (1, (NOON,), True)


def test_it_prints_as_in_apscheduler_and_explains_itself() -> None:
    trigger = DateTrigger("2009-07-06", BERLIN)
    assert str(trigger) == "date[2009-07-06 00:00:00 CEST]"
    assert repr(trigger) == "<DateTrigger (run_date='2009-07-06 00:00:00 CEST')>"
    assert trigger.explain() == "once at 2009-07-06 00:00:00 CEST"


@pytest.mark.parametrize("trigger", [DateTrigger(NOON), DateTrigger("2026-10-25 02:30", BERLIN), DateTrigger()])
def test_it_survives_pickling(trigger: DateTrigger) -> None:
    copy = pickle.loads(pickle.dumps(trigger))
    assert copy.run_date == trigger.run_date
    assert copy.floating is trigger.floating
    assert copy.same_schedule_as(trigger)


def test_it_reads_what_apscheduler_pickled_and_refuses_newer_state() -> None:
    trigger = DateTrigger.__new__(DateTrigger)
    trigger.__setstate__((None, {"version": 1, "run_date": NOON}))
    assert (trigger.run_date, trigger.floating) == (NOON, False)
    with pytest.raises(ValueError, match="version 2 of DateTrigger"):
        trigger.__setstate__({"version": 2, "run_date": NOON})


def test_it_has_no_dict() -> None:
    assert not hasattr(DateTrigger(NOON), "__dict__")
