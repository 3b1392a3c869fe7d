"""One bad job never stops the others: jobs that pass every check and then misbehave while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from goscheduler.events import EVENT_ALL, EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_SUSPENDED
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.interval import IntervalTrigger

MINUTE = timedelta(minutes=1)


@pytest.fixture
def scheduler() -> Iterator[ManualScheduler]:
    with ManualScheduler() as scheduler:
        yield scheduler


def noop() -> None:
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class UnprintableResult:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def raising(error: BaseException) -> Callable[[], None]:
    def job() -> None:
        raise error

    return job


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"), KeyError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), MemoryError(),
        RecursionError(), StopIteration(), Unprintable(), BaseException("no"), ValueError("\0\x1b[2J %s %d {0}"),
        UnicodeDecodeError("x", b"", 0, 1, "no"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_a_job_that_raises_anything_ends_as_an_error_event(
    scheduler: ManualScheduler, bystander: Any, error: BaseException
) -> None:
    recorder = EventRecorder(scheduler, EVENT_JOB_ERROR)
    scheduler.add_job(raising(error), "interval", minutes=1, id="bad")
    bystander.assert_firing()
    events = recorder.of(EVENT_JOB_ERROR, "bad")
    assert len(events) == 3
    assert all(type(event.exception) is type(error) for event in events)


class Broken(BaseTrigger):
    """Gives one good time and then misbehaves."""

    def __init__(self, misbehave: Callable[[datetime, datetime], Any]) -> None:
        self._misbehave = misbehave

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        if previous_fire_time is None:
            return now + MINUTE
        answer: datetime | None = self._misbehave(previous_fire_time, now)
        return answer


def _raise(previous: datetime, now: datetime) -> None:
    raise RuntimeError("broken trigger")


@pytest.mark.parametrize(
    "misbehave",
    [
        _raise,
        lambda previous, now: "tomorrow",
        lambda previous, now: 5,
        lambda previous, now: datetime(2030, 1, 1),
        lambda previous, now: previous,
        lambda previous, now: previous - MINUTE,
    ],
    ids=["raises", "text", "number", "naive", "stands_still", "goes_back"],
)
def test_a_trigger_that_misbehaves_concerns_its_own_job_only(
    scheduler: ManualScheduler, bystander: Any, misbehave: Callable[[datetime, datetime], Any]
) -> None:
    scheduler.add_job(noop, Broken(misbehave), id="bad")
    bystander.assert_firing()
    bystander.assert_firing()


def test_a_trigger_that_creeps_by_microseconds_does_not_hold_up_the_others_after_a_pause(
    scheduler: ManualScheduler, bystander: Any
) -> None:
    scheduler.add_job(noop, Broken(lambda previous, now: previous + timedelta(microseconds=1)), id="bad")
    scheduler.pause()
    scheduler.advance("1d")
    scheduler.resume()
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    scheduler._process_jobs()
    scheduler.engine.settler.settle_reported()
    assert recorder.of(EVENT_JOB_EXECUTED, "bystander")
    scheduler.remove_job("bad")
    bystander.assert_alone_and_firing()


@pytest.mark.parametrize("misbehave", [_raise, lambda previous, now: "tomorrow"], ids=["raises", "text"])
def test_a_job_with_a_broken_trigger_is_suspended_with_a_reason(
    scheduler: ManualScheduler, misbehave: Callable[[datetime, datetime], Any]
) -> None:
    recorder = EventRecorder(scheduler, EVENT_JOB_SUSPENDED)
    scheduler.add_job(noop, Broken(misbehave), id="bad")
    scheduler.advance("3m")
    [event] = recorder.events
    assert event.job_id == "bad"
    assert event.reason
    job = scheduler.get_job("bad")
    assert job is not None
    assert job.suspended == event.reason


def test_a_trigger_that_raises_at_the_first_question_is_refused_at_the_call(
    scheduler: ManualScheduler, bystander: Any
) -> None:
    class RaisesAtOnce(BaseTrigger):
        def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
            raise ZeroDivisionError("broken from the start")

    with pytest.raises(ZeroDivisionError, match="broken from the start"):
        scheduler.add_job(noop, RaisesAtOnce())
    bystander.assert_alone_and_firing()


def test_a_job_for_an_executor_that_does_not_exist_is_suspended_and_runs_when_it_comes(
    scheduler: ManualScheduler, bystander: Any
) -> None:
    recorder = EventRecorder(scheduler)
    scheduler.add_job(noop, "interval", minutes=1, id="bad", executor="nobody")
    bystander.assert_firing()
    [suspended] = recorder.of(EVENT_JOB_SUSPENDED)
    assert "nobody" in suspended.reason
    scheduler.add_executor("debug", "nobody")
    bystander.assert_firing()
    assert recorder.of(EVENT_JOB_EXECUTED, "bad")


@pytest.mark.parametrize(
    "options",
    [
        {"misfire_grace_time": 10**8}, {"misfire_grace_time": 1e-9}, {"max_instances": 10**6},
        {"name": "%s %d %(x)s {0} {x}"}, {"id": "%s %d {0}"}, {"coalesce": False},
    ],
    ids=lambda options: "=".join(map(str, next(iter(options.items())))),
)  # fmt: skip
def test_extreme_options_concern_their_own_job_only(
    scheduler: ManualScheduler, bystander: Any, options: dict[str, Any]
) -> None:
    scheduler.add_job(noop, "interval", **{"id": "bad", "seconds": 20, **options})
    bystander.assert_firing()
    bystander.assert_firing()


def test_a_result_that_cannot_be_printed_concerns_its_own_job_only(scheduler: ManualScheduler, bystander: Any) -> None:
    scheduler.add_job(UnprintableResult, "interval", minutes=1, id="bad")
    bystander.assert_firing()


def test_a_listener_that_fails_stops_nothing(scheduler: ManualScheduler, bystander: Any) -> None:
    scheduler.add_listener(raising(SystemExit()), EVENT_ALL)  # called with an argument that it does not take, too
    bystander.assert_firing()


def test_a_job_that_removes_or_changes_itself_while_it_runs_stops_nothing(
    scheduler: ManualScheduler, bystander: Any
) -> None:
    scheduler.add_job(lambda: scheduler.remove_job("removes"), "interval", seconds=20, id="removes")
    scheduler.add_job(lambda: scheduler.pause_job("pauses"), "interval", seconds=20, id="pauses")
    scheduler.add_job(
        lambda: scheduler.reschedule_job("changes", trigger="interval", seconds=50),
        "interval",
        seconds=20,
        id="changes",
    )
    bystander.assert_firing()
    assert scheduler.get_job("removes") is None
    paused = scheduler.get_job("pauses")
    assert paused is not None
    assert paused.next_run_time is None


def test_a_job_that_adds_what_is_refused_ends_as_an_error(scheduler: ManualScheduler, bystander: Any) -> None:
    recorder = EventRecorder(scheduler, EVENT_JOB_ERROR)
    scheduler.add_job(lambda: scheduler.add_job(5), "interval", minutes=1, id="bad")
    bystander.assert_firing()
    assert len(recorder.events) == 3


def test_five_kinds_of_bad_jobs_and_a_good_one_in_a_real_scheduler() -> None:
    scheduler = BackgroundScheduler(timezone="UTC")
    recorder = EventRecorder(scheduler)
    scheduler.start()
    try:
        often = {"seconds": 0.02}
        scheduler.add_job(raising(ValueError("no")), "interval", **often, id="raises")
        scheduler.add_job(raising(SystemExit(3)), "interval", **often, id="exits")
        scheduler.add_job(noop, Broken(_raise), id="broken trigger", next_run_time=scheduler.clock.now())
        scheduler.add_job(noop, "interval", **often, id="no executor", executor="nobody")
        scheduler.add_job(raising(Unprintable()), "interval", **often, id="unprintable")
        scheduler.add_job(noop, IntervalTrigger(seconds=0.02), id="good")
        recorder.wait_for(EVENT_JOB_EXECUTED, "good", count=20)
        for job_id in ("raises", "exits", "unprintable"):
            recorder.wait_for(EVENT_JOB_ERROR, job_id, count=3)
        for job_id in ("broken trigger", "no executor"):
            recorder.wait_for(EVENT_JOB_SUSPENDED, job_id)
        assert scheduler.running
    finally:
        scheduler.shutdown()
