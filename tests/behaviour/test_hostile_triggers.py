"""Triggers of the user's own that do what no trigger should."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from behaviour_doubles import START, FirstThen, PickledStore, Rude, note

from goscheduler.events import EVENT_JOB_ADDED, EVENT_JOB_EXECUTED, EVENT_JOB_SUSPENDED
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.interval import IntervalTrigger


class FirstAnswer(BaseTrigger):
    """Answers the first question with what it was given."""

    def __init__(self, answer):
        self.answer = answer

    def get_next_fire_time(self, previous_fire_time, now):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def __repr__(self):
        return "FirstAnswer()"


@pytest.mark.parametrize("answer", ["soon", 5, datetime(2030, 1, 1), [2030], False, OSError("no")], ids=repr)
@pytest.mark.parametrize("make_store", [None, PickledStore], ids=["memory", "simple store"])
def test_a_senseless_first_fire_time_is_refused_at_the_call_and_nothing_is_added(
    schedulers, jobcalls, answer, make_store
):
    scheduler = schedulers(ManualScheduler, jobstores={} if make_store is None else {"default": make_store()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    with pytest.raises((TypeError, ValueError, OSError)):
        scheduler.add_job(note, FirstAnswer(answer), id="bad")
    assert scheduler.get_jobs() == []
    assert not recorder.of(EVENT_JOB_ADDED)
    scheduler.add_job(note, "interval", seconds=10, id="good")
    scheduler.advance(10)
    assert jobcalls == ["called"]


@pytest.mark.parametrize("answer", ["soon", 5, datetime(2030, 1, 1)], ids=repr)
def test_the_refusal_of_a_senseless_fire_time_names_the_trigger_and_the_answer(schedulers, answer):
    scheduler = schedulers(ManualScheduler)
    scheduler.start()
    with pytest.raises((TypeError, ValueError)) as caught:
        scheduler.add_job(note, FirstAnswer(answer), id="bad")
    assert "trigger" in str(caught.value) or "fire time" in str(caught.value)


@pytest.mark.parametrize("make_store", [None, PickledStore], ids=["memory", "simple store"])
def test_a_trigger_that_raises_no_exception_but_worse_suspends_its_job_and_no_other(schedulers, jobcalls, make_store):
    scheduler = schedulers(ManualScheduler, jobstores={} if make_store is None else {"default": make_store()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, FirstThen(Rude("cancelled")), id="bad", args=["bad"])
    scheduler.add_job(note, "interval", seconds=10, id="good", args=["good"])
    scheduler.advance(20)
    assert jobcalls == ["good", "good"]
    assert [event.job_id for event in recorder.of(EVENT_JOB_SUSPENDED)] == ["bad"]


def test_the_loop_of_a_background_scheduler_survives_such_a_trigger(schedulers):
    class Impatient(FirstThen):
        def get_next_fire_time(self, previous_fire_time, now):
            if previous_fire_time is None:
                return now
            raise Rude("cancelled")

    scheduler = schedulers()
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, Impatient(None), id="bad")
    recorder.wait_for(EVENT_JOB_SUSPENDED, "bad", timeout=60)
    scheduler.add_job(note, id="good")
    recorder.wait_for(EVENT_JOB_EXECUTED, "good", timeout=60)


def test_a_trigger_without_a_usable_text_is_no_reason_to_stop(schedulers, jobcalls):
    class Unspeakable(FirstThen):
        def __str__(self):
            raise ValueError("no words")

        __repr__ = __str__

    scheduler = schedulers(ManualScheduler)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, Unspeakable(OSError("broken")), id="bad", args=["bad"])
    scheduler.add_job(note, Unspeakable(lambda previous: previous + timedelta(seconds=10)), id="odd", args=["odd"])
    scheduler.add_job(note, "interval", seconds=10, id="good", args=["good"])
    scheduler.advance(20)
    assert jobcalls.count("good") == 2
    assert jobcalls.count("odd") == 2
    assert recorder.of(EVENT_JOB_SUSPENDED, "bad")


def test_a_trigger_that_answers_in_the_past_first_runs_at_once_and_once(schedulers, jobcalls):
    class Historian(FirstThen):
        def get_next_fire_time(self, previous_fire_time, now):
            return START - timedelta(days=1) if previous_fire_time is None else None

    scheduler = schedulers(ManualScheduler)
    scheduler.start()
    scheduler.add_job(note, Historian(None), id="job")
    scheduler.advance(60)
    assert jobcalls == ["called"]


def test_a_trigger_shared_by_two_jobs_fires_both_at_their_own_times(schedulers, jobcalls):
    trigger = IntervalTrigger(seconds=10, timezone="UTC")
    scheduler = schedulers(ManualScheduler)
    scheduler.start()
    scheduler.add_job(note, trigger, args=["first"])
    scheduler.advance(5)
    scheduler.add_job(note, trigger, args=["second"])
    scheduler.advance(10)
    assert jobcalls == ["first", "second"]
