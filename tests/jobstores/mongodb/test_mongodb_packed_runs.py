"""Runs that an earlier version has packed into one document of MongoDB: a start of this version lets each one end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from bson import ObjectId
from key_servers import Standalone
from pymongo.collection import Collection

from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import crashed
from goscheduler.testing.contract import MINUTE, NOW, Requests, failed, in_threads, succeeded
from goscheduler.times import to_micros
from goscheduler.triggers.date import DateTrigger

EVERYTHING = HistoryQuery(limit=100)
LANE = {"executor": "default", "priority": 5, "task": ""}


def lost(run, host=""):
    return crashed(run, NOW + timedelta(seconds=30), host=host)


@pytest.fixture
def url(mongodb, fresh):
    return fresh(mongodb).url


@pytest.fixture
def store(url, opened):
    return opened(MongoDBJobStore.from_url(url, server_time=False))


@pytest.fixture
def start(url, opened):
    """Return a function that starts another process on the same collections."""
    return lambda: opened(MongoDBJobStore.from_url(url, server_time=False))


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture
def pack(store, make_job):
    """Return a function that writes the live runs of jobs as the earlier version did."""

    def write(*ids, store=store, **options):
        jobs = [make_job(job_id, due=NOW, trigger=DateTrigger(NOW), **options) for job_id in ids]
        runs = [_packed(job, store._context.codec.records.job_text(job)) for job in jobs]
        document = {"_id": ObjectId(), "here": False, "runs": runs, "marks": ["flight", "owner:owner-1"], "v": "old-1"}
        store._collections.jobs.insert_one(document)

    return write


def _packed(job, definition):
    at = to_micros(NOW)
    text = f'[2,"{job.id}",{at},"Z",{at},"Z",1,"schedule",0,0]'
    return {
        "id": f"run-of-{job.id}", "text": text, "lane": LANE, "due": at, "fence": at, "firing": True,
        "owner": "owner-1", "job": job.id, "definition": definition,
    }  # fmt: skip


def test_packed_runs_are_live_runs_of_their_owner_after_a_start(store, pack, start):
    pack("a", "b")
    other = start()
    assert other._collections.jobs.count_documents({"marks": "flight"}) == 0
    assert {(run.job.id, run.owner) for run in other.live_runs()} == {("a", "owner-1"), ("b", "owner-1")}
    assert [run.job.id for run in other.live_runs("b")] == ["b"]


def test_packed_runs_of_a_lost_owner_run_once_and_end(store, pack, start, requests):
    pack("a", "b")
    other = start()
    assert sorted(end.attempt.run.job.id for end in other.recover_runs(NOW, lost)) == ["a", "b"]
    again = requests.claim(other, owner="owner-2").runs
    assert sorted((run.job.id, run.crashes) for run in again) == [("a", 1), ("b", 1)]
    assert other.settle([succeeded(run) for run in again]) == []
    assert start().recover_runs(NOW, lost) == []
    assert documents(other) == []
    outcomes = [(record.job_id, record.outcome) for record in other.history(EVERYTHING)]
    assert outcomes.count(("a", OutcomeKind.SUCCEEDED)) == outcomes.count(("b", OutcomeKind.SUCCEEDED)) == 1


def test_the_process_that_has_packed_runs_in_hand_ends_them_while_a_newer_one_starts(pack, start):
    pack("a", "b", retry=3)
    other = start()
    runs = sorted(other.live_runs(), key=lambda run: run.job.id)
    assert other.settle([succeeded(runs[0]), failed(runs[1])]) == []
    assert other.live_runs() == []
    assert [(run.job.id, run.attempt) for run in other.pending_runs()] == [("b", 2)]


def test_a_job_that_was_added_again_counts_its_packed_run(store, pack, start, make_job, requests):
    pack("a", max_instances=1)
    store.add_job(make_job("a", due=NOW, max_instances=1))
    store._collections.jobs.update_one({"_id": "a"}, {"$set": {"new": True}})
    other = start()
    fired = requests.fire(other, owner="owner-2")
    assert [attempt.outcome.kind for attempt in fired.records] == [OutcomeKind.SKIPPED]
    (run,) = other.live_runs()
    assert other.settle([succeeded(run)]) == []
    assert [run.job.id for run in requests.fire(other, now=NOW + MINUTE, owner="owner-2").runs] == ["a"]


def test_runs_that_are_packed_after_the_start_are_unpacked_when_lost_runs_are_looked_for(store, pack):
    pack("a")
    assert [end.attempt.run.job.id for end in store.recover_runs(NOW, lost)] == ["a"]
    assert [run.job.id for run in store.pending_runs()] == ["a"]


def test_processes_that_start_together_unpack_each_run_once(store, pack, start):
    for number in range(5):
        pack(*(f"j{number}-{n}" for n in range(20)))
    in_threads([start] * 4)
    assert len(store.live_runs()) == 100
    assert len({run.id for run in store.live_runs()}) == 100


def test_a_process_that_stalls_while_it_unpacks_does_not_bring_back_a_run_that_ended_since(
    store, pack, start, requests, monkeypatch
):
    pack("a")
    write = Collection.bulk_write

    def stall(self, *args, session=None, **options):
        if session is not None:
            monkeypatch.undo()
            (run,) = start().live_runs()
            assert store.settle([succeeded(run)]) == []
        return write(self, *args, session=session, **options)

    monkeypatch.setattr(Collection, "bulk_write", stall)
    other = start()
    assert other.live_runs() == []
    assert documents(other) == []


def test_a_client_that_prefers_to_read_elsewhere_unpacks(url, opened, pack):
    pack("a")
    url += ("&" if "?" in url else "?") + "readPreference=secondaryPreferred"
    assert [run.job.id for run in opened(MongoDBJobStore.from_url(url, server_time=False)).live_runs()] == ["a"]


@pytest.mark.serial
def test_a_copy_on_a_server_without_transactions_is_unpacked_even_if_a_process_was_killed_halfway(
    tmp_path, fresh, opened, pack
):
    server = Standalone(tmp_path / "standalone")
    server.start()
    try:
        url = fresh(server).url
        store = opened(MongoDBJobStore.from_url(url, server_time=False))
        pack("a", "b", store=store)
        packed = store._collections.jobs.find_one({"marks": "flight"})
        opened(MongoDBJobStore.from_url(url, server_time=False))
        store._collections.jobs.insert_one(packed)
        other = opened(MongoDBJobStore.from_url(url, server_time=False))
        assert sorted(run.job.id for run in other.live_runs()) == ["a", "b"]
        assert other._collections.jobs.count_documents({"marks": "flight"}) == 0
    finally:
        server.close()


def documents(store):
    """Return the documents that are not the ends of queues."""
    return list(store._collections.jobs.find({"v": {"$ne": ""}}))
