"""The contract of a job store, as a test suite. Needs pytest.

A store is put under it by a class of two lines::

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(...)

``make_store`` returns a new, empty store that is not started. Where the store is shared, ``make_peer`` returns another
one on the same data. A store with only the simple methods passes the whole suite for one process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from goscheduler._resolver import NOT_LOADED_YET
from goscheduler.errors import ConflictingIdError, JobLookupError
from goscheduler.job import Job, copy_with
from goscheduler.jobstores.base import BaseJobStore, Claimed, Fired, FireRequest, SharedJobStore
from goscheduler.options import DEFAULTS, filled_in
from goscheduler.runs.model import Outcome, OutcomeKind, Run, Settlement, Source
from goscheduler.runs.plan import FiringPlanner, InBlackout, admit
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.retry import Retry, fixed
from goscheduler.runs.transitions import asked_for, settle
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract_history import HistoryContract
from goscheduler.testing.contract_owners import OwnerContract
from goscheduler.testing.contract_reads import QueryContract
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def nothing(*args: Any, **kwargs: Any) -> None:
    """A job's function; stores find it again by its reference."""


class StoreContract(HistoryContract, OwnerContract, QueryContract):
    """Derive a test class from this and write ``make_store``."""

    def make_store(self) -> BaseJobStore:
        """Return a new, empty store, not started."""
        raise NotImplementedError

    @pytest.fixture
    def scheduler(self) -> ManualScheduler:
        return ManualScheduler(clock=ManualClock(NOW))

    @pytest.fixture
    def store(self, scheduler: ManualScheduler) -> Iterator[BaseJobStore]:
        store = self.make_store()
        store.start(scheduler, "default")
        yield store
        store.shutdown()

    @pytest.fixture
    def requests(self) -> Requests:
        return Requests()

    @pytest.fixture
    def make_job(self, scheduler: ManualScheduler) -> JobMaker:
        return JobMaker(scheduler)

    # Jobs

    def test_an_added_job_is_found_and_equal_in_every_field(self, store: BaseJobStore, make_job: JobMaker) -> None:
        job = make_job(
            "a", due=NOW + MINUTE, args=(1, "two", 3.5), kwargs={"k": [1, 2]}, name="näme ✓", max_instances=3,
            coalesce=False, misfire_grace_time=7, executor="special", tags=("x", "y"), description="words",
        )
        store.add_job(job)
        found = store.lookup_job("a")
        assert found is not None
        assert found.__getstate__() == {**job.__getstate__(), "trigger": found.trigger}
        assert repr(found.trigger) == repr(job.trigger)

    def test_a_script_without_a_scheduler_sees_and_changes_the_jobs(self, make_job: JobMaker) -> None:
        store = self.make_store()
        store.start(None, "default")
        try:
            store.add_job(job := make_job("a", args=(1,), name="before"))
            job.name = "after"
            store.update_job(job)
            seen = [(job.id, job.name, job.args, job.func, job.suspended) for job in store.get_all_jobs()]
            assert seen == [("a", "after", (1,), nothing, None)]
            store.remove_job("a")
            assert store.get_all_jobs() == []
        finally:
            store.shutdown()

    def test_a_store_is_shared_if_it_has_all_of_the_port(self, store: BaseJobStore) -> None:
        assert store.shared is isinstance(store, SharedJobStore), "derive a store that is shared from SharedJobStore"

    def test_an_unknown_job_is_none(self, store: BaseJobStore) -> None:
        assert store.lookup_job("nobody") is None

    def test_microseconds_and_far_times_survive(self, store: BaseJobStore, make_job: JobMaker) -> None:
        for number, time in enumerate([
            NOW.replace(microsecond=1),
            NOW.replace(microsecond=999_999),
            datetime(2038, 1, 19, 3, 14, 8, tzinfo=timezone.utc),
            datetime(2107, 1, 1, tzinfo=timezone.utc),
        ]):
            store.add_job(make_job(str(number), due=time))
            found = store.lookup_job(str(number))
            assert found is not None
            assert found.next_run_time == time

    def test_jobs_that_wait_are_counted_by_task(self, store: BaseJobStore, make_job: JobMaker) -> None:
        for number, task in enumerate(["mail", "mail", "other"]):
            store.add_job(make_job(f"job-{number}", func=task))
        store.add_job(make_job("plain"))
        store.add_job(make_job("paused", due=None, func="mail"))
        assert [store.count_waiting(task) for task in ("mail", "other", "none", None)] == [2, 1, 0, 4]

    def test_due_jobs_are_counted_by_the_executors_that_are_not_known(
        self, store: BaseJobStore, make_job: JobMaker
    ) -> None:
        for number, executor in enumerate(["gpu", "gpu", "a.b~%", "default"]):
            store.add_job(make_job(f"due-{number}", executor=executor, priority=number % 2))
        store.add_job(make_job("of a task", func="mail", executor="gpu"))
        store.add_job(make_job("later", due=NOW + MINUTE, executor="gpu"))
        store.add_job(make_job("paused", due=None, executor="gpu"))
        assert store.count_due_beside(["default", "other"], NOW) == {"gpu": 3, "a.b~%": 1}
        assert store.count_due_beside(["default", "gpu", "a.b~%"], NOW) == {}

    def test_a_second_job_with_the_same_id_is_refused(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a", name="first"))
        with pytest.raises(ConflictingIdError):
            store.add_job(make_job("a", name="second"))
        found = store.lookup_job("a")
        assert found is not None
        assert found.name == "first"

    def test_of_many_that_add_the_same_id_at_once_one_wins(self, store: BaseJobStore, make_job: JobMaker) -> None:
        results = in_threads([lambda number=number: attempt_to_add(store, make_job, number) for number in range(8)])
        assert sorted(results) == ["added"] + ["conflict"] * 7

    def test_any_id_is_only_a_name(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a"))
        for job_id in ["a'b\"c", "a/b/../c", "{$ne: 1}", "A", "é", "e\u0301", "%s", "x" * 255, "日本"]:
            store.add_job(make_job(job_id))
            assert {job.id for job in store.get_all_jobs()} == {"a", job_id}
            store.remove_job(job_id)
            assert [job.id for job in store.get_all_jobs()] == ["a"], job_id

    def test_all_jobs_come_by_time_and_paused_ones_last(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("late", due=NOW + 2 * MINUTE))
        store.add_job(make_job("paused", due=None))
        store.add_job(make_job("early", due=NOW + MINUTE))
        assert [job.id for job in store.get_all_jobs()] == ["early", "late", "paused"]

    def test_due_jobs_come_by_time_and_include_those_due_right_now(
        self, store: BaseJobStore, make_job: JobMaker
    ) -> None:
        for job_id, due in [("b", NOW), ("a", NOW - SECOND), ("c", NOW + SECOND), ("paused", None)]:
            store.add_job(make_job(job_id, due=due))
        assert [job.id for job in store.get_due_jobs(NOW)] == ["a", "b"]

    def test_the_next_run_time_is_the_earliest(self, store: BaseJobStore, make_job: JobMaker) -> None:
        assert store.get_next_run_time() is None
        for job_id, due in [("b", NOW + MINUTE), ("a", NOW + SECOND), ("paused", None)]:
            store.add_job(make_job(job_id, due=due))
        assert store.get_next_run_time() == NOW + SECOND
        store.remove_job("a")
        assert store.get_next_run_time() == NOW + MINUTE
        store.remove_job("b")
        assert store.get_next_run_time() is None

    def test_an_update_replaces_everything_but_the_id(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a", due=NOW + MINUTE))
        store.update_job(make_job("a", due=NOW + 2 * MINUTE, name="renamed", args=(9,)))
        found = store.lookup_job("a")
        assert found is not None
        assert (found.next_run_time, found.name, found.args) == (NOW + 2 * MINUTE, "renamed", (9,))
        assert store.get_next_run_time() == NOW + 2 * MINUTE

    def test_an_update_can_pause_and_resume(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a", due=NOW))
        store.update_job(make_job("a", due=None))
        assert store.get_due_jobs(NOW) == []
        store.update_job(make_job("a", due=NOW))
        assert [job.id for job in store.get_due_jobs(NOW)] == ["a"]

    def test_an_update_or_removal_of_an_unknown_job_is_an_error(self, store: BaseJobStore, make_job: JobMaker) -> None:
        with pytest.raises(JobLookupError):
            store.update_job(make_job("nobody"))
        with pytest.raises(JobLookupError):
            store.remove_job("nobody")
        assert store.get_all_jobs() == []

    def test_an_edit_is_given_the_job_and_its_result_is_kept(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a", due=NOW + MINUTE, name="old"))
        edited = store.edit_job("a", lambda job: copy_with(job, name=f"{job.name} and new"))
        assert edited.name == "old and new"
        found = store.lookup_job("a")
        assert found is not None
        assert (found.name, found.next_run_time) == ("old and new", NOW + MINUTE)

    def test_an_edit_that_raises_changes_nothing(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a", name="old"))
        with pytest.raises(ValueError, match="may not be changed"):
            store.edit_job("a", lambda job: copy_with(job, name="new", id="b"))
        found = store.lookup_job("a")
        assert found is not None
        assert found.name == "old"

    def test_an_edit_of_an_unknown_job_is_an_error(self, store: BaseJobStore) -> None:
        with pytest.raises(JobLookupError):
            store.edit_job("nobody", lambda job: job)

    def test_concurrent_edits_do_not_overwrite_each_other(self, store: BaseJobStore, make_job: JobMaker) -> None:
        store.add_job(make_job("a", args=(0,)))
        in_threads([lambda: store.edit_job("a", lambda job: copy_with(job, args=(job.args[0] + 1,)))] * 16)
        found = store.lookup_job("a")
        assert found is not None
        assert found.args == (16,)

    def test_remove_all_leaves_nothing(self, store: BaseJobStore, make_job: JobMaker) -> None:
        for job_id in "abc":
            store.add_job(make_job(job_id))
        store.remove_all_jobs()
        assert store.get_all_jobs() == []
        assert store.get_next_run_time() is None
        store.add_job(make_job("a"))

    # Firing

    def test_a_due_job_gives_an_owned_run_and_moves_on(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        fired = requests.fire(store)
        (run,) = fired.runs
        assert (run.job.id, run.scheduled_at, run.owner, run.attempt, run.source) == (
            "a", NOW, "owner-1", 1, Source.SCHEDULE,
        )
        found = store.lookup_job("a")
        assert found is not None
        assert found.next_run_time == NOW + MINUTE
        assert fired.next_due == NOW + MINUTE
        assert [live.id for live in store.live_runs("a")] == [run.id]

    def test_what_is_not_due_is_left_alone(self, store: BaseJobStore, make_job: JobMaker, requests: Requests) -> None:
        store.add_job(make_job("later", due=NOW + SECOND))
        store.add_job(make_job("paused", due=None))
        fired = requests.fire(store)
        assert not fired.runs
        assert fired.next_due == NOW + SECOND

    def test_a_one_shot_job_is_gone_when_it_has_fired(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("once", due=NOW, trigger=DateTrigger(NOW)))
        fired = requests.fire(store)
        assert [job.id for job in fired.finished] == ["once"]
        assert [run.job.id for run in fired.runs] == ["once"]
        assert store.lookup_job("once") is None

    def test_a_firing_happens_once_however_many_ask(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for number in range(40):
            store.add_job(make_job(f"job-{number}", due=NOW))
        fired = in_threads([lambda: requests.fire(store)] * 8)
        ran = sorted(run.job.id for result in fired for run in result.runs)
        assert ran == sorted(f"job-{number}" for number in range(40))

    def test_no_more_is_fired_than_there_is_room_for(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for number in range(5):
            store.add_job(make_job(f"job-{number}", due=NOW - number * SECOND))
        fired = requests.fire(store, room={"default": 2})
        assert len(fired.runs) == 2
        assert fired.more
        assert len(store.get_due_jobs(NOW)) == 3
        assert len(requests.fire(store).runs) == 3

    def test_an_executor_without_room_does_not_hold_up_the_others(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for number in range(5):
            store.add_job(make_job(f"full-{number}", due=NOW - MINUTE, executor="full"))
        store.add_job(make_job("free", due=NOW))
        fired = requests.fire(store, room={"full": 0, "default": 10})
        assert [run.job.id for run in fired.runs] == ["free"]
        assert fired.more

    def test_the_plan_is_told_how_many_runs_are_live(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW, max_instances=2))
        starts = [len(requests.fire(store, now=NOW + number * MINUTE).runs) for number in range(3)]
        assert starts == [1, 1, 0]

    def test_what_is_skipped_or_missed_is_in_the_history(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("busy", due=NOW))
        store.add_job(make_job("late", due=NOW - MINUTE, misfire_grace_time=1, trigger=DateTrigger(NOW - MINUTE)))
        requests.fire(store)
        fired = requests.fire(store, now=NOW + MINUTE)
        assert [attempt.outcome.kind for attempt in fired.records] == [OutcomeKind.SKIPPED]
        kinds = {record.job_id: record.outcome for record in store.history(HistoryQuery())}
        assert kinds == {"busy": OutcomeKind.SKIPPED, "late": OutcomeKind.MISSED}

    def test_a_job_whose_plan_says_so_is_suspended_kept_and_released(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("good", due=NOW))
        store.add_job(make_job("orphan", due=NOW))
        fired = requests.fire(store, obstacles={"orphan": "nobody wants it"})
        assert [run.job.id for run in fired.runs] == ["good"]
        assert [suspended.job.id for suspended in fired.suspended] == ["orphan"]
        assert "nobody wants it" in store.suspensions()["orphan"]
        assert fired.next_due is not None
        assert fired.next_due > NOW
        again = requests.fire(store)
        assert not again.suspended
        assert not again.runs
        found = store.lookup_job("orphan")
        assert found is not None
        assert found.next_run_time == NOW
        assert store.release("orphan")
        assert not store.release("orphan")
        assert [run.job.id for run in requests.fire(store).runs] == ["orphan"]

    def test_a_job_whose_module_is_not_imported_yet_stays_due_and_the_others_fire(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("recurring", due=NOW))
        store.add_job(make_job("once", due=NOW, trigger=DateTrigger(NOW)))
        store.add_job(make_job("good", due=NOW + SECOND))
        waiting = dict.fromkeys(["recurring", "once"], NOT_LOADED_YET)
        fired = requests.fire(store, now=NOW + SECOND, obstacles=waiting)
        assert [run.job.id for run in fired.runs] == ["good"]
        assert not fired.suspended
        assert not fired.finished
        assert fired.next_due == NOW
        assert {run.job.id for run in requests.fire(store, now=NOW + SECOND).runs} == {"recurring", "once"}
        assert store.lookup_job("once") is None

    def test_a_job_of_an_executor_that_is_not_here_is_left_to_others_who_share_the_store(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("elsewhere", due=NOW, executor="nowhere"))
        fired = requests.fire(store)
        assert not fired.runs
        assert [suspended.job.id for suspended in fired.suspended] == ([] if store.shared else ["elsewhere"])
        store.release("elsewhere")
        fired = requests.fire(store, room={"nowhere": 9})
        assert [run.job.id for run in fired.runs] == ["elsewhere"]

    def test_fences_only_grow(self, store: BaseJobStore, make_job: JobMaker, requests: Requests) -> None:
        store.add_job(make_job("a", due=NOW, max_instances=9))
        fences = [requests.fire(store, now=NOW + number * MINUTE).runs[0].fence for number in range(4)]
        assert fences == sorted(set(fences))

    def test_removing_a_job_leaves_its_live_run_to_be_settled(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        store.remove_job("a")
        assert not requests.fire(store, now=NOW + MINUTE).runs
        assert not store.settle([succeeded(run)])
        assert store.lookup_job("a") is None

    # Pending runs

    def test_a_pending_run_is_claimed_once_when_it_is_due(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_run(asked_for(make_job("a"), "run-1", NOW + SECOND))
        early = requests.claim(store)
        assert not early.runs
        assert early.next_due == NOW + SECOND
        results = in_threads([lambda: requests.claim(store, now=NOW + SECOND)] * 6)
        (run,) = [run for claimed in results for run in claimed.runs]
        assert (run.id, run.owner, run.source) == ("run-1", "owner-1", Source.MANUAL)
        assert run.fence > 0

    def test_a_run_that_is_asked_for_when_its_job_is_gone_is_refused(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        job = make_job("a")
        store.add_job(job)
        store.add_run(asked_for(job, "run-1", NOW), must_exist=True)
        store.remove_job("a")
        store.forget_job("a")
        with pytest.raises(JobLookupError):
            store.add_run(asked_for(job, "run-2", NOW), must_exist=True)
        assert not requests.claim(store).runs
        assert not store.pending_runs()

    def test_pending_runs_respect_room_and_admission(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        job = make_job("a")
        for number in range(3):
            store.add_run(asked_for(job, f"run-{number}", NOW + number * timedelta(microseconds=1)))
        assert not requests.claim(store, now=NOW + SECOND, room={"default": 0}).runs
        first = requests.claim(store, now=NOW + SECOND)
        assert [run.id for run in first.runs] == ["run-0"]
        assert first.more
        assert not requests.claim(store, now=NOW + SECOND).runs
        store.settle([succeeded(first.runs[0])])
        assert [run.id for run in requests.claim(store, now=NOW + SECOND).runs] == ["run-1"]

    def test_pending_runs_of_a_job_can_be_discarded(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_run(asked_for(make_job("a"), "run-a", NOW))
        store.add_run(asked_for(make_job("b"), "run-b", NOW))
        store.discard_pending("a")
        assert [run.id for run in requests.claim(store).runs] == ["run-b"]

    def test_a_backlog_without_coalescing_waits_as_pending_runs(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW - 2 * MINUTE, start=NOW - 2 * MINUTE, coalesce=False))
        times = []
        runs = list(requests.fire(store).runs)
        while runs:
            assert len(runs) == 1
            times.append(runs[0].scheduled_at)
            store.settle([succeeded(runs[0])])
            runs = list(requests.claim(store).runs)
        assert times == [NOW - 2 * MINUTE, NOW - MINUTE, NOW]

    # Settling

    def test_a_settled_run_is_history_and_not_live(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        assert not store.settle([succeeded(run)])
        assert store.live_runs() == []
        (record,) = store.history(HistoryQuery("a"))
        assert (record.run_id, record.outcome) == (run.id, OutcomeKind.SUCCEEDED)
        assert record.finished_at == NOW + SECOND

    def test_a_run_is_settled_once(self, store: BaseJobStore, make_job: JobMaker, requests: Requests) -> None:
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        settlement = succeeded(run)
        assert not store.settle([settlement])
        assert list(store.settle([settlement])) == [settlement]
        assert len(store.history(HistoryQuery("a"))) == 1

    def test_of_a_batch_only_what_is_fenced_out_is_refused(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for job_id in "ab":
            store.add_job(make_job(job_id, due=NOW))
        runs = requests.fire(store).runs
        stale = succeeded(runs[0]._replace(fence=runs[0].fence - 1))
        good = succeeded(runs[1])
        assert list(store.settle([stale, good])) == [stale]
        assert [record.run_id for record in store.history(HistoryQuery())] == [runs[1].id]
        assert [run.id for run in store.live_runs()] == [runs[0].id]

    def test_a_run_that_is_put_back_is_claimed_again_with_a_higher_fence(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        assert not store.settle([settle(run, Outcome(OutcomeKind.SNOOZED), NOW)])
        (again,) = requests.claim(store).runs
        assert (again.id, again.attempt, again.scheduled_at) == (run.id, 1, NOW)
        assert again.fence > run.fence

    # Retries

    def test_a_retry_comes_when_it_is_due_and_not_before(
        self, store: BaseJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW, retry=Retry(2, fixed(10))))
        (run,) = requests.fire(store).runs
        assert not store.settle([failed(run)])
        early = requests.claim(store, now=NOW + 9 * SECOND)
        assert (list(early.runs), early.next_due) == ([], NOW + 10 * SECOND)
        (again,) = requests.claim(store, now=NOW + 10 * SECOND).runs
        assert (again.id, again.attempt, again.scheduled_at, again.source) == (run.id, 2, NOW, Source.RETRY)
        assert again.fence > run.fence
        assert store.dead_letters(HistoryQuery()) == []


class Requests:
    """Asks a store as an engine would."""

    def __init__(self) -> None:
        self._numbers = iter(range(1, 1_000_000))

    def fire(self, store: BaseJobStore, now: datetime = NOW, **changes: Any) -> Fired:
        """Fire what is due, and raise what stopped the store."""
        fired = store.fire_due(self._request(now, **changes))
        if fired.error is not None:
            raise fired.error
        return fired

    def claim(self, store: BaseJobStore, now: datetime = NOW, **changes: Any) -> Claimed:
        """Claim pending runs, and raise what stopped the store."""
        claimed = store.claim_runs(self._request(now, **changes))
        if claimed.error is not None:
            raise claimed.error
        return claimed

    def _request(
        self, now: datetime, owner: str = "owner-1", room: dict[str, int] | None = None,
        obstacles: dict[str, str] | None = None, in_blackout: InBlackout | None = None,
    ) -> FireRequest:  # fmt: skip
        room = {"default": 1000} if room is None else room

        def obstacle(job: Job) -> str | None:
            if obstacles and job.id in obstacles:
                return obstacles[job.id]
            return None if job.executor in room else f'there is no executor named "{job.executor}"'

        return FireRequest(now, owner, room, FiringPlanner(owner, obstacle, self._new_id, in_blackout), admit)

    def _new_id(self) -> str:
        return f"run-{next(self._numbers)}"


class JobMaker:
    """Makes jobs: ``make_job("id", due=..., **definition)``; by default one that fires every minute."""

    def __init__(self, scheduler: ManualScheduler) -> None:
        self._scheduler = scheduler

    def __call__(
        self, job_id: str, due: datetime | None = NOW, *, start: datetime = NOW, trigger: Any = None, **definition: Any
    ) -> Job:
        definition = {"func": nothing, "args": (), "kwargs": {}, "name": "nothing", **definition}
        trigger = trigger or IntervalTrigger(minutes=1, start_date=start, timezone=timezone.utc)
        job = Job(self._scheduler, job_id, trigger=trigger, next_run_time=due, **definition)
        job.options = filled_in(job.options, DEFAULTS)
        job._jobstore_alias = "default"
        return job


def succeeded(run: Run, at: datetime = NOW + SECOND) -> Settlement:
    """Return the settlement of a run that went well."""
    return settle(run, Outcome(OutcomeKind.SUCCEEDED, started_at=NOW), at)


def failed(run: Run, at: datetime = NOW) -> Settlement:
    """Return the settlement of a run that failed."""
    return settle(run, Outcome(OutcomeKind.FAILED, error=ValueError("no"), started_at=NOW), at)


def attempt_to_add(store: BaseJobStore, make_job: JobMaker, number: int) -> str:
    """Add a job whose id others add too; say how that ended."""
    try:
        store.add_job(make_job("same", name=f"by {number}"))
    except ConflictingIdError:
        return "conflict"
    return "added"


def in_threads(actions: list[Any]) -> list[Any]:
    """Call all actions at the same moment, each on a thread of its own, and return their results."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def work(number: int) -> None:
        barrier.wait()
        try:
            results[number] = actions[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
