"""``why()``: one sentence that says what a job waits for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from behaviour_doubles import START, FaultyMemoryStore, HoldingExecutor, note
from lease_doubles import BegunExecutor, Cluster
from retry_doubles import play

from goscheduler import Limit, Retry, Snooze, fixed
from goscheduler.errors import JobLookupError
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import ManualScheduler


@pytest.fixture
def make(local_store):
    made = []

    def make(executor):
        scheduler = ManualScheduler(jobstores={"default": local_store()}, executors={"default": executor})
        made.append(scheduler)
        scheduler.start()
        return scheduler

    yield make
    for scheduler in made:
        scheduler.shutdown(wait=False)


def test_an_unknown_job_is_an_error(scheduler):
    with pytest.raises(JobLookupError):
        scheduler.why("nobody")


def test_it_waits_for_the_start():
    scheduler = ManualScheduler()
    scheduler.add_job(note, "interval", hours=1, id="job")
    assert scheduler.why("job") == "It waits for the scheduler to be started."


def test_it_is_not_due(scheduler):
    scheduler.add_job(note, "cron", hour=3, timezone="Europe/Berlin", id="job")
    assert scheduler.why("job") == "It is not due until 2026-01-01 03:00:00 CET."


def test_it_is_running(make):
    scheduler = make(BegunExecutor())
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("1h")
    assert scheduler.why("job") == "It is running: 1 run."


def test_it_is_running_several_times(make):
    scheduler = make(BegunExecutor())
    scheduler.add_job(note, "interval", hours=1, id="job", max_instances=2)
    scheduler.advance("2h")
    assert scheduler.why("job") == "It is running: 2 runs."


def test_it_waits_for_an_earlier_run_of_it(make):
    scheduler = make(BegunExecutor())
    scheduler.add_job(note, "interval", hours=1, id="job", overlap="queue")
    scheduler.advance("3h")
    assert scheduler.why("job") == "It is running: 1 run, and 2 more to follow when one has ended."


def test_it_is_suspended(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job", executor="gpu")
    scheduler.advance("1h")
    assert scheduler.why("job") == 'It is suspended: there is no executor named "gpu".'


def test_it_was_paused_by_somebody(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.pause_job("job", by="Ada, for the move")
    assert scheduler.why("job") == "It was paused by Ada, for the move."


def test_it_was_paused_by_a_process(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job").pause()
    assert scheduler.why("job").startswith("It was paused by process ")


def test_it_was_added_paused(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job", next_run_time=None)
    assert scheduler.why("job") == "It is paused: it was added or left without a next run time."


@pytest.mark.parametrize(("outcome", "how"), [(None, "completed"), (ValueError("no"), "failed")])
def test_it_is_over(scheduler, outcome, how):
    scheduler.add_job(play, "date", args=[outcome], id="job", auto_remove=False)
    scheduler.run_due()
    assert scheduler.why("job") == f"It has fired for the last time, at 2026-01-01 00:00:00 UTC, and {how}."


def test_it_waits_for_its_next_attempt(scheduler):
    scheduler.add_job(play, "interval", hours=1, args=[ValueError("no")], id="job", retry=Retry(2, fixed(90)))
    scheduler.advance("1h")
    assert scheduler.why("job") == "It is not due until 2026-01-01 01:01:30 UTC, when it is tried again."


def test_an_attempt_after_the_next_run_does_not_hide_it(scheduler):
    scheduler.add_job(play, "interval", hours=1, args=[ValueError("no")], id="job", retry=Retry(2, fixed(7200)))
    scheduler.advance("1h")
    assert scheduler.why("job") == "It is not due until 2026-01-01 02:00:00 UTC."


def test_it_has_snoozed(scheduler):
    scheduler.add_job(play, "interval", hours=1, args=[Snooze(60)], id="job", limits=Limit("api", rate="5/1m"))
    scheduler.advance("1h")
    assert scheduler.why("job") == "It was put off until 2026-01-01 01:01:00 UTC."


def test_nobody_has_its_executor(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job", executor="gpu")
    scheduler.run_now("job")
    scheduler.run_due()
    assert scheduler.why("job") == 'It is due, but no process that is known here has its executor "gpu".'


def test_its_store_does_not_answer():
    store = FaultyMemoryStore()
    with ManualScheduler(jobstores={"default": store}) as scheduler:
        scheduler.add_job(note, "interval", hours=1, id="job")
        store.faults["fire_due"] = OSError("gone")
        scheduler.clock.advance("1h")
        scheduler.run_due()
        assert scheduler.why("job") == 'It is due, but its job store "default" does not answer.'


def test_the_scheduler_is_paused(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.pause()
    scheduler.clock.advance("1h")
    assert scheduler.why("job") == "It is due, but the scheduler is paused."


def test_the_workers_are_busy(make):
    scheduler = make(HoldingExecutor())
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.advance("1h")
    assert scheduler.why("job") == 'It is queued in the executor "default", whose workers are busy.'


def test_the_executor_is_full(make):
    scheduler = make(BegunExecutor())
    scheduler.engine.executors["default"]._room = 1
    for job_id in ("other", "job"):
        scheduler.add_job(note, "interval", hours=1, id=job_id)
    scheduler.advance("1h")
    assert scheduler.why("job") == 'It is due, but the executor "default" is full.'


def test_a_limit_is_full(make):
    scheduler = make(BegunExecutor())
    for job_id in ("other", "job"):
        scheduler.add_job(note, "interval", hours=1, id=job_id, limits=[Limit("mail", concurrency=1), Limit("all", 9)])
    scheduler.advance("1h")
    assert scheduler.why("job") == 'It has been due since 2026-01-01 01:00:00 UTC and waits for a limit: "all", "mail".'


def test_a_rate_is_used_up(scheduler):
    for job_id in ("other", "job"):
        scheduler.add_job(note, "interval", hours=1, id=job_id, limits=Limit("api", rate="1/10m"))
    scheduler.advance("1h")
    sentence = scheduler.why("job")
    assert sentence.startswith("It waits until 2026-01-01 01:1")
    assert sentence.endswith(' for a limit: "api".')
    scheduler.advance("20m")
    assert scheduler.why("job") == "It is not due until 2026-01-01 02:00:00 UTC."


def test_it_is_about_to_be_started(scheduler):
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.clock.advance("1h")
    assert scheduler.why("job") == "It is due, and about to be started."


def test_asking_changes_nothing(scheduler, jobcalls):
    scheduler.add_job(note, "interval", hours=1, id="job")
    scheduler.clock.advance("1h")
    for _ in range(3):
        scheduler.why("job")
    assert jobcalls == []
    scheduler.run_due()
    assert jobcalls == ["called"]


# In a store that is shared


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    for member in made.members:
        member.shutdown(wait=False)


def test_a_run_of_another_process_is_running(cluster):
    here, there = cluster.join(), cluster.join(BegunExecutor())
    here.add_job(note, "date", id="job", auto_remove=False)
    there.run_due()
    assert here.why("job") == "A process has 1 run of it; whether that is running is not known yet."
    there.engine.leases.renew_all()  # with a report
    assert here.why("job") == "It is running: 1 run."


def test_another_process_has_the_executor(cluster):
    here = cluster.join()
    here.add_job(note, "date", id="job", executor="gpu")
    assert here.why("job") == 'It is due, but no process that is known here has its executor "gpu".'
    cluster.join(executors={"gpu": HoldingExecutor()})
    assert here.why("job") == "It is due, and about to be started."


def test_a_process_that_was_lost_has_no_executor(cluster):
    here, there = cluster.join(), cluster.join(executors={"gpu": HoldingExecutor(room=0)})
    here.add_job(note, "date", id="job", executor="gpu")
    cluster.kill(there)
    cluster.advance(31)
    assert here.why("job") == 'It is due, but no process that is known here has its executor "gpu".'


def test_a_scheduler_that_is_paused_is_not_the_reason_while_another_one_fires(cluster):
    here, _ = cluster.join(), cluster.join()
    here.add_job(note, "date", run_date=START + timedelta(seconds=5), id="job")
    here.pause()
    cluster.clock.advance(5)
    assert here.why("job") == "It is due, and about to be started."


def test_it_waits_for_a_retry_of_another_process(cluster):
    executor = BegunExecutor()
    here, there = cluster.join(), cluster.join(executor)
    here.add_job(note, "date", id="job", retry=Retry(2, fixed(60)), auto_remove=False)
    there.run_due()
    executor.finish(OutcomeKind.FAILED)
    there.run_due()
    assert here.why("job") == "It is not due until 2026-01-01 00:01:00 UTC, when it is tried again."
