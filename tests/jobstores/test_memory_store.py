"""The memory store under the contract, and what only it promises."""

from __future__ import annotations

from datetime import timedelta

from goscheduler.job import copy_with
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing.contract import NOW, SECOND, JobMaker, Requests, StoreContract, succeeded
from goscheduler.testing.model import StoreMachine, against_the_model
from goscheduler.testing.model_limits import limits_against_the_model


class TestMemoryStore(StoreContract):
    def make_store(self) -> MemoryJobStore:
        return MemoryJobStore()

    def test_the_stored_job_is_the_object_that_was_added(self, store: MemoryJobStore, make_job: JobMaker) -> None:
        job = make_job("a", due=NOW)
        store.add_job(job)
        store.edit_job("a", lambda found: copy_with(found, name="renamed"))
        assert store.lookup_job("a") is job
        assert job.name == "renamed"

    def test_a_lambda_may_be_stored(self, store: MemoryJobStore, make_job: JobMaker) -> None:
        job = make_job("a", func=lambda: 42)
        store.add_job(job)
        assert store.lookup_job("a").func() == 42

    def test_the_order_of_jobs_due_together_is_that_of_their_arrival(
        self, store: MemoryJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        for job_id in "cab":
            store.add_job(make_job(job_id, due=NOW))
        assert [run.job.id for run in requests.fire(store).runs] == ["c", "a", "b"]

    def test_many_updates_leave_no_garbage_behind(self, store: MemoryJobStore, make_job: JobMaker) -> None:
        for number in range(10):
            store.add_job(make_job(str(number), due=NOW))
        for number in range(5000):
            store.update_job(make_job(str(number % 10), due=NOW + number * SECOND))
        assert sum(map(len, store._queues.values())) < 200
        assert store.get_next_run_time() == NOW + 4990 * SECOND

    def test_a_job_that_changes_its_executor_fires_there_and_only_there(
        self, store: MemoryJobStore, make_job: JobMaker, requests: Requests
    ) -> None:
        store.add_job(make_job("a", due=NOW))
        store.edit_job("a", lambda job: copy_with(job, executor="other"))
        fired = requests.fire(store, room={"default": 5, "other": 5})
        assert [run.job.executor for run in fired.runs] == ["other"]

    def test_history_is_bounded(self, scheduler: object, make_job: JobMaker, requests: Requests) -> None:
        store = MemoryJobStore(history=3)
        store.add_job(make_job("a", due=NOW))
        for number in range(5):
            now = NOW + timedelta(minutes=number)
            store.settle([succeeded(requests.fire(store, now=now).runs[0])])
        assert len(store.history(HistoryQuery())) == 3

    def test_shutdown_forgets_jobs_and_runs(self, make_job: JobMaker, requests: Requests) -> None:
        store = MemoryJobStore()
        store.add_job(make_job("a", due=NOW))
        requests.fire(store)
        store.shutdown()
        assert store.get_all_jobs() == []
        assert store.live_runs() == []


class MemoryStoreMachine(StoreMachine):
    durable = False

    def make_store(self) -> MemoryJobStore:
        return MemoryJobStore()


TestMemoryStoreAgainstTheModel = against_the_model(MemoryStoreMachine, examples=20)
TestLimitsInAMemoryStore = limits_against_the_model(MemoryStoreMachine)
