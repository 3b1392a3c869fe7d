"""An executor may raise in any method: its runs get an outcome, and the others' jobs go on."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from behaviour_doubles import START, HoldingExecutor, Rude, note

from goscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_SUBMITTED,
    EVENT_SCHEDULER_DEGRADED,
)
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.debug import DebugExecutor
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing import EventRecorder, ManualScheduler


class Faulty(BaseExecutor):
    """Raises in the methods named in ``faults``."""

    def __init__(self, **faults):
        self.faults = faults

    def submit(self, run):
        self._maybe("submit")
        self._report(run, self._attempt(run))

    def room(self):
        self._maybe("room")
        return 10

    def _maybe(self, name):
        if name in self.faults:
            raise self.faults[name]


@pytest.fixture
def faulty():
    return Faulty()


@pytest.fixture
def scheduler(schedulers, faulty):
    scheduler = schedulers(ManualScheduler, executors={"faulty": faulty})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="bad", executor="faulty", args=["bad"])
    scheduler.add_job(note, "interval", seconds=10, id="good", args=["good"])
    return scheduler


@pytest.mark.parametrize("error", [OSError("no"), Rude("no")], ids=lambda e: type(e).__name__)
def test_a_run_that_cannot_be_submitted_is_told_of_as_an_error(scheduler, faulty, jobcalls, error, caplog):
    # APScheduler 3 drops the run and advances its schedule, without an event.
    recorder = EventRecorder(scheduler)
    faulty.faults["submit"] = error
    scheduler.advance(20)
    assert jobcalls == ["good", "good"]
    assert [event.exception for event in recorder.of(EVENT_JOB_ERROR, "bad")] == [error, error]
    assert 'failed before it started, attempt 1: could not be submitted to executor "faulty"' in caplog.text
    store = scheduler.engine.stores["default"]
    assert [record.outcome for record in store.history(HistoryQuery("bad"))] == [OutcomeKind.FAILED] * 2
    assert store.live_runs() == []
    faulty.faults.clear()
    scheduler.advance(10)
    assert jobcalls.count("bad") == 1


@pytest.mark.parametrize("answer", [OSError("cannot count"), Rude("cannot count")], ids=["error", "base exception"])
def test_an_executor_that_cannot_tell_its_room_does_not_hold_up_the_jobs_of_others(scheduler, faulty, jobcalls, answer):
    recorder = EventRecorder(scheduler)
    faulty.faults["room"] = answer
    scheduler.clock.advance(10)
    scheduler.run_due()
    assert "good" in jobcalls
    assert not recorder.of(EVENT_SCHEDULER_DEGRADED)  # the store is well
    faulty.faults.clear()
    scheduler.clock.advance(10)
    scheduler.run_due()
    scheduler.clock.advance(10)
    scheduler.run_due()
    assert "bad" in jobcalls


@pytest.mark.parametrize("room", [None, "plenty", -5])
def test_an_executor_with_a_senseless_room_does_not_hold_up_the_jobs_of_others(schedulers, jobcalls, room):
    class Senseless(Faulty):
        def room(self):
            return room

    scheduler = schedulers(ManualScheduler, executors={"senseless": Senseless()})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="bad", executor="senseless", args=["bad"])
    scheduler.add_job(note, "interval", seconds=10, id="good", args=["good"])
    for _ in range(3):
        scheduler.clock.advance(10)
        scheduler._process_jobs()
        scheduler.engine.settler.settle_reported()
    assert jobcalls.count("good") == 3


def test_an_executor_removed_between_firing_and_handing_over_loses_no_run(schedulers, jobcalls):
    scheduler = schedulers(ManualScheduler, executors={"gpu": DebugExecutor()})

    def remove(event):
        scheduler.remove_listener(remove)
        scheduler.remove_executor("gpu")

    scheduler.start()
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=10), id="job", executor="gpu")
    scheduler.add_listener(remove, EVENT_JOB_SUBMITTED)
    scheduler.clock.advance(10)
    scheduler._process_jobs()
    scheduler.engine.settler.settle_reported()
    assert jobcalls == []
    scheduler.add_executor(DebugExecutor(), "gpu")
    scheduler.run_due()
    assert jobcalls == ["called"]


def test_an_executor_added_while_a_round_goes_on_releases_the_jobs_that_the_round_suspends(schedulers, jobcalls):
    class AddsAnother(HoldingExecutor):
        def room(self):
            if "late" not in scheduler.engine.executors and scheduler.get_job("job"):
                scheduler.add_executor(DebugExecutor(), "late")
            return 10

    scheduler = schedulers(ManualScheduler, executors={"odd": AddsAnother()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job", executor="late")
    scheduler.clock.advance(10)
    scheduler.run_due()
    assert not recorder.of(EVENT_SCHEDULER_DEGRADED)
    scheduler.clock.advance(10)
    scheduler.run_due()
    assert scheduler.get_job("job").suspended is None
    assert recorder.of(EVENT_JOB_EXECUTED, "job")


def test_removing_an_executor_whose_shutdown_raises_removes_it_all_the_same(scheduler, faulty):
    def broken(wait=True, timeout=None):
        raise OSError("stuck")

    faulty.shutdown = broken
    with contextlib.suppress(OSError):
        scheduler.remove_executor("faulty")
    assert "faulty" not in scheduler.engine.executors
    scheduler.add_executor(DebugExecutor(), "faulty")
