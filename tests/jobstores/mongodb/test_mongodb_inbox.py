"""Other programs ask a MongoDB store for jobs and read what became of them, with nothing but a driver."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import datetime, timezone

import bson
import pymongo
import pytest
from key_servers import Standalone
from pymongo.errors import AutoReconnect

from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.messages import MessageScheduler
from goscheduler.runs.limits import Limit
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import MINUTE, NOW, JobMaker, Requests
from goscheduler.testing.contract_reads import failure, success
from goscheduler.testing.scheduler import ManualScheduler

#: What a program does that knows nothing of this package.
FOREIGN = """
import datetime, json, sys, pymongo
client = pymongo.MongoClient(sys.argv[1])
database = client.get_default_database()
if sys.argv[2] == "ask":
    inbox = database["jobs.inbox"]
    inbox.insert_one({"request": '{"id": "from-text", "n": 1}'})
    inbox.insert_one({"id": "from-fields", "args": [1, "zwei"], "at": datetime.datetime(2026, 5, 4, 12, 30)})
    inbox.insert_one({"request": {"id": "from-document"}})
    inbox.insert_one({"request": "this is no JSON"})
else:
    jobs = {row["id"]: [row["status"], row["due"].isoformat()] for row in database["goscheduler_jobs_v1"].find()}
    refused = [[row["request"], row["reason"]] for row in database["jobs.refused"].find()]
    print(json.dumps([jobs, refused]))
client.close()
assert "goscheduler" not in sys.modules
"""


@pytest.fixture
def scheduler():
    return ManualScheduler(clock=ManualClock(NOW))


@pytest.fixture
def space(mongodb, fresh):
    return fresh(mongodb)


@pytest.fixture
def start(scheduler):
    """Start a store; all are shut down at the end."""
    started = []

    def start(url):
        started.append(MongoDBJobStore.from_url(url, server_time=False))
        started[-1].start(scheduler, "default")
        return started[-1]

    yield start
    for store in started:
        store.shutdown()


@pytest.fixture
def store(start, space):
    return start(space.url)


@pytest.fixture
def database(space):
    with pymongo.MongoClient(space.url) as client:
        yield client[space.name]


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


def foreign(url, act):
    """Run the foreign program in a process of its own."""
    done = subprocess.run([sys.executable, "-c", FOREIGN, url, act], capture_output=True, text=True, check=True)
    return done.stdout


def test_a_program_with_a_driver_only_asks_for_jobs_and_reads_what_became_of_them(store, space, make_job):
    foreign(space.url, "ask")
    asked = []

    def read(entry):
        asked.append(json.loads(entry.request))
        return make_job(asked[-1]["id"], due=NOW)

    drained = store.drain_inbox(100, read)
    assert [job.id for job in drained.jobs] == ["from-text", "from-fields", "from-document"]
    assert asked[1] == {"id": "from-fields", "args": [1, "zwei"], "at": "2026-05-04T12:30:00+00:00"}
    jobs, ((request, reason),) = json.loads(foreign(space.url, "read"))
    assert jobs == {job.id: ["scheduled", "2026-05-04T12:00:00"] for job in drained.jobs}
    assert request == "this is no JSON"
    assert "Expecting value" in reason


@pytest.mark.parametrize("odd", [
    {"at": bson.Binary(b"x")}, {"n": float("nan")}, {}, {"_id": {"a": [1]}, "request": 5},
], ids=["binary", "not a number", "empty", "no request"])  # fmt: skip
def test_what_other_programs_may_write_does_not_hold_up_the_inbox(store, database, make_job, odd):
    database["jobs.inbox"].insert_many([odd, {"id": "good"}])
    def read(entry):
        fields = json.loads(entry.request)
        if "id" not in fields:
            raise ValueError("it has no id")
        return make_job(fields["id"])

    drained = store.drain_inbox(100, read)
    assert [job.id for job in drained.jobs] == ["good"]
    assert len(drained.refused) == 1
    assert database["jobs.inbox"].count_documents({}) == 0
    assert database["jobs.refused"].count_documents({}) == 1


def test_texts_and_times_that_python_does_not_have_are_read(store, database, make_job):
    text = bson.encode({"id": "good", "text": "AB", "at": bson.DatetimeMS(1 << 60)}).replace(b"AB\0", b"\xff\xfe\0")
    database.command("insert", "jobs.inbox", documents=[bson.raw_bson.RawBSONDocument(text)])
    drained = store.drain_inbox(100, lambda entry: make_job(json.loads(entry.request)["id"]))
    assert [job.id for job in drained.jobs] == ["good"]


@pytest.mark.parametrize("kind", ["replica set", "standalone"])
def test_processes_that_drain_at_once_add_each_job_once(mongodb, fresh, tmp_path, start, make_job, kind):
    server = mongodb
    if kind == "standalone":
        server = Standalone(tmp_path / "standalone")
        server.start()
    try:
        url = fresh(server).url
        stores = [start(url) for _ in range(4)]
        with pymongo.MongoClient(url) as client:
            client.get_default_database()["jobs.inbox"].insert_many([{"id": f"job-{n}"} for n in range(60)])
            client.get_default_database()["jobs.inbox"].insert_one({"id": "job-7"})
            assert sorted(drain_together(stores, make_job)) == sorted(f"job-{n}" for n in range(60))
            assert client.get_default_database()["jobs.refused"].count_documents({}) == 1
            assert client.get_default_database()["jobs.inbox"].count_documents({}) == 0
        for store in stores:
            store.shutdown()
    finally:
        if kind == "standalone":
            server.close()


def drain_together(stores, make_job):
    """Drain an inbox in threads until it is empty; return the ids of all jobs that were added."""
    added = []

    def drain(store):
        drained = store.drain_inbox(40, lambda entry: make_job(json.loads(entry.request)["id"]))
        while drained.jobs or drained.refused or drained.more:
            added.extend(job.id for job in drained.jobs)
            drained = store.drain_inbox(40, lambda entry: make_job(json.loads(entry.request)["id"]))

    threads = [threading.Thread(target=drain, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return added


def test_a_process_that_ends_in_the_middle_leaves_the_inbox_as_it_was(store, database, make_job, monkeypatch):
    database["jobs.inbox"].insert_one({"id": "a"})
    step = store._inbox._refuse

    def ended(*args):
        step(*args)
        raise AutoReconnect("ended here")

    with monkeypatch.context() as patch:
        patch.setattr(store._inbox, "_refuse", ended)
        with pytest.raises(AutoReconnect):
            store.drain_inbox(10, lambda entry: make_job("a"))
    assert store.lookup_job("a") is None
    assert [job.id for job in store.drain_inbox(10, lambda entry: make_job("a")).jobs] == ["a"]


def test_a_job_that_a_process_without_transactions_has_added_is_not_refused(store, database, make_job):
    place = database["jobs.inbox"].insert_one({"id": "a"}).inserted_id
    store.add_job(make_job("a"))
    database.jobs.update_one({"_id": "a"}, {"$set": {"inbox": str(place)}})
    drained = store.drain_inbox(10, lambda entry: make_job("a"))
    assert (list(drained.jobs), dict(drained.refused)) == ([], {})
    assert database["jobs.inbox"].count_documents({}) == 0


# Views


def test_the_views_tell_of_jobs_and_runs(store, database, make_job):
    requests = Requests()
    one = Limit("one", concurrency=1)
    store.add_jobs([
        make_job("failing", due=NOW, name='Näme "x"', retry=3, tags=["t", "u:v"]), make_job("idle", due=None),
        make_job("live", due=NOW, limits=one), make_job("waits", due=NOW, limits=one),
    ])  # fmt: skip
    runs = {run.job.id: run for run in requests.fire(store).runs}
    requests.claim(store)
    blocked = ({"live", "waits"} - runs.keys()).pop()
    store.settle([failure(runs["failing"], ValueError('bad "thing"\nsecond line'))])
    jobs = {row["id"]: row for row in database["goscheduler_jobs_v1"].find()}
    assert {job_id: row["status"] for job_id, row in jobs.items() if job_id not in ("live", "waits")} == {
        "failing": "scheduled", "idle": "paused",
    }  # fmt: skip
    failing = jobs["failing"]
    assert (failing["name"], failing["tags"], failing["attempts"], failing["error"]) == (
        'Näme "x"', ["t", "u:v"], 1, 'ValueError: bad "thing"\nsecond line',
    )  # fmt: skip
    assert (failing["function"], failing["task"]) == ("goscheduler.testing.contract:nothing", None)
    assert failing["due"].replace(tzinfo=timezone.utc) == NOW + MINUTE
    assert jobs["idle"]["due"] is None
    rows = list(database["goscheduler_runs_v1"].find())
    seen = {(row["job_id"], row["status"], row["attempts"], row["owner"]) for row in rows}
    assert ("failing", "failed", 1, "owner-1") in seen
    assert ("failing", "pending", 2, None) in seen
    assert [row["status"] for row in rows if row["job_id"] == blocked] == ["blocked"]
    (ended,) = (row for row in rows if row["status"] == "failed")
    assert ended["error"] == 'ValueError: bad "thing"\nsecond line'
    assert (ended["due"], ended["finished"]) == (datetime(2026, 5, 4, 12), datetime(2026, 5, 4, 12))
    (live,) = (row for row in rows if row["status"] == "claimed")
    assert jobs[live["job_id"]]["owner"] == live["owner"]


def test_the_view_of_messages_follows_a_message(space, database):
    store = MongoDBJobStore.from_url(space.url, server_time=False)
    scheduler = ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store})

    def refuse(event_name, message):
        raise ValueError(f"nobody takes {event_name}")

    front = MessageScheduler(scheduler=scheduler, transport=refuse, workers=0, max_retries=1)
    scheduler.start()
    front.start()
    message_id = front.schedule_after("10m", "order.paid", b"{}")
    (row,) = database["goscheduler_messages_v1"].find()
    assert row == {
        "id": message_id, "status": "pending", "event": "order.paid", "source": "messages",
        "due": datetime(2026, 5, 4, 12, 10), "attempts": 0, "owner": None, "error": None,
    }  # fmt: skip
    scheduler.advance("10m")
    (row,) = database["goscheduler_messages_v1"].find()
    assert (row["id"], row["status"], row["source"], row["attempts"]) == (message_id, "retrying", "messages", 2)
    scheduler.advance("1h")
    (row,) = database["goscheduler_messages_v1"].find()
    assert (row["id"], row["status"], row["event"], row["source"]) == (message_id, "dead", "order.paid", "messages")
    assert row["attempts"] > 0
    assert "nobody takes order.paid" in row["error"]
    front.stop()
    scheduler.shutdown()


def test_a_view_of_another_shape_is_replaced(store, start, space, database, make_job):
    database.command("collMod", "goscheduler_jobs_v1", viewOn="jobs", pipeline=[])
    start(space.url).add_job(make_job("a"))
    (row,) = database["goscheduler_jobs_v1"].find()
    assert {"id", "status", "due"} <= row.keys()


def test_collections_of_another_name_have_views_of_their_own(start, space, database, scheduler, make_job):
    other = MongoDBJobStore.from_url(space.url, collection="other", server_time=False)
    other.start(scheduler, "default")
    other.add_job(make_job("a"))
    other.shutdown()
    assert [row["id"] for row in database["other.goscheduler_jobs_v1"].find()] == ["a"]


def test_an_end_that_went_well_has_no_error(store, database, make_job):
    store.add_job(make_job("a", due=NOW))
    (run,) = Requests().fire(store).runs
    store.settle([success(run)])
    (row,) = database["goscheduler_runs_v1"].find({"id": run.id})
    assert (row["status"], row["error"], row["attempts"]) == ("succeeded", None, 1)
