"""What every trigger gets from the port, also one written for APScheduler 3."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.errors import InvalidArgument
from goscheduler.times import to_micros
from goscheduler.triggers.base import BACKLOG_STEPS, BaseTrigger, current_state, parse_jitter, postpone

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Every(BaseTrigger):
    """A trigger as a user writes it: one method, attributes, nothing else."""

    def __init__(self, step: timedelta, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.step = step
        self.start = start

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        if previous_fire_time is not None:
            return (previous_fire_time.astimezone(UTC) + self.step).astimezone(self.start.tzinfo)
        turns = max(0, -((self.start - now) // self.step))
        return (self.start.astimezone(UTC) + turns * self.step).astimezone(self.start.tzinfo)


class Scripted(BaseTrigger):
    """A trigger that gives prepared answers."""

    def __init__(self, answer: Callable[[datetime | None], datetime | None]) -> None:
        self.answer = answer

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return self.answer(previous_fire_time)


def test_a_trigger_that_only_knows_its_next_time_has_a_preview_and_a_backlog() -> None:
    trigger = Every(timedelta(hours=1))
    assert [moment.hour for moment in trigger.preview(3, NOON)] == [12, 13, 14]
    assert trigger.preview(0, NOON) == []
    backlog = trigger.backlog(NOON, NOON + timedelta(hours=3, minutes=59), keep=2)
    assert backlog.count == 4
    assert [moment.hour for moment in backlog.latest] == [14, 15]
    assert backlog.exact
    assert trigger.anchored(NOON) is trigger
    assert trigger.explain() == str(trigger)


@pytest.mark.parametrize("step", [timedelta(0), -timedelta(hours=1)])
def test_a_trigger_that_does_not_move_forward_ends_the_walk(step: timedelta) -> None:
    trigger = Scripted(lambda previous: NOON if previous is None else previous + step)
    assert trigger.preview(10, NOON) == [NOON]
    assert trigger.backlog(NOON, NOON + timedelta(days=1)).count == 1


def test_a_trigger_without_fire_times_has_an_empty_preview() -> None:
    assert Scripted(lambda previous: None).preview(5, NOON) == []


def test_counting_ends_at_a_bound_and_still_tells_the_newest_times() -> None:
    trigger = Every(timedelta(seconds=1))
    now = NOON + timedelta(days=30)
    backlog = trigger.backlog(NOON, now, keep=3)
    assert (backlog.count, backlog.exact) == (BACKLOG_STEPS, False)
    assert backlog.latest == (now - timedelta(seconds=2), now - timedelta(seconds=1), now)


def test_a_trigger_that_cannot_be_asked_from_the_end_gives_the_times_that_were_counted() -> None:
    trigger = Scripted(lambda previous: (previous or NOON) + timedelta(seconds=1))
    backlog = trigger.backlog(NOON, NOON + timedelta(days=30), keep=1)
    assert (backlog.count, backlog.exact) == (BACKLOG_STEPS, False)
    assert backlog.latest == (NOON + timedelta(seconds=BACKLOG_STEPS - 1),)


def test_keeping_none_of_the_backlog_still_counts_it() -> None:
    backlog = Every(timedelta(hours=1)).backlog(NOON, NOON + timedelta(hours=5), keep=0)
    assert (backlog.count, backlog.latest) == (6, ())


def test_the_walk_goes_on_through_a_repeated_hour() -> None:
    trigger = Every(timedelta(minutes=30), start=datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN))
    now = datetime(2026, 10, 25, 0, 30, tzinfo=BERLIN)
    assert [moment.astimezone(UTC).strftime("%d %H:%M") for moment in trigger.preview(6, now)] == [
        "24 23:30",
        "25 00:00",
        "25 00:30",
        "25 01:00",
        "25 01:30",
        "25 02:00",
    ]
    last = datetime(2026, 10, 25, 2, 0, fold=1, tzinfo=BERLIN)
    assert trigger.backlog(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), last).count == 2


def test_custom_triggers_are_the_same_schedule_when_class_and_attributes_are() -> None:
    assert Every(timedelta(1)).same_schedule_as(Every(timedelta(1)))
    assert not Every(timedelta(1)).same_schedule_as(Every(timedelta(2)))
    assert not Every(timedelta(1)).same_schedule_as(Scripted(lambda previous: None))


def test_a_custom_trigger_with_its_own_repr_is_compared_by_it() -> None:
    class Described(Every):
        def __repr__(self) -> str:
            return f"<every {self.step}>"

    assert Described(timedelta(1)).same_schedule_as(Described(timedelta(1), start=NOON))
    assert not Described(timedelta(1)).same_schedule_as(Described(timedelta(2)))


def test_jitter_for_triggers_of_apscheduler_only_delays() -> None:
    trigger = Every(timedelta(hours=1))
    for _ in range(50):
        delayed = trigger._apply_jitter(NOON, 10, NOON)
        assert delayed is not None
        assert NOON <= delayed <= NOON + timedelta(seconds=10)
    assert trigger._apply_jitter(NOON, None, NOON) is NOON
    assert trigger._apply_jitter(None, 10, NOON) is None


@given(st.floats(0, 1e6), st.integers(1, 10**7), st.integers(0, 10**7))
def test_a_delay_stays_within_all_of_its_limits(jitter: float, before: int, until: int) -> None:
    delayed = postpone(
        NOON,
        jitter,
        before=NOON + timedelta(microseconds=before),
        until=NOON + timedelta(microseconds=until),
    )
    delay = to_micros(delayed) - to_micros(NOON)
    assert 0 <= delay <= round(jitter * 1e6)
    assert delay < before
    assert delay <= until


@pytest.mark.parametrize(("value", "expected"), [(None, None), (0, 0), (5, 5), (2.5, 2.5), ("5", 5)])
def test_jitter_is_a_number_of_seconds(value: float | str | None, expected: float | None) -> None:
    assert parse_jitter(value) == expected


@pytest.mark.parametrize("value", [-1, "-1", float("nan"), float("inf"), 1e12, "often"])
def test_negative_endless_and_absurd_jitter_is_refused(value: float | str) -> None:
    with pytest.raises(InvalidArgument, match="jitter must be") as caught:
        parse_jitter(value)
    assert caught.value.field == "jitter"


@pytest.mark.parametrize("value", [True, [1], b"1"])
def test_jitter_of_the_wrong_type_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="Unsupported type for jitter"):
        parse_jitter(value)  # type: ignore[arg-type]


def test_state_of_a_newer_release_is_refused_and_that_of_an_old_one_unwrapped() -> None:
    assert current_state(Every, (None, {"version": 1, "x": 2}), 1)["x"] == 2
    with pytest.raises(ValueError, match="Got serialized data for version 9 of Every, but only versions up to 1"):
        current_state(Every, {"version": 9}, 1)
