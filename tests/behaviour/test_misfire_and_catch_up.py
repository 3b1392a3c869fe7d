"""Late, gathered and overlapping firings of a running scheduler."""

from __future__ import annotations

from datetime import timedelta

import pytest
from behaviour_doubles import START, FirstThen, HoldingExecutor, PickledStore, go_back, note, stand_still

from goscheduler import current_run
from goscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    EVENT_JOB_REMOVED,
    EVENT_JOB_STARTED,
    EVENT_JOB_SUBMITTED,
    EVENT_JOB_SUSPENDED,
)
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing import EventRecorder, ManualScheduler


@pytest.fixture
def scheduler():
    with ManualScheduler() as scheduler:
        yield scheduler


@pytest.fixture
def holding():
    return HoldingExecutor()


@pytest.fixture
def recorder(scheduler):
    return EventRecorder(scheduler)


def sleep_through(scheduler, seconds):
    """Let time pass while the scheduler does nothing, as a suspended machine does."""
    scheduler.clock.advance(seconds)
    scheduler.run_due()


def history(scheduler, job_id="job"):
    return list(reversed(scheduler.engine.stores["default"].history(HistoryQuery(job_id, limit=10_000))))


def test_a_late_run_still_runs_by_default(scheduler, jobcalls):
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=5), id="job")
    sleep_through(scheduler, 86_400)
    assert jobcalls == ["called"]


def test_a_firing_later_than_its_grace_is_recorded_as_missed_and_not_run(scheduler, recorder, jobcalls):
    run_date = START + timedelta(seconds=5)
    scheduler.add_job(note, "date", run_date=run_date, id="job", misfire_grace_time=10)
    sleep_through(scheduler, 15.1)
    assert jobcalls == []
    (event,) = recorder.of(EVENT_JOB_MISSED)
    assert (event.job_id, event.scheduled_run_time) == ("job", run_date)
    (record,) = history(scheduler)
    assert record.outcome is OutcomeKind.MISSED
    assert scheduler.get_job("job") is None


def test_a_firing_exactly_as_late_as_its_grace_runs(scheduler, jobcalls):
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=5), misfire_grace_time=10)
    sleep_through(scheduler, 15)
    assert jobcalls == ["called"]


def test_a_past_date_job_runs_once_and_is_removed(scheduler, recorder, jobcalls):
    scheduler.add_job(note, "date", run_date=START - timedelta(days=3), id="job")
    scheduler.run_due()
    assert jobcalls == ["called"]
    assert recorder.of(EVENT_JOB_REMOVED, "job")


def test_gathered_firings_are_run_as_one_by_default(scheduler, recorder, jobcalls):
    scheduler.add_job(note, "interval", seconds=10, id="job")
    sleep_through(scheduler, 95)
    assert jobcalls == ["called"]
    (event,) = recorder.of(EVENT_JOB_EXECUTED)
    assert event.scheduled_run_time == START + timedelta(seconds=90)
    assert scheduler.get_job("job").next_run_time == START + timedelta(seconds=100)


def test_without_coalescing_each_gathered_firing_runs_in_order(scheduler, recorder):
    seen = []
    scheduler.add_job(lambda: seen.append(current_run().scheduled_at), "interval", seconds=10, coalesce=False)
    sleep_through(scheduler, 50)
    assert seen == [START + timedelta(seconds=10 * n) for n in range(1, 6)]
    assert len(recorder.of(EVENT_JOB_EXECUTED)) == 5


def test_without_coalescing_one_instance_at_a_time_runs(schedulers, holding):
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, coalesce=False, id="job")
    sleep_through_once(scheduler, 50)
    order = []
    while holding.held:
        assert len(holding.held) == 1
        order.append(holding.finish().scheduled_at)
        settle_and_go_on(scheduler)
    assert order == [START + timedelta(seconds=10 * n) for n in range(1, 6)]


def sleep_through_once(scheduler, seconds):
    scheduler.clock.advance(seconds)
    scheduler._process_jobs()


def settle_and_go_on(scheduler):
    scheduler.engine.settler.settle_reported()
    scheduler._process_jobs()


def test_a_moved_clock_does_not_spin_while_a_run_is_held_elsewhere(schedulers, holding):
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=10, coalesce=False, id="job")
    scheduler.clock.advance(50)
    assert scheduler.run_due() < 10
    assert len(holding.held) == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_never_more_instances_than_allowed_are_live(schedulers, holding, limit):
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=1, id="job", max_instances=limit)
    for _ in range(5):
        sleep_through_once(scheduler, 1)
    assert len(holding.held) == limit
    skipped = recorder.of(EVENT_JOB_MAX_INSTANCES, "job")
    assert [event.scheduled_run_times for event in skipped] == [
        [START + timedelta(seconds=n)] for n in range(limit + 1, 6)
    ]
    assert scheduler.get_job("job").next_run_time == START + timedelta(seconds=6)


def test_a_skipped_firing_is_in_the_history_and_the_next_one_runs(schedulers, holding):
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=1, id="job")
    sleep_through_once(scheduler, 1)
    sleep_through_once(scheduler, 1)
    assert [record.outcome for record in history(scheduler)] == [OutcomeKind.SKIPPED]
    holding.finish()
    settle_and_go_on(scheduler)
    sleep_through_once(scheduler, 1)
    assert holding.held[0].scheduled_at == START + timedelta(seconds=3)


def test_the_text_users_grep_for_is_logged_when_instances_are_full(schedulers, holding, caplog):
    scheduler = schedulers(ManualScheduler, executors={"default": holding})
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=1, name="busy")
    sleep_through_once(scheduler, 1)
    sleep_through_once(scheduler, 1)
    assert "skipped: maximum number of running instances reached (1)" in caplog.text


def test_an_executor_without_room_leaves_due_jobs_in_the_store_and_gets_them_later(schedulers):
    narrow = HoldingExecutor(room=2)
    scheduler = schedulers(ManualScheduler, executors={"default": narrow})
    scheduler.start()
    for number in range(5):
        scheduler.add_job(note, "date", run_date=START + timedelta(seconds=number), id=str(number))
    sleep_through_once(scheduler, 60)
    assert [run.job.id for run in narrow.held] == ["0", "1"]
    while narrow.held:
        narrow.finish()
        settle_and_go_on(scheduler)
    assert [run.job.id for run in narrow.taken] == ["0", "1", "2", "3", "4"]


def test_a_full_executor_does_not_hold_up_the_jobs_of_another(schedulers, jobcalls):
    full = HoldingExecutor(room=0)
    scheduler = schedulers(ManualScheduler, executors={"full": full})
    scheduler.start()
    scheduler.add_job(note, "date", run_date=START, executor="full", args=["full"])
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), args=["free"])
    sleep_through_once(scheduler, 60)
    assert jobcalls == ["free"]


@pytest.mark.parametrize("make_store", [None, PickledStore], ids=["memory", "simple store"])
@pytest.mark.parametrize("coalesce", [True, False])
def test_an_outage_of_thirty_days_is_told_in_full(schedulers, jobcalls, make_store, coalesce):
    stores = {} if make_store is None else {"default": make_store()}
    scheduler = schedulers(ManualScheduler, jobstores=stores)
    scheduler.start()
    scheduler.add_job(note, "interval", seconds=1, id="job", coalesce=coalesce)
    sleep_through(scheduler, 30 * 86_400)
    told = sum(record.fire_times + record.coalesced for record in history(scheduler))
    assert told == 30 * 86_400
    assert len(jobcalls) == (1 if coalesce else 1000)


def test_one_run_of_a_history_never_stands_for_a_fire_time_of_another(scheduler):
    scheduler.add_job(note, "interval", seconds=1, id="job", coalesce=False, misfire_grace_time=5)
    scheduler.advance(3)
    sleep_through(scheduler, 60)
    scheduler.advance(3)
    times = [record.scheduled_at for record in history(scheduler)]
    assert sorted(times) == [START + timedelta(seconds=n) for n in range(1, 67)]


def test_what_was_missed_while_paused_meets_the_misfire_rule_on_resume(scheduler, recorder, jobcalls):
    scheduler.add_job(note, "interval", seconds=10, id="strict", misfire_grace_time=3, args=["strict"])
    scheduler.add_job(note, "interval", seconds=10, id="lenient", args=["lenient"])
    scheduler.pause()
    sleep_through(scheduler, 35)
    assert jobcalls == []
    scheduler.resume()
    scheduler.run_due()
    assert jobcalls == ["lenient"]
    assert recorder.of(EVENT_JOB_MISSED, "strict")


def test_a_job_that_raises_goes_on_firing(scheduler, recorder):
    scheduler.add_job(lambda: 1 / 0, "interval", seconds=1, id="job")
    scheduler.advance(3)
    errors = recorder.of(EVENT_JOB_ERROR, "job")
    assert [type(event.exception) for event in errors] == [ZeroDivisionError] * 3
    assert all("ZeroDivisionError" not in event.traceback and "line" in event.traceback for event in errors)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError(), BaseException("base")], ids=repr
)
def test_a_job_that_raises_what_ends_programs_only_fails(scheduler, recorder, jobcalls, error):
    def raising():
        raise error

    scheduler.add_job(raising, "date", run_date=START, id="bad")
    scheduler.add_job(note, "date", run_date=START, id="good")
    scheduler.run_due()
    assert recorder.of(EVENT_JOB_ERROR, "bad")[0].exception is error
    assert jobcalls == ["called"]


MISBEHAVING = {
    "raises": OSError("no calendar"),
    "stands still": stand_still,
    "goes backwards": go_back,
    "returns a number": 12,
    "returns a text": "soon",
}


@pytest.mark.parametrize("make_store", [None, PickledStore], ids=["memory", "simple store"])
@pytest.mark.parametrize("then", [pytest.param(then, id=name) for name, then in MISBEHAVING.items()])
def test_a_misbehaving_trigger_suspends_its_job_and_no_other(schedulers, jobcalls, then, make_store):
    scheduler = schedulers(ManualScheduler, jobstores={} if make_store is None else {"default": make_store()})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    scheduler.add_job(note, FirstThen(then), id="bad", args=["bad"])
    scheduler.add_job(note, "interval", seconds=10, id="good", args=["good"])
    scheduler.advance(25)
    assert jobcalls == ["good", "good"]
    (event,) = recorder.of(EVENT_JOB_SUSPENDED)
    assert event.job_id == "bad"
    assert "trigger" in event.reason
    assert scheduler.get_job("bad").suspended == event.reason
    assert scheduler.get_job("bad").next_run_time == START + timedelta(seconds=10)


def test_a_trigger_that_ends_removes_its_job_after_the_last_run(scheduler, recorder, jobcalls):
    scheduler.add_job(note, FirstThen(None), id="job")
    scheduler.advance(60)
    assert jobcalls == ["called"]
    codes = [event.code for event in recorder.events if getattr(event, "job_id", "") == "job"]
    assert codes[1:] == [EVENT_JOB_SUBMITTED, EVENT_JOB_REMOVED, EVENT_JOB_STARTED, EVENT_JOB_EXECUTED]
