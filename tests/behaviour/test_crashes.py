"""A process dies without a word: what it had is settled as its jobs say, after the lease and not before."""

from __future__ import annotations

import platform
from datetime import timedelta

import pytest
from behaviour_doubles import HoldingExecutor
from lease_doubles import LEASE, BegunExecutor, Cluster

from goscheduler import Retry, fixed
from goscheduler.events import EVENT_JOB_DEAD_LETTERED, EVENT_JOB_RETRIED, EVENT_LEASE_LOST
from goscheduler.runs.model import JobState, OutcomeKind, Source
from goscheduler.testing import EventRecorder

#: The lease, and the longest time until somebody looks.
AFTERWARDS = LEASE * 5 / 4 + 1


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    for member in made.members:
        if member.running:
            member.shutdown(wait=False)


def die_with_a_run(cluster, **options):
    """Have a scheduler claim a run of "job", begin it, and die. Return the run and who survives."""
    dying, survivor = cluster.join(BegunExecutor()), cluster.join(HoldingExecutor())
    options = {"trigger": "date", **options}
    dying.add_job(print, id="job", **options)
    dying.run_due()
    (run,) = cluster.store.live_runs("job")
    cluster.kill(dying)
    return run, survivor


def held_by(scheduler):
    return scheduler.engine.executors["default"].held


def test_nothing_happens_before_the_lease_is_over(cluster):
    _, survivor = die_with_a_run(cluster)
    cluster.advance(LEASE - 1)
    assert held_by(survivor) == []
    assert survivor.runs("job") == []


def test_the_run_is_begun_again_after_the_lease(cluster):
    run, survivor = die_with_a_run(cluster)
    cluster.advance(AFTERWARDS)
    (again,) = held_by(survivor)
    assert (again.id, again.scheduled_at, again.attempt) == (run.id, run.scheduled_at, 1)
    assert (again.crashes, again.source) == (1, Source.RECOVERED)
    assert again.fence > run.fence


def test_the_record_says_that_it_was_lost_by_whom_and_where(cluster, caplog):
    run, survivor = die_with_a_run(cluster)
    recorder = EventRecorder(survivor, EVENT_LEASE_LOST)
    cluster.advance(AFTERWARDS)
    (record,) = survivor.runs("job")
    assert (record.outcome, record.run_id, record.owner) == (OutcomeKind.LOST, run.id, run.owner)
    assert record.host == platform.node()
    assert record.reason == "the process that had it was lost"
    assert [event.run_id for event in recorder.events] == [run.id]
    told = f"was lost, attempt 1: the process that had it was lost (owner {run.owner}); it runs again"
    assert f'Run {run.id} of job "job" (builtins:print) {told}' in caplog.text


@pytest.mark.parametrize(
    ("options", "waits", "attempt", "dead"),
    [
        ({}, True, 1, None),
        ({"on_crash": "rerun"}, True, 1, None),
        ({"on_crash": "rerun", "retry": 3}, True, 1, None),
        ({"on_crash": "rerun", "max_crashes": 1}, False, None, "crashed 1 time:"),
        ({"on_crash": "fail"}, False, None, None),
        ({"on_crash": "fail", "dead_letter": True}, False, None, "the only attempt failed"),
        ({"on_crash": "fail", "retry": 2}, True, 2, None),
        ({"on_crash": "fail", "retry": 2, "max_crashes": 1}, True, 2, None),
        ({"on_crash": "dead"}, False, None, "crashed: the process that had it was lost"),
        ({"on_crash": "dead", "retry": 3}, False, None, "crashed: the process that had it was lost"),
    ],
)
def test_a_job_says_what_becomes_of_its_runs_after_a_crash(cluster, options, waits, attempt, dead):
    _, survivor = die_with_a_run(cluster, **options)
    cluster.advance(AFTERWARDS + 10)
    assert bool(held_by(survivor)) is waits
    if waits:
        assert held_by(survivor)[0].attempt == attempt
    letters = survivor.dead_letters()
    assert bool(letters) is (dead is not None)
    if dead is not None and "attempt" not in dead:
        assert letters[0].reason.startswith(dead)
        assert letters[0].record.outcome is OutcomeKind.LOST


def test_a_crash_that_counts_as_a_failure_is_tried_again_when_the_policy_says(cluster):
    _, survivor = die_with_a_run(cluster, on_crash="fail", retry=Retry(2, fixed(100)))
    recorder = EventRecorder(survivor, EVENT_JOB_RETRIED)
    cluster.advance(AFTERWARDS)
    (waiting,) = cluster.store.pending_runs("job")
    (record,) = survivor.runs("job")
    assert waiting.due_at == record.finished_at + timedelta(seconds=100)
    assert (waiting.source, waiting.attempt, waiting.crashes) == (Source.RETRY, 2, 0)
    assert len(recorder.events) == 1


@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_a_run_that_crashes_again_and_again_becomes_a_dead_letter(cluster, most):
    witness = cluster.join(HoldingExecutor(room=0))
    recorder = EventRecorder(witness, EVENT_JOB_DEAD_LETTERED)
    witness.add_job(print, "date", id="job", max_crashes=most)
    crashes = 0
    while not witness.dead_letters() and crashes < 10:
        dying = cluster.join(BegunExecutor())
        dying.run_due()
        assert cluster.store.live_runs("job"), "it was begun once more"
        cluster.kill(dying)
        crashes += 1
        cluster.advance(AFTERWARDS)
    assert crashes == most
    (letter,) = witness.dead_letters()
    assert letter.reason.startswith(f"crashed {most} time{'s' if most > 1 else ''}:")
    assert cluster.outcomes() == [OutcomeKind.LOST] * most
    assert [event.job_id for event in recorder.events] == ["job"]


def test_a_dead_letter_of_crashes_can_be_redriven(cluster):
    _, survivor = die_with_a_run(cluster, on_crash="dead")
    cluster.advance(AFTERWARDS)
    (letter,) = survivor.dead_letters()
    survivor.redrive(letter.run.id)
    survivor.run_due()
    survivor.engine.executors["default"].finish()
    survivor.run_due()
    assert cluster.outcomes() == [OutcomeKind.LOST, OutcomeKind.SUCCEEDED]
    assert survivor.dead_letters() == []


def test_the_schedule_takes_no_notice_and_the_place_of_the_lost_run_is_free_again(cluster):
    run, survivor = die_with_a_run(
        cluster, trigger="interval", seconds=60, next_run_time=cluster.clock.now(), on_crash="fail"
    )
    cluster.advance(59)
    assert held_by(survivor) == []
    cluster.advance(1)
    assert [each.scheduled_at - run.scheduled_at for each in held_by(survivor)] == [timedelta(seconds=60)]
    assert cluster.outcomes() == [OutcomeKind.LOST]


def test_the_runs_of_several_jobs_are_settled_each_as_its_job_says(cluster):
    dying, survivor = cluster.join(BegunExecutor()), cluster.join(HoldingExecutor())
    for number in range(30):
        dying.add_job(print, "date", id=f"{number}", on_crash=("rerun", "fail", "dead")[number % 3])
    dying.run_due()
    cluster.kill(dying)
    cluster.advance(AFTERWARDS)
    assert sorted(int(run.job.id) for run in held_by(survivor)) == list(range(0, 30, 3))
    assert sorted(int(letter.run.job.id) for letter in survivor.dead_letters()) == list(range(2, 30, 3))
    assert [record.outcome for record in survivor.runs()] == [OutcomeKind.LOST] * 30


def test_two_survivors_settle_a_lost_run_once(cluster):
    die_with_a_run(cluster, on_crash="fail")
    cluster.join(HoldingExecutor())
    cluster.advance(AFTERWARDS * 2)
    assert cluster.outcomes() == [OutcomeKind.LOST]


def test_a_cancelled_run_is_not_begun_again_when_its_owner_has_died(cluster):
    run, survivor = die_with_a_run(cluster)
    assert survivor.cancel_run(run.id)
    cluster.advance(AFTERWARDS)
    assert held_by(survivor) == []
    assert cluster.store.pending_runs() == []


def test_a_cancelled_run_is_ended_by_who_takes_it_over_from_an_orderly_shutdown(cluster):
    calls = []
    ending = cluster.join(HoldingExecutor())
    ending.add_job(calls.append, "date", args=[1], id="job")
    ending.run_due()
    other = cluster.join()
    (run,) = cluster.store.live_runs()
    assert other.cancel_run(run.id, "enough")
    cluster.kill(ending)
    ending.shutdown()
    other.run_due()
    assert calls == []
    (record,) = other.runs("job")
    assert (record.outcome, record.reason) == (OutcomeKind.CANCELLED, "enough")


def test_a_run_of_a_removed_job_is_not_begun_again_when_its_owner_has_died(cluster):
    _, survivor = die_with_a_run(cluster, trigger="interval", seconds=0.5, next_run_time=cluster.clock.now())
    survivor.remove_job("job")
    cluster.advance(AFTERWARDS)
    assert held_by(survivor) == []
    assert cluster.outcomes() == [OutcomeKind.LOST]


def test_a_job_that_was_removed_and_added_again_has_its_retries(cluster):
    executor = BegunExecutor()
    scheduler = cluster.join(executor)
    scheduler.add_job(print, "date", id="job")
    scheduler.run_due()
    scheduler.add_job(print, "date", id="job", if_exists="replace", retry=2, max_instances=2, overlap="allow")
    scheduler.remove_job("job")
    scheduler.add_job(print, "date", id="job", retry=2, max_instances=2)
    scheduler.run_due()
    executor.held.reverse()
    executor.finish(OutcomeKind.FAILED)
    scheduler.run_due()
    assert [run.attempt for run in cluster.store.pending_runs("job")] == [2]


def test_a_job_that_was_kept_tells_of_the_crash(cluster):
    _, survivor = die_with_a_run(cluster, on_crash="fail", auto_remove=False)
    assert survivor.get_job("job").state is JobState.RUNNING
    cluster.advance(AFTERWARDS)
    job = survivor.get_job("job")
    assert job.state is JobState.FAILED
    assert job.last_error == "the process that had it was lost"
    assert job.run_count == 0, "nobody knows whether it began"
