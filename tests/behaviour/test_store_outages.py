"""A store may raise in any method at any moment: the loop lives, other stores go on, and nothing is lost."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from behaviour_doubles import (
    START,
    FaultyMemoryStore,
    FaultySimpleStore,
    HoldingExecutor,
    PickledStore,
    Rude,
    note,
    within,
)

from goscheduler import BackgroundScheduler
from goscheduler.errors import JobLookupError
from goscheduler.events import (
    EVENT_JOB_ADDED,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_SUBMITTED,
    EVENT_SCHEDULER_DEGRADED,
    EVENT_SCHEDULER_RECOVERED,
    EVENT_SCHEDULER_SHUTDOWN,
)
from goscheduler.jobstores.base import PartlySettled
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.schedulers._outages import Outages
from goscheduler.testing import EventRecorder, ManualScheduler

GONE = OSError("the server has gone away")
KINDS = [FaultySimpleStore, FaultyMemoryStore]


@pytest.fixture(params=KINDS, ids=["simple store", "memory store"])
def faulty(request):
    return request.param()


@pytest.fixture
def scheduler(schedulers, faulty):
    scheduler = schedulers(ManualScheduler, jobstores={"default": faulty, "sound": PickledStore()})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="shaky", args=["shaky"])
    scheduler.add_job(note, "interval", seconds=10, id="sound", args=["sound"], jobstore="sound")
    return scheduler


@pytest.fixture
def recorder(scheduler):
    return EventRecorder(scheduler)


def pass_time(scheduler, seconds, step=1):
    """Move the clock by hand: a broken store cannot be asked when its next job is due."""
    for _ in range(int(seconds / step)):
        scheduler.clock.advance(step)
        scheduler.run_due()


FIRING_METHODS = [
    (FaultySimpleStore, "get_due_jobs"),
    (FaultySimpleStore, "update_job"),
    (FaultySimpleStore, "get_next_run_time"),
    (FaultySimpleStore, "fire_due"),
    (FaultySimpleStore, "claim_runs"),
    (FaultyMemoryStore, "fire_due"),
    (FaultyMemoryStore, "claim_runs"),
]


@pytest.mark.parametrize(("kind", "method"), FIRING_METHODS)
@pytest.mark.parametrize("error", [GONE, JobLookupError("shaky"), RuntimeError()], ids=lambda e: type(e).__name__)
def test_a_store_that_raises_while_firing_stops_nothing_and_loses_nothing(schedulers, jobcalls, kind, method, error):
    # APScheduler 3: its thread ends, and `running` stays True.
    store = kind()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store, "sound": PickledStore()})
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=10), id="once", args=["once"])
    scheduler.add_job(note, "interval", seconds=10, id="sound", args=["sound"], jobstore="sound")
    pass_time(scheduler, 5)
    store.faults[method] = error
    pass_time(scheduler, 30)
    assert jobcalls.count("sound") == 3
    store.faults.clear()
    pass_time(scheduler, 30)
    assert jobcalls.count("once") == 1
    assert jobcalls.count("sound") == 6


class BusyStore(FaultyMemoryStore):
    """Puts off the ends of one job, as if another process held its row, a few times."""

    def __init__(self, times):
        super().__init__()
        self.times = times

    def settle(self, settlements):
        left = [end for end in settlements if end.attempt.run.job.id == "held"] if self.times > 0 else []
        refused = super().settle([end for end in settlements if end not in left])
        if left:
            self.times -= 1
            raise PartlySettled(refused, left)
        return refused


def test_ends_that_a_store_puts_off_are_told_once_and_when_they_are_written(schedulers, jobcalls, caplog):
    caplog.set_level(logging.WARNING)
    store = BusyStore(times=1)
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    scheduler.start()
    for name in ("free", "held"):
        scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), id=name, args=[name])
    pass_time(scheduler, 1)
    assert [event.job_id for event in recorder.events] == ["free"]
    assert [run.job.id for run in store.live_runs()] == ["held"]
    pass_time(scheduler, 1)
    assert [event.job_id for event in recorder.events] == ["free", "held"]
    assert store.live_runs() == []
    assert caplog.messages == []


def test_the_settling_thread_writes_ends_again_that_a_store_has_put_off(schedulers, jobcalls):
    scheduler = schedulers(BackgroundScheduler, jobstores={"default": BusyStore(times=3)})
    recorder = EventRecorder(scheduler, EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(note, id="held", args=["held"])
    recorder.wait_for(EVENT_JOB_EXECUTED)
    assert jobcalls == ["held"]


class HalfwayStore(FaultyMemoryStore):
    """Is stopped in the middle of a claim: says what it has claimed until then, and what stopped it."""

    def claim_runs(self, request):
        claimed = super().claim_runs(request)
        return claimed._replace(error=GONE) if claimed.runs else claimed


def test_what_a_store_has_claimed_before_it_was_stopped_runs_and_the_store_is_in_doubt(schedulers, jobcalls):
    scheduler = schedulers(ManualScheduler, jobstores={"default": HalfwayStore()})
    recorder = EventRecorder(scheduler, EVENT_SCHEDULER_DEGRADED | EVENT_SCHEDULER_RECOVERED)
    scheduler.start()
    scheduler.add_job(note, "interval", hours=1, id="job", args=["job"])
    scheduler.run_now("job")
    pass_time(scheduler, 5)
    assert jobcalls == ["job"]
    assert [event.code for event in recorder.events] == [EVENT_SCHEDULER_DEGRADED, EVENT_SCHEDULER_RECOVERED]


@pytest.mark.parametrize("method", ["remove_job", "update_job", "get_next_run_time"])
def test_no_run_is_doubled_when_a_store_fails_in_the_middle_of_a_round(schedulers, jobcalls, method):
    store = FaultySimpleStore()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    scheduler.start()
    trigger = {"run_date": START + timedelta(seconds=10)}
    for name in "abc":
        scheduler.add_job(note, "date", id=name, args=[name], **trigger)
    scheduler.add_job(note, "interval", seconds=10, id="d", args=["d"])
    pass_time(scheduler, 9)
    store.faults[method] = GONE
    pass_time(scheduler, 1)
    store.faults.clear()
    pass_time(scheduler, 9.9, 0.9)
    assert sorted(jobcalls) == ["a", "b", "c", "d"]


def test_a_run_fired_before_the_store_failed_is_not_counted_as_live_for_ever(schedulers, jobcalls):
    store = FaultySimpleStore()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="job")
    pass_time(scheduler, 9)
    store.faults["get_next_run_time"] = GONE
    pass_time(scheduler, 1)
    store.faults.clear()
    pass_time(scheduler, 30)
    assert len(jobcalls) == 4
    assert not recorder.of(EVENT_JOB_MAX_INSTANCES)
    assert store.live_runs() == []


def test_a_failing_store_is_told_of_and_so_is_its_recovery(scheduler, faulty, recorder, jobcalls):
    faulty.faults["fire_due"] = GONE
    pass_time(scheduler, 20)
    degraded = recorder.of(EVENT_SCHEDULER_DEGRADED)
    assert degraded
    assert {event.alias for event in degraded} == {"default"}
    assert not recorder.of(EVENT_SCHEDULER_RECOVERED)
    faulty.faults.clear()
    pass_time(scheduler, 20)
    assert [event.alias for event in recorder.of(EVENT_SCHEDULER_RECOVERED)] == ["default"]
    assert "shaky" in jobcalls


def test_an_outage_ends_in_a_coalesced_run_and_the_old_rhythm(schedulers, faulty, jobcalls):
    scheduler = schedulers(ManualScheduler, jobstores={"default": faulty}, jobstore_retry_interval=2)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="shaky")
    faulty.faults["fire_due"] = GONE
    pass_time(scheduler, 35)
    assert jobcalls == []
    faulty.faults.clear()
    pass_time(scheduler, 4)
    assert len(jobcalls) == 1
    assert scheduler.get_job("shaky").next_run_time == START + timedelta(seconds=40)
    pass_time(scheduler, 1)
    assert len(jobcalls) == 2


def test_a_failing_store_is_left_alone_for_longer_and_longer_but_never_longer_than_the_retry_interval(
    scheduler, faulty
):
    faulty.faults["fire_due"] = GONE
    faulty.asked.clear()
    pass_time(scheduler, 300)
    asked = faulty.asked.count("fire_due")
    assert 300 / 10 <= asked <= 300 / 10 * 2 + 8


def test_pauses_between_tries_double_up_to_the_longest_with_jitter():
    outages = Outages()
    pauses = [outages.failed("store", 0.0, 10.0) for _ in range(40)]
    for number, pause in enumerate(pauses):
        full = min(10.0, 0.5 * 2**number)
        assert 0.8 * full <= pause <= full
    assert outages.remaining("store", 0.0) == pauses[-1]
    assert outages.remaining("store", 1e9) == 0.0
    assert outages.remaining("other", 0.0) == 0.0
    assert outages.ended("store")
    assert not outages.ended("store")


def test_a_broken_store_does_not_make_the_loop_spin(scheduler, faulty):
    faulty.faults["fire_due"] = GONE
    scheduler.clock.advance(10)
    for _ in range(5):
        assert scheduler._process_jobs() > 0.1


def test_outcomes_are_kept_while_the_store_is_away_and_written_when_it_is_back(scheduler, faulty, recorder, jobcalls):
    faulty.faults["settle"] = GONE
    pass_time(scheduler, 10)
    assert sorted(jobcalls) == ["shaky", "sound"]
    assert not recorder.of(EVENT_JOB_EXECUTED, "shaky")
    assert faulty.history(HistoryQuery("shaky")) == []
    faulty.faults.clear()
    pass_time(scheduler, 3)
    (record,) = faulty.history(HistoryQuery("shaky"))
    assert record.outcome is OutcomeKind.SUCCEEDED
    assert len(recorder.of(EVENT_JOB_EXECUTED, "shaky")) == 1
    assert jobcalls.count("shaky") == 1


def test_an_executor_that_comes_while_the_store_is_away_is_there_and_its_jobs_fire_when_the_store_is_back(
    schedulers, faulty, jobcalls
):
    scheduler = schedulers(ManualScheduler, jobstores={"default": faulty})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="late", args=["late"], executor="late")
    pass_time(scheduler, 11)
    assert scheduler.get_job("late").suspended
    faulty.faults["suspensions"] = GONE
    scheduler.add_executor("debug", "late")
    pass_time(scheduler, 11)
    assert jobcalls == []
    del faulty.faults["suspensions"]
    pass_time(scheduler, 70)
    assert "late" in jobcalls


def test_outcomes_that_are_too_many_for_one_call_are_written_in_smaller_and_smaller_portions(schedulers, jobcalls):
    store, most = MemoryJobStore(), 3

    def settle(settlements, written=store.settle):
        if len(settlements) > most:
            raise GONE  # a call that took too long: all of it has to be written again
        return written(settlements)

    store.settle = settle
    scheduler = schedulers(ManualScheduler, jobstores={"default": store})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_jobs([{"func": note, "trigger": "date", "id": f"job-{n}", "args": [str(n)]} for n in range(20)])
    pass_time(scheduler, 10)
    assert sorted(record.job_id for record in scheduler.runs()) == sorted(f"job-{n}" for n in range(20))
    assert len(recorder.of(EVENT_JOB_EXECUTED)) == 20
    assert len(jobcalls) == 20


def test_a_second_outcome_does_not_push_out_one_that_waits_to_be_written(schedulers):
    store = FaultySimpleStore()
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, jobstores={"default": store}, executors={"default": holding})
    scheduler.start()
    for name in "abc":
        scheduler.add_job(note, "date", run_date=START, id=name)
    scheduler._process_jobs()
    store.faults["settle"] = GONE
    for _ in "abc":
        holding.finish()
        scheduler.engine.settler.settle_reported()
    store.faults.clear()
    scheduler.run_due()
    assert {record.job_id for record in store.history(HistoryQuery())} == {"a", "b", "c"}
    assert store.live_runs() == []


def test_a_senseless_outcome_costs_no_other_run_its_outcome(schedulers):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    for name in ("bad", "good", "better"):
        scheduler.add_job(note, "date", run_date=START, id=name)
    scheduler._process_jobs()
    scheduler.report(holding.held.pop(0), "done, I think")
    holding.finish()
    holding.finish()
    try:
        scheduler.engine.settler.settle_reported()
    except Exception:
        scheduler.engine.settler.settle_reported()
    assert {event.job_id for event in recorder.of(EVENT_JOB_EXECUTED)} == {"good", "better"}


def test_an_outcome_reported_twice_counts_once(schedulers):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START, id="job")
    scheduler._process_jobs()
    holding.held.append(holding.held[0])
    holding.finish()
    holding.finish()
    scheduler.run_due()
    assert len(recorder.of(EVENT_JOB_EXECUTED)) == 1


def test_what_cannot_be_written_at_shutdown_is_said_and_shutdown_ends(schedulers, caplog):
    store = FaultySimpleStore()
    scheduler = schedulers(jobstores={"default": store})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    store.faults["settle"] = GONE
    scheduler.add_job(note, id="job")
    recorder.wait_for(EVENT_JOB_SUBMITTED, "job", timeout=60)
    within(60, scheduler.shutdown)
    assert recorder.codes[-1] == EVENT_SCHEDULER_SHUTDOWN
    assert any(record.levelno == logging.ERROR and "1 runs" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("method", ["fire_due", "claim_runs", "settle"])
@pytest.mark.parametrize("error", [GONE, Rude("cancelled")], ids=["an error", "not even an Exception"])
def test_the_threads_of_a_background_scheduler_survive_a_store_that_raises(schedulers, method, error):
    store = FaultySimpleStore()
    scheduler = schedulers(jobstores={"default": store}, jobstore_retry_interval=0.05)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    store.faults[method] = error
    scheduler.add_job(note, id="job")
    recorder.wait_for(EVENT_JOB_ADDED, "job", timeout=60)
    if method == "settle":
        recorder.wait_for(EVENT_JOB_SUBMITTED, "job", timeout=60)
    else:
        recorder.wait_for(EVENT_SCHEDULER_DEGRADED, timeout=60)
    store.faults.clear()
    recorder.wait_for(EVENT_JOB_EXECUTED, "job", timeout=60)
    scheduler.add_job(note, id="later")
    recorder.wait_for(EVENT_JOB_EXECUTED, "later", timeout=60)


@pytest.mark.parametrize("method", ["lookup_job", "get_all_jobs", "add_job", "remove_job", "edit_job"])
def test_an_error_of_the_store_reaches_the_caller_of_the_method_and_nobody_else(scheduler, faulty, jobcalls, method):
    faulty.faults[method] = GONE
    act = {
        "lookup_job": lambda: scheduler.get_job("shaky", "default"),
        "get_all_jobs": scheduler.get_jobs,
        "add_job": lambda: scheduler.add_job(note, id="new"),
        "remove_job": lambda: scheduler.remove_job("shaky"),
        "edit_job": lambda: scheduler.modify_job("shaky", name="new name"),
    }
    with pytest.raises(OSError, match="gone away"):
        act[method]()
    faulty.faults.clear()
    assert scheduler.get_job("new") is None
    assert scheduler.get_job("shaky").name == "note"
    pass_time(scheduler, 10)
    assert sorted(jobcalls) == ["shaky", "sound"]


@pytest.mark.parametrize("method", ["update_job", "remove_job"])
def test_one_job_that_the_store_cannot_write_does_not_stop_the_others(schedulers, jobcalls, method):
    class Picky(PickledStore):
        def update_job(self, job):
            self._refuse("update_job", job.id)
            super().update_job(job)

        def remove_job(self, job_id):
            self._refuse("remove_job", job_id)
            super().remove_job(job_id)

        def _refuse(self, name, job_id):
            if name == method and job_id == "poison":
                raise ValueError("this row cannot be written")

    scheduler = schedulers(ManualScheduler, jobstores={"default": Picky()}, jobstore_retry_interval=1)
    scheduler.start()
    trigger = {"seconds": 10} if method == "update_job" else {"run_date": START + timedelta(seconds=10)}
    kind = "interval" if method == "update_job" else "date"
    scheduler.add_job(note, kind, id="poison", args=["poison"], **trigger)
    scheduler.add_job(note, "interval", seconds=10, next_run_time=START + timedelta(seconds=11), id="good")
    scheduler.add_job(note, "interval", seconds=10, next_run_time=START + timedelta(seconds=12), id="better")
    pass_time(scheduler, 60)
    assert jobcalls.count("called") >= 8
    assert "poison" not in jobcalls
    assert scheduler.get_job("poison") is not None


def test_a_job_that_vanishes_between_reading_and_writing_is_not_run_and_stops_nothing(schedulers, jobcalls):
    class Racing(PickledStore):
        def get_due_jobs(self, now):
            due = super().get_due_jobs(now)
            self.rows.pop("vanishing", None)  # somebody else removes it in this very moment
            return due

    scheduler = schedulers(ManualScheduler, jobstores={"default": Racing()})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="vanishing", args=["vanishing"])
    scheduler.add_job(note, "interval", seconds=10, id="staying", args=["staying"])
    pass_time(scheduler, 20)
    assert jobcalls == ["staying", "staying"]


def test_a_store_removed_while_a_job_of_it_runs_does_not_stop_the_others(schedulers, jobcalls):
    holding = HoldingExecutor()
    scheduler = schedulers(ManualScheduler, executors={"holding": holding}, jobstores={"second": PickledStore()})
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START, jobstore="second", executor="holding")
    scheduler.add_job(note, "interval", seconds=10, args=["other"])
    scheduler._process_jobs()
    scheduler.remove_jobstore("second")
    holding.finish()
    pass_time(scheduler, 10)
    assert jobcalls == ["other"]


def test_a_log_filter_that_raises_costs_no_run(schedulers):
    # The filters of a logger are called unguarded by the logging package.
    class Broken(logging.Filter):
        def filter(self, record):
            raise ValueError("cannot format")

    logger = logging.getLogger("goscheduler.test.broken")
    scheduler = schedulers(ManualScheduler, logger=logger, executors={"holding": HoldingExecutor()})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, id="skipped", executor="holding")
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=20), id="victim")
    scheduler.clock.advance(10)
    scheduler._process_jobs()
    recorder = EventRecorder(scheduler)
    broken = Broken()
    logger.addFilter(broken)
    scheduler.clock.advance(10)
    scheduler._process_jobs()  # logs that "skipped" is skipped
    logger.removeFilter(broken)
    pass_time(scheduler, 10)
    assert recorder.of(EVENT_JOB_EXECUTED, "victim")
