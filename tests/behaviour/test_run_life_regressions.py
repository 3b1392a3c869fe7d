"""What the machine of random steps has found, each in as few steps as show it."""

from __future__ import annotations

from behaviour_doubles import HoldingExecutor, note
from lease_doubles import LEASE, BegunExecutor, Cluster

from goscheduler import Retry, fixed
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing import ManualScheduler


def test_a_manual_scheduler_runs_at_once_what_a_job_has_added_for_now(jobcalls):
    with ManualScheduler() as scheduler:
        scheduler.add_job(lambda: scheduler.add_job(note, args=["added"]), "interval", minutes=1)
        scheduler.clock.advance(60)
        scheduler.run_due()
        assert jobcalls == ["added"]


def test_a_manual_scheduler_claims_at_once_what_the_loss_of_another_has_made_room_for():
    cluster = Cluster()
    lost, survivor = cluster.join(BegunExecutor()), cluster.join(BegunExecutor())
    lost.add_job(print, "interval", seconds=2 * LEASE, id="job", overlap="queue", on_crash="dead")
    lost.run_now("job")
    lost.run_due()
    cluster.kill(lost)
    cluster.clock.advance(2 * LEASE)
    survivor.run_due()
    assert len(cluster.store.dead_letters(HistoryQuery("job"))) == 1
    assert len(survivor.engine.executors["default"].held) == 1


def test_a_run_whose_timeout_was_taken_away_meanwhile_ends_by_the_one_it_began_with():
    executor = BegunExecutor()
    with ManualScheduler(executors={"default": executor}) as scheduler:
        scheduler.add_job(print, "interval", hours=1, id="job", timeout=10)
        scheduler.run_now("job")
        scheduler.run_due()
        scheduler.modify_job("job", timeout=None)
        scheduler.advance(10 + executor.grace_seconds)
        (record,) = scheduler.runs("job")
        assert (record.outcome, record.reason) == (
            OutcomeKind.TIMED_OUT,
            "it ran longer than its timeout of 10 seconds",
        )


def test_a_redriven_run_starts_where_it_was_lost_before_although_its_old_code_still_goes_on():
    cluster = Cluster()
    lost, survivor = cluster.join(BegunExecutor()), cluster.join(HoldingExecutor())
    lost.add_job(print, "interval", days=1, id="job", on_crash="dead")
    run_id = lost.run_now("job")
    lost.run_due()
    cluster.clock.advance(LEASE)
    survivor.run_due()
    lost.run_due()  # learns that it was given up, and tells the run to end
    lost.redrive(run_id)
    lost.run_due()
    assert [(run.id, run.attempt) for run in cluster.store.live_runs()] == [(run_id, 2)]
    held = lost.engine.executors["default"].held
    assert [run.attempt for run in held] == [1, 2]


def test_who_removed_a_job_can_redrive_a_run_that_another_process_had_at_that_time():
    cluster = Cluster()
    remover, owner = cluster.join(BegunExecutor()), cluster.join(BegunExecutor())
    remover.add_job(print, "interval", days=1, id="job", retry=1)
    run_id = remover.run_now("job")
    owner.run_due()
    remover.remove_job("job")
    assert not remover.engine.revoked, "it is not ours, and we never hear of its end"
    owner.engine.executors["default"].finish(OutcomeKind.FAILED)
    owner.run_due()
    remover.redrive(run_id)
    remover.run_due()
    assert [(run.id, run.attempt) for run in cluster.store.live_runs()] == [(run_id, 2)]


def test_a_run_of_a_removed_job_is_not_tried_again_when_a_job_by_the_same_id_has_fired_since():
    cluster = Cluster()
    remover, owner = cluster.join(BegunExecutor()), cluster.join(BegunExecutor())
    remover.add_job(print, "interval", days=1, id="job", retry=Retry(3, fixed(5)))
    remover.run_now("job")
    owner.run_due()
    remover.remove_job("job")
    remover.add_job(print, "date", id="job", overlap="allow")
    remover.run_due()
    owner.engine.executors["default"].finish(OutcomeKind.FAILED)
    owner.run_due()
    assert cluster.store.pending_runs() == []
