"""The part of the contract of a job store that is about owners, their leases, runs that are asked for, jobs that are
over."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING

from goscheduler.runs.blackouts import Blackout, planner_in
from goscheduler.runs.model import Outcome, OutcomeKind, Owner, Run, Settlement, Source
from goscheduler.runs.records import HistoryQuery, Retention
from goscheduler.runs.transitions import asked_for, called_off, crashed, settle
from goscheduler.schedulers._once import put_off, without_next
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.testing.contract import JobMaker, Requests

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
DAY = timedelta(days=1)
LEASE = timedelta(seconds=30)


class OwnerContract:
    """``StoreContract`` is derived from this, and has the fixtures."""

    # Runs that are added again

    def test_a_run_that_is_there_is_added_once_and_stays_as_it_is(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        job = make_job("a", overlap="allow")
        store.add_job(job)
        run = asked_for(job, "run-1", NOW)
        with ThreadPoolExecutor(4) as threads:
            for added in [threads.submit(store.add_run, run, must_exist=True) for _ in range(4)]:
                added.result()
        store.add_run(run._replace(due_at=NOW + DAY), must_exist=True)
        assert [(each.id, each.due_at) for each in store.pending_runs("a")] == [("run-1", NOW)]
        (live,) = requests.claim(store).runs
        store.add_run(run, must_exist=True)
        assert not store.pending_runs("a")
        assert not requests.claim(store).runs
        assert not store.settle([succeeded(live)])
        assert not store.live_runs("a")

    # Once not as the schedule says

    def test_a_run_that_is_left_out_or_put_off_leaves_the_schedule_as_it_is(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        daily = CronTrigger(hour=12, timezone=timezone.utc)
        for job_id in ("skipped", "put off"):
            store.add_job(make_job(job_id, due=NOW, trigger=daily))
        store.edit_job("skipped", partial(without_next, now=NOW))
        store.edit_job("put off", partial(put_off, until=NOW + timedelta(hours=5)))
        assert not requests.fire(store).runs
        for after, job_ids in ((5, ["put off"]), (24, ["put off", "skipped"]), (48, ["put off", "skipped"])):
            runs = requests.fire(store, now=NOW + timedelta(hours=after)).runs
            assert sorted((run.job.id, run.scheduled_at) for run in runs) == [
                (job_id, NOW + timedelta(hours=after)) for job_id in job_ids
            ]
            assert not store.settle([succeeded(run) for run in runs])

    def test_what_a_blackout_holds_back_comes_at_its_end(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        blackout = Blackout("b", NOW, NOW + timedelta(minutes=5))
        each_time = make_job("each", due=NOW, coalesce=False, max_instances=9)
        store.add_jobs([make_job("once", due=NOW), each_time])
        for minutes in (0, 1):
            now, plans = NOW + timedelta(minutes=minutes), planner_in([blackout])
            assert not requests.fire(store, now=now, in_blackout=plans).runs
        assert not requests.claim(store, now=NOW + timedelta(minutes=4)).runs
        claimed = requests.claim(store, now=blackout.end).runs
        assert [run.scheduled_at for run in claimed] == [NOW, NOW + timedelta(minutes=1)]
        once = store.lookup_job("once")
        assert once is not None
        assert once.next_run_time == blackout.end
        assert [record.outcome for record in store.history(HistoryQuery("once"))] == [OutcomeKind.SNOOZED]

    # Jobs that are over

    def test_a_job_that_is_kept_after_its_last_firing_is_removed_when_the_retention_ends(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        once = DateTrigger(NOW, timezone=timezone.utc)
        store.add_job(make_job("a", due=NOW, trigger=once, auto_remove=False))
        store.add_job(make_job("b", due=NOW + 90 * DAY))
        (run,) = requests.fire(store).runs
        assert store.prune_finished_jobs(Retention(), NOW + 80 * DAY, 10) == [], "its run goes on"
        store.settle([succeeded(run)])
        assert store.prune_finished_jobs(Retention(), NOW + 6 * DAY, 10) == []
        assert store.prune_finished_jobs(Retention(), NOW + 8 * DAY, 10) == ["a"]
        assert [job.id for job in store.get_all_jobs()] == ["b"]

    def test_what_is_where_it_belongs_is_not_put_back(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("later", due=NOW + DAY))
        store.add_job(make_job("paused", due=None))
        store.add_job(make_job("broken", due=NOW))
        requests.fire(store, obstacles={"broken": "it cannot be run"})
        store.add_job(make_job("over", due=NOW, trigger=DateTrigger(NOW, timezone=timezone.utc), auto_remove=False))
        store.add_job(make_job("queued", due=NOW, max_instances=1, overlap="queue"))
        for now in (NOW, NOW + timedelta(minutes=1)):
            requests.fire(store, now=now)
            requests.claim(store, now=now)
        store.add_run(asked_for(make_job("asked"), "asked", NOW))
        looks = [store.requeue_orphans(3) for _ in range(10)]
        assert not [put_back.ids for put_back in looks if put_back.ids]
        assert not all(put_back.more for put_back in looks), "it comes to an end, and begins again"

    def test_different_counts_of_runs_that_end_together_are_told_of_their_jobs(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        minute = timedelta(minutes=1)
        for number, job_id in enumerate("abc"):
            store.add_job(make_job(job_id, due=NOW + number * minute, coalesce=False, max_instances=9))
        runs = requests.fire(store, now=NOW + 3 * minute).runs
        assert not store.settle([succeeded(run) for run in runs])
        counts = {job.id: store.stats_of(job).run_count for job in store.get_all_jobs()}
        assert counts == {"a": 4, "b": 3, "c": 2}

    def test_every_claim_tells_that_runs_are_held_until_others_have_ended(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW, max_instances=1, overlap="queue"))
        for now in (NOW, NOW + timedelta(minutes=1)):
            requests.fire(store, now=now)
            for _ in range(3):
                claimed = requests.claim(store, now=now)
                assert (len(claimed.runs), claimed.more) == (0, now > NOW)

    # Owners

    def test_the_runs_of_a_living_owner_stay_his(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        requests.fire(store)
        assert store.renew_owner(Owner("owner-1"), NOW + LEASE / 2, LEASE)
        assert not store.recover_runs(NOW + LEASE, lost)

    def test_the_runs_of_a_lapsed_owner_are_handed_out_again_and_his_finish_is_refused(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        (settlement,) = store.recover_runs(NOW + LEASE, lost)
        assert (settlement.attempt.run, settlement.attempt.outcome.kind) == (run, OutcomeKind.LOST)
        (waiting,) = store.pending_runs("a")
        assert (waiting.id, waiting.owner, waiting.crashes, waiting.source) == (run.id, None, 1, Source.RECOVERED)
        (again,) = requests.claim(store, now=NOW + LEASE, owner="owner-2").runs
        assert again.owner == "owner-2"
        assert again.fence > run.fence
        zombie = succeeded(run)
        assert list(store.settle([zombie])) == [zombie]
        assert not store.settle([succeeded(again)])
        assert not store.renew_owner(Owner("owner-1"), NOW + 2 * LEASE, LEASE)

    def test_the_record_of_a_lost_run_names_the_host_of_its_owner(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1", "host-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        requests.fire(store)
        store.recover_runs(NOW + LEASE, lost)
        (record,) = store.history(HistoryQuery("a"))
        assert (record.outcome, record.owner, record.host) == (OutcomeKind.LOST, "owner-1", "host-1")

    def test_the_runs_of_an_owner_that_has_no_lease_are_lost(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store, owner="owner-9").runs
        (settlement,) = store.recover_runs(NOW, lost)
        assert settlement.attempt.run == run
        if not store.shared:  # where owners are others than the process itself, only those are known that had a lease
            assert not store.renew_owner(Owner("owner-9"), NOW, LEASE)

    def test_a_run_that_was_cancelled_is_not_run_again_when_its_owner_is_lost(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        store.cancel_run(run.id, "enough", lambda pending: called_off(pending, "enough", NOW))
        store.recover_runs(NOW + LEASE, lost)
        assert store.pending_runs("a") == []

    def test_a_run_that_was_cancelled_is_ended_by_who_takes_it_from_a_retired_owner(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        store.cancel_run(run.id, "enough", lambda pending: called_off(pending, "enough", NOW))
        store.retire_owner("owner-1")
        claimed = requests.claim(store, owner="owner-2")
        assert [(again.id, reason) for again, reason in claimed.to_cancel] == [(run.id, "enough")]

    def test_a_live_run_that_is_to_end_is_named_with_the_reason_until_it_has_ended(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for job_id in "ab":
            store.add_job(make_job(job_id, due=NOW))
        run, other = sorted(requests.fire(store).runs, key=lambda run: run.job.id)
        assert store.cancel_requests("a") == {}
        _cancel(store, run, "enough: 'ü'\n")
        _cancel(store, other, "too much")
        assert store.cancel_requests("a") == {run.id: "enough: 'ü'\n"}
        assert store.cancel_requests("c") == {}
        store.settle([succeeded(run)])
        assert store.cancel_requests("a") == {}

    def test_of_two_reasons_for_a_run_to_end_the_later_one_stays_unless_it_yields(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        for reason, keep_existing_reason, stays in (
            ("first", True, "first"), ("second", True, "first"), ("third", False, "third"), ("fourth", True, "third"),
        ):  # fmt: skip
            assert _cancel(store, run, reason, keep_existing_reason) == run
            assert store.cancel_requests("a") == {run.id: stays}
            claimed = requests.claim(store)
            assert [(again.id, reason) for again, reason in claimed.to_cancel] == [(run.id, stays)]

    def test_the_wish_that_a_run_ends_is_taken_back_by_its_owner_while_it_is_the_same(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for job_id in "abc":
            store.add_job(make_job(job_id, due=NOW))
        run, same, over = sorted(requests.fire(store).runs, key=lambda run: run.job.id)
        for each in (run, same, over):
            _cancel(store, each, "enough")
        store.settle([succeeded(over)])
        assert not store.withdraw_cancel_requests("owner-2", {run.id: "enough"}), "it belongs to somebody else"
        others = {run.id: "too much", over.id: "enough", "nobody": "enough"}
        assert not store.withdraw_cancel_requests("owner-1", others)
        assert store.cancel_requests("a") == {run.id: "enough"}
        taken = store.withdraw_cancel_requests("owner-1", {run.id: "enough", same.id: "too much", over.id: "enough"})
        assert set(taken) == {run.id}
        assert (store.cancel_requests("a"), store.cancel_requests("b")) == ({}, {same.id: "enough"})
        assert [again.id for again, _ in requests.claim(store).to_cancel] == [same.id]
        assert not store.withdraw_cancel_requests("owner-1", {run.id: "enough"})

    def test_who_has_room_for_nothing_hears_which_runs_are_to_end(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for job_id in "ab":
            store.add_job(make_job(job_id, due=NOW))
        run, pending = sorted(requests.fire(store).runs, key=lambda run: run.job.id)
        store.settle([settle(pending, Outcome(OutcomeKind.SNOOZED), NOW)])
        _cancel(store, run, "enough")
        claimed = requests.claim(store, room={})
        assert [(again.id, reason) for again, reason in claimed.to_cancel] == [(run.id, "enough")]
        assert not claimed.runs

    def test_a_run_whose_wish_to_end_was_taken_back_lives_on_as_before(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        _cancel(store, run, "enough")
        store.withdraw_cancel_requests("owner-1", {run.id: "enough"})
        assert store.live_runs("a") == [run]
        assert store.recover_runs(NOW + LEASE, lost)
        (again,) = requests.claim(store, now=NOW + LEASE, owner="owner-2").runs
        assert again.id == run.id
        _cancel(store, again, "enough")
        assert store.cancel_requests("a") == {run.id: "enough"}

    def test_a_run_of_a_removed_job_is_not_run_again_when_its_owner_is_lost(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        requests.fire(store)
        store.remove_job("a")
        store.forget_job("a")
        store.recover_runs(NOW + LEASE, lost)
        assert store.pending_runs("a") == []

    def test_a_finish_between_lapse_and_new_claim_is_refused(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        store.recover_runs(NOW + LEASE, lost)
        zombie = succeeded(run)
        assert list(store.settle([zombie])) == [zombie]
        assert len(requests.claim(store, now=NOW + LEASE, owner="owner-2").runs) == 1

    def test_a_retired_owner_leaves_his_runs_to_others_at_once(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.renew_owner(Owner("owner-1"), NOW, LEASE)
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        store.retire_owner("owner-1")
        (again,) = requests.claim(store, owner="owner-2").runs
        assert again.id == run.id


def _cancel(store: BaseJobStore, run: Run, reason: str, keep_existing_reason: bool = False) -> Run | None:
    return store.cancel_run(run.id, reason, lambda pending: called_off(pending, reason, NOW), keep_existing_reason)


def succeeded(run: Run) -> Settlement:
    """Return the settlement of a run that went well."""
    return settle(run, Outcome(OutcomeKind.SUCCEEDED, started_at=NOW), NOW + timedelta(seconds=1))


def lost(run: Run, host: str = "") -> Settlement:
    """Return the settlement of a run whose owner was lost."""
    return crashed(run, NOW + LEASE, host=host)
