"""What is more urgent goes first when there is not room for all, and nothing waits for ever."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest
from behaviour_doubles import START, HoldingExecutor, PickledStore, note

from goscheduler.executors.debug import DebugExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import ManualScheduler


@pytest.fixture
def executor():
    return HoldingExecutor(room=1)


@pytest.fixture
def scheduler(schedulers, executor):
    made = schedulers(ManualScheduler, executors={"default": executor})
    made.start()
    return made


def run_one_by_one(scheduler, executor, most=1000):
    """Let each run end before the next begins, and return the ids of the jobs in the order of their starts."""
    before = len(executor.taken)
    scheduler.run_due()
    while executor.held and len(executor.taken) - before < most:
        executor.finish()
        scheduler.run_due()
    return [run.job.id for run in executor.taken[before:]]


def test_with_one_worker_due_jobs_run_by_priority_and_then_by_due_time(scheduler, executor):
    jobs = [(priority, second) for priority in range(10) for second in range(3)]
    for priority, second in random.Random(7).sample(jobs, len(jobs)):
        due = START + timedelta(seconds=second)
        scheduler.add_job(note, "date", run_date=due, id=f"{priority} due at {second}", priority=priority)
    scheduler.clock.advance(10)
    assert run_one_by_one(scheduler, executor) == [f"{priority} due at {second}" for priority, second in jobs]


def test_runs_that_were_asked_for_go_by_priority_too(scheduler, executor):
    for priority in (9, 0, 5, 3):
        scheduler.add_job(note, "interval", days=1, id=str(priority), priority=priority)
        scheduler.run_now(str(priority))
    assert run_one_by_one(scheduler, executor) == ["0", "3", "5", "9"]


def test_retries_go_by_priority_too(schedulers):
    executor = HoldingExecutor(room=3)
    scheduler = schedulers(ManualScheduler, executors={"default": executor})
    scheduler.start()
    for priority in (9, 0, 5):
        scheduler.add_job(note, id=str(priority), priority=priority, retry=2)
    scheduler.run_due()
    for _ in range(3):
        executor.finish(OutcomeKind.FAILED)
    scheduler.run_due()
    executor._room = 1
    scheduler.clock.advance(10)
    assert run_one_by_one(scheduler, executor) == ["0", "5", "9"]


def test_jobs_of_the_same_priority_run_in_the_order_of_their_due_times(scheduler, executor):
    for second in (5, 1, 4, 2, 3):
        scheduler.add_job(note, "date", run_date=START + timedelta(seconds=second), id=str(second), priority=2)
    scheduler.clock.advance(10)
    assert run_one_by_one(scheduler, executor) == ["1", "2", "3", "4", "5"]


def test_a_job_that_is_not_due_does_not_go_before_one_that_is(scheduler, executor):
    scheduler.add_job(note, "date", run_date=START + timedelta(seconds=60), id="urgent", priority=0)
    scheduler.add_job(note, id="lazy", priority=9)
    assert run_one_by_one(scheduler, executor) == ["lazy"]
    scheduler.clock.advance(60)
    assert run_one_by_one(scheduler, executor) == ["urgent"]


def test_a_changed_priority_counts(scheduler, executor):
    due = START + timedelta(seconds=1)
    for name in ("a", "b"):
        scheduler.add_job(note, "date", run_date=due, id=name)
    scheduler.modify_job("b", priority=1)
    scheduler.clock.advance(1)
    assert run_one_by_one(scheduler, executor) == ["b", "a"]


def test_a_full_executor_does_not_keep_the_urgent_jobs_of_another_waiting(schedulers):
    full, free = HoldingExecutor(room=0), HoldingExecutor(room=5)
    scheduler = schedulers(ManualScheduler, executors={"default": free, "full": full})
    scheduler.start()
    scheduler.add_job(note, id="stuck", priority=0, executor="full")
    scheduler.add_job(note, id="free", priority=9)
    scheduler.run_due()
    assert [run.job.id for run in free.taken] == ["free"]


def waits_behind_an_endless_stream(scheduler, executor, name, seconds=1200):
    """Return for how many seconds a job waits for the only worker, which always has an urgent one to run."""
    for second in range(seconds):
        scheduler.add_job(note, id=f"urgent {second}", priority=0)
        scheduler.run_due()
        if any(run.job.id == name for run in executor.taken):
            return second
        executor.finish()
        scheduler.clock.advance(1)
        scheduler.add_job(note, id=f"another {second}", priority=0)  # more of them than can ever run
    return None


def test_a_lazy_job_is_not_starved_by_an_endless_stream_of_urgent_ones(scheduler, executor):
    scheduler.add_job(note, id="urgent")
    scheduler.run_due()
    scheduler.add_job(note, id="lazy", priority=9)
    waited = waits_behind_an_endless_stream(scheduler, executor, "lazy")
    assert waited is not None
    # Nine steps of priority are worth nine minutes. The urgent ones pile up, so those that came before it go first too.
    assert 300 <= waited <= 1200


def test_a_pending_run_is_not_starved_by_an_endless_stream_of_firings(scheduler, executor):
    scheduler.add_job(note, id="urgent")
    scheduler.run_due()
    scheduler.add_job(note, "interval", days=1, id="lazy", priority=9)
    scheduler.run_now("lazy")
    waited = waits_behind_an_endless_stream(scheduler, executor, "lazy")
    assert waited is not None


def test_firings_are_not_starved_by_an_endless_stream_of_pending_runs(scheduler, executor):
    scheduler.add_job(note, "interval", days=1, id="asked for", priority=0, max_instances=1000)
    scheduler.add_job(note, "interval", minutes=1, id="fired", priority=0)
    for _ in range(90):
        scheduler.run_now("asked for")
        scheduler.run_now("asked for")
        scheduler.run_due()
        if any(run.job.id == "fired" for run in executor.taken):
            break
        executor.finish()
        scheduler.clock.advance(1)
    else:
        pytest.fail("the firing was starved")


def test_the_order_holds_in_a_store_that_has_only_the_simple_methods(schedulers, executor):
    scheduler = schedulers(ManualScheduler, executors={"default": executor}, jobstores={"default": PickledStore()})
    scheduler.start()
    for priority in (9, 0, 5):
        scheduler.add_job(note, "date", run_date=START + timedelta(seconds=1), id=str(priority), priority=priority)
    scheduler.clock.advance(1)
    assert run_one_by_one(scheduler, executor) == ["0", "5", "9"]


def test_each_round_asks_for_another_executor_first_so_that_a_store_with_much_to_do_serves_all_of_them():
    asked = []

    class Store(MemoryJobStore):
        def fire_due(self, request):
            asked.append(next(iter(request.room)))
            return super().fire_due(request)

    executors = {name: DebugExecutor() for name in ("default", "mail", "reports")}
    with ManualScheduler(jobstores={"default": Store()}, executors=executors) as scheduler:
        asked.clear()
        for _ in range(6):
            scheduler.run_due()
    assert Counter(asked) == dict.fromkeys(executors, 2)
