"""A shared store may have done what it was asked although its answer was lost; that loses and repeats nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from behaviour_doubles import START, note
from lease_doubles import SharedStore

from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_LEASE_LOST
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.testing import EventRecorder, ManualScheduler


class Mumbling(SharedStore):
    """Does what it is asked, and then fails to say so, once for each method in ``mumbles``, if it did anything."""

    def __init__(self) -> None:
        super().__init__()
        self.mumbles: list[str] = []


def _mumbling(name):
    def method(self, *args):
        answer = getattr(super(Mumbling, self), name)(*args)
        done = args[0] if name == "settle" else answer.runs
        if name in self.mumbles and done:
            self.mumbles.remove(name)
            raise ConnectionError("the answer was lost")
        return answer

    return method


for _name in ("fire_due", "claim_runs", "settle"):
    setattr(Mumbling, _name, _mumbling(_name))


@pytest.fixture
def store():
    return Mumbling()


@pytest.fixture
def scheduler(store):
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        yield scheduler


def recover(scheduler):
    scheduler.advance(timedelta(seconds=2))


def test_a_firing_whose_answer_was_lost_is_run_once_when_the_store_answers_again(scheduler, store, jobcalls):
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), id="job")
    store.mumbles = ["fire_due"]
    scheduler.advance(1)
    assert jobcalls == []
    assert [run.owner for run in store.live_runs("job")] == [scheduler.engine.leases.owner_of("default")]
    recover(scheduler)
    assert jobcalls == ["called"]
    assert store.live_runs() == store.pending_runs() == []
    assert [record.outcome for record in scheduler.runs("job")] == [OutcomeKind.SUCCEEDED, OutcomeKind.SNOOZED]


def test_a_firing_that_shows_up_later_than_its_answer_was_missed_is_run_once(scheduler, store, jobcalls, monkeypatch):
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), id="job")
    store.mumbles = ["fire_due"]
    with monkeypatch.context() as patch:
        patch.setattr(store, "live_runs", lambda job_id=None: [])  # it is still on its way
        scheduler.advance(1)
        recover(scheduler)
    assert jobcalls == []
    scheduler.advance(scheduler.engine.leases.length + 1)
    assert jobcalls == ["called"]
    assert store.live_runs() == store.pending_runs() == []


def test_a_claim_whose_answer_was_lost_is_run_once_when_the_store_answers_again(scheduler, store, jobcalls):
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.run_now("job")
    store.mumbles = ["claim_runs"]
    scheduler.run_due()
    assert jobcalls == []
    recover(scheduler)
    assert jobcalls == ["called"]
    assert scheduler.runs("job")[0].source is Source.MANUAL


def test_an_end_whose_answer_was_lost_is_no_lost_lease(scheduler, store, jobcalls):
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED | EVENT_LEASE_LOST)
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), id="job")
    store.mumbles = ["settle"]
    scheduler.advance(1)
    recover(scheduler)
    assert store.mumbles == []
    assert [event.code for event in recorder.events] == [EVENT_JOB_EXECUTED]
    assert [record.outcome for record in scheduler.runs("job")] == [OutcomeKind.SUCCEEDED]


def test_what_goes_on_while_a_store_is_out_is_not_given_back(scheduler, store, jobcalls):
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), id="first")
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=2), id="second")
    store.faults["settle"] = ConnectionError("down")
    scheduler.advance(1)
    store.mumbles = ["fire_due"]
    scheduler.advance(1)
    assert jobcalls == ["called"]
    store.faults.clear()
    recover(scheduler)
    assert jobcalls == ["called", "called"]
    assert [record.outcome for record in scheduler.runs("first")] == [OutcomeKind.SUCCEEDED]
