"""Runs of many jobs in one document of MongoDB: under the contract and the model, and what is special about them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from bson import ObjectId
from key_servers import Standalone
from mongodb_machine import MongoDBMachine
from pymongo.errors import AutoReconnect, OperationFailure

from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.jobstores.mongodb import packed_runs as flights
from goscheduler.jobstores.mongodb.documents import indexed
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import asked_for, called_off, crashed
from goscheduler.testing.contract import MINUTE, NOW, Requests, StoreContract, failed, in_threads, succeeded
from goscheduler.testing.model import against_the_model
from goscheduler.triggers.date import DateTrigger

EVERYTHING = HistoryQuery(limit=10_000)
LEASE = timedelta(seconds=30)


def lost(run, host=""):
    return crashed(run, NOW + LEASE, host=host)


@pytest.fixture(autouse=True)
def _one_is_worth_it(monkeypatch):
    monkeypatch.setattr(flights, "FEWEST", 1)
    monkeypatch.setattr(flights, "MOST", 3)


class TestFlyingJobs(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, mongodb, fresh):
        self.space = fresh(mongodb)

    def make_store(self):
        return MongoDBJobStore.from_url(self.space.url, server_time=False)

    @pytest.fixture
    def peer(self, scheduler):
        """Another process on the same collections."""
        peer = self.make_store()
        peer.start(scheduler, "default")
        yield peer
        peer.shutdown()

    @pytest.fixture
    def fly(self, store, make_job, requests):
        """Return a function that fires jobs for the last time, and returns their runs."""

        def fired(*ids, **options):
            store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW), **options) for job_id in ids])
            runs = requests.fire(store).runs
            assert {run.job.id for run in runs} == set(ids) == set(in_flight(store))
            return sorted(runs, key=lambda run: run.job.id)

        return fired

    def test_runs_leave_a_flight_as_they_end_and_the_last_one_ends_it(self, store, fly):
        runs = fly(*"abcde", retry=1)
        assert len(all_flights(store)) == 2, "one holds three"
        assert store.settle([succeeded(run) for run in runs[1:4]]) == []
        assert in_flight(store) == ["a", "e"]
        assert sorted(run.job.id for run in store.live_runs()) == ["a", "e"]
        assert store.settle([succeeded(runs[0]), failed(runs[4])]) == []
        assert documents(store) == []
        assert sorted(record.job_id for record in store.history(EVERYTHING)) == list("abcde")
        assert [letter.run.job.id for letter in store.dead_letters(EVERYTHING)] == ["e"]

    def test_a_run_of_one_job_is_found_among_many(self, store, peer, fly):
        fly(*"abc")
        assert [run.job.id for run in peer.live_runs("b")] == ["b"]
        assert peer.live_runs("d") == []

    def test_a_run_is_settled_by_somebody_who_has_not_fired_it(self, store, peer, fly):
        runs = fly(*"abc")
        assert peer.settle([succeeded(run) for run in runs[:2]]) == []
        assert store.settle([succeeded(run) for run in runs]) == [succeeded(run) for run in runs[:2]]
        assert store.live_runs() == []

    def test_a_retry_waits_in_the_document_of_its_job_and_the_others_fly_on(self, store, requests, fly):
        runs = fly(*"abc", retry=3)
        store.settle([failed(runs[0]), succeeded(runs[1])])
        assert in_flight(store) == ["c"]
        assert [run.attempt for run in store.pending_runs("a")] == [2]
        (again,) = requests.claim(store, now=NOW + MINUTE).runs
        assert (again.id, again.attempt) == (runs[0].id, 2)
        assert again.fence > runs[0].fence
        store.settle([succeeded(again), succeeded(runs[2])])
        assert documents(store) == []

    def test_a_flying_run_is_cancelled_from_elsewhere(self, store, peer, requests, fly):
        runs = fly(*"abc")
        found = peer.cancel_run(runs[1].id, "enough", lambda run: called_off(run, "enough", NOW))
        assert found.id == runs[1].id
        assert in_flight(store) == ["a", "c"]
        assert [(run.id, reason) for run, reason in requests.claim(store).to_cancel] == [(runs[1].id, "enough")]
        assert store.settle([succeeded(run) for run in runs]) == []
        assert store.live_runs() == []

    def test_nothing_follows_a_flying_run_whose_job_is_forgotten(self, store, peer, fly):
        runs = fly(*"abc", retry=3)
        peer.forget_job("a")
        store.settle([failed(run) for run in runs])
        assert sorted(run.job.id for run in store.pending_runs()) == ["b", "c"]

    @pytest.mark.parametrize("many", [False, True])
    def test_a_job_that_is_added_again_knows_of_its_flying_run(self, store, peer, make_job, requests, fly, many):
        (run, _) = fly("a", "b", max_instances=1)
        job = make_job("a", due=NOW, max_instances=1)
        if many:
            peer.add_jobs([job, make_job("c", due=NOW + MINUTE)])
        else:
            peer.add_job(job)
        fired = requests.fire(peer, owner="owner-2")
        assert [attempt.outcome.kind for attempt in fired.records] == [OutcomeKind.SKIPPED]
        assert store.settle([succeeded(run)]) == []
        later = requests.fire(peer, now=NOW + MINUTE, owner="owner-2").runs
        assert [run.job.id for run in later] == (["a", "c"] if many else ["a"])

    def test_a_run_that_is_asked_for_while_another_one_flies_waits_for_it(self, store, peer, make_job, requests, fly):
        (run,) = fly("a", max_instances=1)
        peer.add_run(asked_for(make_job("a", max_instances=1), "asked", NOW))
        assert requests.claim(peer, owner="owner-2").runs == []
        assert store.settle([succeeded(run)]) == []
        assert [run.id for run in requests.claim(peer, owner="owner-2").runs] == ["asked"]

    def test_the_runs_of_an_owner_that_is_lost_are_run_again_and_his_ends_are_refused(self, store, peer, requests, fly):
        runs = fly(*"abcd")
        store.settle([succeeded(runs[0])])
        recovered = peer.recover_runs(NOW, lost)
        assert sorted(end.attempt.run.job.id for end in recovered) == ["b", "c", "d"]
        late = [succeeded(run) for run in runs[1:]]
        assert store.settle(late) == late
        again = requests.claim(peer, owner="owner-2").runs
        assert {(run.job.id, run.crashes) for run in again} == {("b", 1), ("c", 1), ("d", 1)}
        assert peer.settle([succeeded(run) for run in again]) == []
        assert documents(store) == []

    def test_a_run_that_has_a_record_does_not_go_on_after_its_owner_was_lost(self, store, peer, fly, monkeypatch):
        runs = fly(*"abc", retry=3)
        with monkeypatch.context() as patch:
            patch.setattr(store._ends, "apply", stumble)
            with pytest.raises(AutoReconnect):
                store.settle([succeeded(runs[0]), failed(runs[1])])
        assert [end.attempt.run.job.id for end in peer.recover_runs(NOW, lost)] == ["c"]
        assert sorted(run.job.id for run in peer.pending_runs()) == ["b", "c"]
        assert peer.live_runs() == []

    def test_a_retired_owner_leaves_his_flying_runs_to_others(self, store, peer, requests, fly):
        fly(*"abcd")
        store.retire_owner("owner-1")
        assert [run.job.id for run in peer.live_runs()] == []
        assert len(requests.claim(peer, owner="owner-2").runs) == 4

    @pytest.mark.parametrize("written", [False, True])
    def test_who_does_not_hear_whether_it_took_off_finds_out(self, store, make_job, requests, monkeypatch, written):
        store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW)) for job_id in "abcd"])
        fly = store._work.flights._fly
        with monkeypatch.context() as patch:
            patch.setattr(store._work.flights, "_fly", lambda *what: (fly(*what) if written else None, stumble()))
            fired = store.fire_due(requests._request(NOW))
        assert isinstance(fired.error, AutoReconnect)
        assert fired.runs == []
        astray = store.live_runs()
        assert sorted(run.job.id for run in astray) == (list("abcd") if written else [])
        assert store.settle([succeeded(run) for run in astray]) == []
        assert len(requests.fire(store).runs) == (0 if written else 4)

    def test_of_many_that_fire_the_same_jobs_each_is_fired_by_one(self, store, peer, make_job, requests):
        store.add_jobs([make_job(f"job-{n}", due=NOW, trigger=DateTrigger(NOW)) for n in range(200)])
        fired = in_threads([lambda place=place: requests.fire(place) for place in (store, peer) * 4])
        ran = sorted(run.job.id for result in fired for run in result.runs)
        assert ran == sorted(f"job-{n}" for n in range(200))
        assert len({run.id for run in store.live_runs()}) == 200

    def test_a_job_that_somebody_changes_meanwhile_keeps_the_others_from_flying_and_not_from_firing(
        self, store, peer, make_job, requests, monkeypatch
    ):
        store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW)) for job_id in "abc"])
        fly = store._work.flights._fly

        def fly_late(*what):
            peer.update_job(make_job("b", due=NOW + MINUTE, trigger=DateTrigger(NOW + MINUTE)))
            fly(*what)

        monkeypatch.setattr(store._work.flights, "_fly", fly_late)
        assert sorted(run.job.id for run in requests.fire(store).runs) == ["a", "c"]
        assert in_flight(store) == []
        monkeypatch.undo()
        assert store.lookup_job("b").next_run_time == NOW + MINUTE

    @pytest.mark.parametrize(
        "options", [{"limits": Limit("api", concurrency=9)}, {"kwargs": {"text": "x" * 20_000}}, {"auto_remove": False}]
    )
    def test_what_has_more_to_it_does_not_fly(self, store, make_job, requests, options):
        store.add_job(make_job("a", due=NOW, trigger=DateTrigger(NOW), **options))
        (run,) = requests.fire(store).runs
        assert all_flights(store) == []
        assert store.settle([succeeded(run)]) == []

    def test_an_error_of_the_server_is_not_taken_for_a_lost_race(self, store, make_job, requests, monkeypatch):
        store.add_job(make_job("a", due=NOW, trigger=DateTrigger(NOW)))
        monkeypatch.setattr(store._work.flights, "_fly", lambda *what: stumble(OperationFailure("not allowed", 13)))
        assert isinstance(store.fire_due(requests._request(NOW)).error, OperationFailure)


@pytest.mark.serial
def test_a_server_without_transactions_fires_and_lands_step_by_step(mongodb, tmp_path, fresh, opened, make_job):
    server = Standalone(tmp_path / "standalone")
    server.start()
    try:
        requests, url = Requests(), fresh(server).url
        store, peer = (opened(MongoDBJobStore.from_url(url, server_time=False)) for _ in range(2))
        store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW)) for job_id in "abcd"])
        (a, b, c, _) = sorted(requests.fire(store).runs, key=lambda run: run.job.id)
        assert all_flights(store) == [], "nothing takes off"
        store.settle([succeeded(run) for run in (a, b)])
        come_by_a_copy(store, "c")
        assert in_flight(store) == ["c"]
        assert {end.attempt.run.id for end in peer.recover_runs(NOW, lost)} >= {c.id}
        assert sorted(run.job.id for run in peer.pending_runs()) == ["c", "d"]
        assert all_flights(store) == []
    finally:
        server.close()


def come_by_a_copy(store, job_id):
    """Have the run of a job be in a flight, as in a copy of the data of a server that has them."""
    jobs = store._collections.jobs
    row = jobs.find_one_and_delete({"_id": job_id})
    entries = [{**entry, "job": job_id, "definition": row["definition"]} for entry in row["runs"]]
    jobs.insert_one({**indexed({"_id": ObjectId(), "here": False, "runs": entries}), "v": "copied"})


class FlyingMachine(MongoDBMachine):
    """One whose runs fly, because all of these tests let them."""


class TestFlyingJobsAgainstTheModel(against_the_model(FlyingMachine, examples=5, steps=40)):
    @pytest.fixture(autouse=True)
    def _place(self, mongodb, fresh):
        FlyingMachine.url = fresh(mongodb).url


def documents(store):
    """Return the documents that are not the ends of lanes."""
    return list(store._collections.jobs.find({"v": {"$ne": ""}}))


def all_flights(store):
    return [row for row in documents(store) if isinstance(row["_id"], ObjectId)]


def in_flight(store):
    return sorted(entry["job"] for row in all_flights(store) for entry in row["runs"])


def stumble(*args):
    raise args[0] if args and isinstance(args[0], Exception) else AutoReconnect("ended here")
