"""What is seen of a job: its state, and what it has lived through."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from behaviour_doubles import START, HoldingExecutor, PickledStore, note
from lease_doubles import BegunExecutor, QueueingExecutor
from retry_doubles import play

from goscheduler import Limit, Retry, Snooze, fixed
from goscheduler.runs.model import JobState, JobStats, OutcomeKind
from goscheduler.testing import ManualScheduler


@pytest.fixture
def make(local_store):
    """A maker of started schedulers on a store of either kind; at the end all are shut down."""
    made = []

    def make(executor=None, **options):
        executors = {} if executor is None else {"default": executor}
        scheduler = ManualScheduler(jobstores={"default": local_store()}, executors=executors, **options)
        made.append(scheduler)
        scheduler.start()
        return scheduler

    yield make
    for scheduler in made:
        if scheduler.running:
            scheduler.shutdown(wait=False)


def state(scheduler):
    return scheduler.get_job("job").state


# States


def pending(make):
    scheduler = make()
    scheduler.shutdown()
    return scheduler.add_job(note, "interval", hours=1, id="job")


def scheduled(make):
    return make().add_job(note, "interval", hours=1, id="job")


def scheduled_for_a_retry(make):
    scheduler = make(HoldingExecutor())
    scheduler.add_job(note, "date", id="job", retry=Retry(2, fixed(60)), auto_remove=False)
    scheduler.run_due()
    scheduler.engine.executors["default"].finish(OutcomeKind.FAILED)
    scheduler.run_due()
    return scheduler.get_job("job")


def due_in_a_paused_scheduler(make):
    scheduler = make()
    job = scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.pause()
    scheduler.clock.advance("2h")
    return job


def due_for_a_full_executor(make):
    scheduler = make(HoldingExecutor(room=0))
    job = scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("1h")
    return job


def queued_in_an_executor(make):
    scheduler = make(HoldingExecutor())
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("1h")
    return scheduler.get_job("job")


def queued_in_the_store(make):
    scheduler = make(HoldingExecutor(room=0))
    job = scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.run_now("job")
    scheduler.run_due()
    return job


def queued_for_a_limit(make):
    scheduler = make(BegunExecutor())
    for job_id in ("other", "job"):
        scheduler.add_job(note, "date", id=job_id, limits=Limit("one", concurrency=1), auto_remove=False)
        scheduler.run_due()
    return scheduler.get_job("job")


def running(make):
    scheduler = make(BegunExecutor())
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("1h")
    return scheduler.get_job("job")


def running_though_paused(make):
    return running(make).pause()


def running_and_fired_for_the_last_time(make):
    scheduler = make(BegunExecutor())
    scheduler.add_job(note, "date", id="job", auto_remove=False)
    scheduler.run_due()
    return scheduler.get_job("job")


def completed(make):
    return over(make, note)


def over(make, func, *args, **options):
    scheduler = make()
    scheduler.add_job(func, "date", args=args, id="job", auto_remove=False, **options)
    scheduler.run_due()
    return scheduler.get_job("job")


def failed(make):
    return over(make, play, ValueError("no"))


def failed_after_all_attempts(make):
    return over(make, play, ValueError("no"), retry=Retry(2, fixed(0)))


def never_run_because_missed(make):
    scheduler = make()
    scheduler.add_job(
        note, "date", run_date=START + timedelta(hours=1), id="job", auto_remove=False, misfire_grace_time=1
    )
    scheduler.clock.advance("2h")
    scheduler.run_due()
    return scheduler.get_job("job")


def paused(make):
    return scheduled(make).pause()


def added_paused(make):
    return make().add_job(note, "interval", hours=1, id="job", next_run_time=None)


def waiting_for_another(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="upstream")
    return scheduler.add_job(note, after="upstream", id="job")


def paused_while_waiting_for_another(make):
    return waiting_for_another(make).pause()


def waiting_for_another_again(make):
    job = waiting_for_another(make)
    job._scheduler.advance("1h")
    assert job._scheduler.runs("job")
    return job


def removed_while_waiting_for_another(make):
    job = waiting_for_another_again(make)
    job.remove()
    return job


def suspended(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job", executor="gpu")
    scheduler.advance("1h")
    return scheduler.get_job("job")


def waiting_for_an_executor(make):
    job = make().add_job(note, "interval", hours=1, id="job", executor="gpu")
    job._scheduler.run_now("job")
    job._scheduler.run_due()
    return job


def gone(make, func, *args, **options):
    scheduler = make()
    job = scheduler.add_job(func, "date", run_date=START + timedelta(hours=1), args=args, id="job", **options)
    scheduler.advance("1h")
    assert scheduler.get_job("job") is None
    return job


def gone_and_completed(make):
    return gone(make, note)


def gone_and_failed(make):
    return gone(make, play, ValueError("no"))


def gone_and_running(make):
    scheduler = make(BegunExecutor())
    job = scheduler.add_job(note, "date", id="job")
    scheduler.run_due()
    return job


def gone_and_to_be_tried_again(make):
    return gone(make, play, ValueError("no"), retry=Retry(2, fixed(60)))


def gone_with_the_last_time_of_its_trigger(make):
    scheduler = make()
    job = scheduler.add_job(note, "interval", hours=1, end_date=START + timedelta(hours=3), id="job")
    scheduler.advance("4h")
    return job


def removed_before_it_ran(make):
    job = scheduled(make)
    job.remove()
    return job


def removed_after_it_ran(make):
    job = scheduled(make)
    job._scheduler.advance("3h")
    job.remove()
    return job


def removed_after_a_run_beside_its_schedule(make):
    scheduler = make()
    job = scheduler.add_job(note, "date", run_date=START + timedelta(hours=1), id="job")
    scheduler.run_now("job")
    scheduler.run_due()
    job.remove()
    return job


def removed_while_its_last_run_was_queued(make):
    executor = QueueingExecutor()
    scheduler = make(executor)
    job = scheduler.add_job(note, "date", id="job", auto_remove=False)
    scheduler.run_due()
    job.remove()
    executor.begin()
    scheduler.run_due()
    return job


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        (pending, JobState.PENDING),
        (scheduled, JobState.SCHEDULED),
        (scheduled_for_a_retry, JobState.SCHEDULED),
        (due_in_a_paused_scheduler, JobState.SCHEDULED),
        (due_for_a_full_executor, JobState.QUEUED),
        (queued_in_an_executor, JobState.QUEUED),
        (queued_in_the_store, JobState.QUEUED),
        (queued_for_a_limit, JobState.QUEUED),
        (running, JobState.RUNNING),
        (running_though_paused, JobState.RUNNING),
        (running_and_fired_for_the_last_time, JobState.RUNNING),
        (completed, JobState.COMPLETED),
        (failed, JobState.FAILED),
        (failed_after_all_attempts, JobState.FAILED),
        (never_run_because_missed, JobState.FAILED),
        (paused, JobState.PAUSED),
        (added_paused, JobState.PAUSED),
        (waiting_for_another, JobState.WAITING),
        (paused_while_waiting_for_another, JobState.PAUSED),
        (waiting_for_another_again, JobState.WAITING),
        (removed_while_waiting_for_another, JobState.REMOVED),
        (suspended, JobState.SUSPENDED),
        (waiting_for_an_executor, JobState.NO_EXECUTOR),
        (gone_and_completed, JobState.COMPLETED),
        (gone_and_failed, JobState.FAILED),
        (gone_and_running, JobState.RUNNING),
        (gone_and_to_be_tried_again, JobState.SCHEDULED),
        (gone_with_the_last_time_of_its_trigger, JobState.COMPLETED),
        (removed_before_it_ran, JobState.REMOVED),
        (removed_after_it_ran, JobState.REMOVED),
        (removed_after_a_run_beside_its_schedule, JobState.REMOVED),
        (removed_while_its_last_run_was_queued, JobState.REMOVED),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_job_shows_where_it_stands(make, situation, expected):
    job = situation(make)
    assert job.state is expected
    assert job._scheduler.job_state(job) is expected


def test_every_state_is_in_the_table():
    table = test_a_job_shows_where_it_stands.pytestmark[0].args[1]
    assert {expected for _, expected in table} == set(JobState)


# Life


def test_a_job_that_has_not_run_yet_has_lived_through_nothing(make):
    job = scheduled(make)
    assert job.stats == JobStats(created_at=START)
    assert (job.run_count, job.last_run, job.last_success, job.last_error) == (0, None, None, None)


def test_a_job_knows_of_its_last_run(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("3h")
    job = scheduler.get_job("job")
    now = START + timedelta(hours=3)
    assert (job.run_count, job.last_run, job.last_success, job.last_error) == (3, now, now, None)


@pytest.mark.parametrize("options", [{"auto_remove": False}, {}], ids=["kept", "gone"])
def test_a_job_that_somebody_holds_does_not_contradict_its_state(make, options):
    scheduler = make()
    job = scheduler.add_job(note, "date", run_date=START + timedelta(hours=1), id="job", **options)
    scheduler.advance("1h")
    now = START + timedelta(hours=1)
    seen = (job.state, job.run_count, job.last_run, job.last_success, job.last_error)
    assert seen == (JobState.COMPLETED, 1, now, now, None)


def test_the_history_tells_what_a_job_that_is_gone_has_lived_through(make):
    job = gone(make, play, ValueError("no"), retry=Retry(2, fixed(60)))
    job._scheduler.advance("2m")
    assert (job.state, job.run_count, job.last_error) == (JobState.FAILED, 2, "ValueError: no")


def test_a_failure_leaves_the_last_success_and_a_success_leaves_the_last_error(make):
    scheduler = make()
    outcomes = iter([None, ValueError("no"), None])
    scheduler.register("step", lambda: play(next(outcomes)))
    scheduler.add_job("step", "interval", hours=1, id="job")
    seen = []
    for _ in range(3):
        scheduler.advance("1h")
        job = scheduler.get_job("job")
        seen.append((job.run_count, job.last_success and (job.last_success - START).seconds // 3600, job.last_error))
    assert seen == [(1, 1, None), (2, 1, "ValueError: no"), (3, 3, "ValueError: no")]


def test_every_attempt_counts(make):
    scheduler = make()
    scheduler.add_job(play, "interval", hours=1, args=[ValueError("no")], id="job", retry=Retry(3, fixed(10)))
    scheduler.advance("1h")
    assert (scheduler.get_job("job").run_count, state(scheduler)) == (1, JobState.SCHEDULED)
    scheduler.advance("1m")
    job = scheduler.get_job("job")
    assert job.run_count == 3
    assert job.last_run == START + timedelta(hours=1, seconds=20)


def test_a_snooze_is_no_error(make):
    scheduler = make()
    scheduler.add_job(play, "interval", hours=1, args=[Snooze(60)], id="job")
    scheduler.advance("1h")
    job = scheduler.get_job("job")
    assert (job.run_count, job.last_error, job.last_success) == (1, None, None)
    assert job.state is JobState.SCHEDULED


def test_a_timeout_is_an_error(make):
    executor = BegunExecutor()
    scheduler = make(executor)
    scheduler.add_job(note, "interval", hours=1, id="job", timeout=30)
    scheduler.advance("1h")
    scheduler.advance("1m")
    job = scheduler.get_job("job")
    assert job.stats.last_outcome is OutcomeKind.TIMED_OUT
    assert job.last_error == "TimeoutError: it ran longer than its timeout of 30 seconds"
    assert job.run_count == 1


def test_what_was_missed_or_skipped_is_no_run(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job", misfire_grace_time=1)
    scheduler.clock.advance("90m")
    scheduler.run_due()
    assert scheduler.get_job("job").run_count == 0


def test_a_job_that_is_removed_and_added_again_begins_a_new_life(make):
    scheduler = make()
    for _ in range(2):
        scheduler.add_job(note, "interval", hours=1, id="job")
        scheduler.advance("1h")
        assert scheduler.get_job("job").run_count == 1
        scheduler.remove_job("job")


def test_a_replaced_job_keeps_its_life(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("2h")
    scheduler.add_job(note, "interval", hours=1, id="job", name="new", if_exists="replace")
    assert scheduler.get_job("job").run_count == 2
    scheduler.add_job(note, "interval", hours=2, id="job", if_exists="replace")
    scheduler.advance("2h")
    job = scheduler.get_job("job")
    assert (job.run_count, job.last_success) == (3, START + timedelta(hours=4))


def test_the_end_of_a_run_counts_although_the_job_was_replaced_meanwhile(make):
    executor = BegunExecutor()
    scheduler = make(executor)
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("1h")
    scheduler.add_job(note, "interval", hours=1, id="job", if_exists="replace")
    executor.finish()
    scheduler.run_due()
    assert scheduler.get_job("job").stats.last_outcome is OutcomeKind.SUCCEEDED


def test_no_end_of_a_run_is_forgotten_while_the_job_is_edited(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job")
    done = threading.Event()

    def edit():
        while not done.is_set():
            scheduler.modify_job("job", name="edited")

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        for _ in range(300):
            scheduler.run_now("job")
            scheduler.run_due()
    finally:
        done.set()
        editor.join(60)
    assert len(scheduler.runs("job", limit=1000)) == 300
    assert scheduler.get_job("job").run_count == 300


def test_a_store_with_only_the_simple_methods_writes_lives_with_its_jobs():
    store = PickledStore()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(note, "interval", hours=1, id="job")
        scheduler.advance("3h")
        clock = scheduler.clock
    store.__dict__.pop("_local_runs")  # as in a new process
    with ManualScheduler(clock=clock, jobstores={"default": store}) as scheduler:
        assert scheduler.get_job("job").run_count == 2, "as of the last time that the job was written"
        scheduler.advance("1h")
        assert scheduler.get_job("job").run_count == 3


def test_a_store_with_only_the_simple_methods_forgets_the_lives_of_jobs_that_are_gone():
    store = PickledStore()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        for number in range(50):
            scheduler.add_job(play, "date", args=[ValueError("no")], id=f"{number}", retry=Retry(2, fixed(1)))
        scheduler.advance("10s")
        scheduler.add_job(note, "interval", hours=1, id="job")
        scheduler.advance("1h")
        assert list(store._runs.stats) == ["job"]
        scheduler.remove_job("job")
        assert store._runs.stats == {}


# Who has paused


def test_a_job_remembers_who_has_paused_it(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.pause_job("job", by="Ada")
    assert scheduler.get_job("job").stats.paused_by == "Ada"
    scheduler.modify_job("job", name="other")
    assert scheduler.get_job("job").stats.paused_by == "Ada"
    scheduler.pause_job("job", by="Grace")
    assert scheduler.get_job("job").stats.paused_by == "Grace"
    scheduler.resume_job("job")
    assert scheduler.get_job("job").stats.paused_by is None
    assert state(scheduler) is JobState.SCHEDULED
    scheduler.get_job("job").pause()
    assert "process" in scheduler.get_job("job").stats.paused_by


def test_a_paused_job_that_gets_a_time_is_not_paused_any_more(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.pause_job("job", by="Ada")
    scheduler.modify_job("job", next_run_time=START + timedelta(hours=5))
    assert scheduler.get_job("job").stats.paused_by is None
    assert state(scheduler) is JobState.SCHEDULED


def test_a_paused_job_that_is_replaced_by_the_same_schedule_stays_paused_by_whom_it_was(make):
    scheduler = make()
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.pause_job("job", by="Ada")
    scheduler.add_job(note, "interval", hours=1, id="job", if_exists="replace")
    assert (state(scheduler), scheduler.get_job("job").stats.paused_by) == (JobState.PAUSED, "Ada")
    scheduler.add_job(note, "interval", hours=2, id="job", if_exists="replace")
    assert (state(scheduler), scheduler.get_job("job").stats.paused_by) == (JobState.SCHEDULED, None)


def test_who_has_paused_a_job_survives_the_process_in_a_store_that_does():
    store = PickledStore()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(note, "interval", hours=1, id="job")
        scheduler.pause_job("job", by="Ada")
    store.__dict__.pop("_local_runs")
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        assert scheduler.get_job("job").stats.paused_by == "Ada"
        assert state(scheduler) is JobState.PAUSED
