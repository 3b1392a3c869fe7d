"""What people read of the MongoDB store: by whichever way, they find what the model finds; and stores of version 1."""

from __future__ import annotations

import random
from datetime import timedelta

import pymongo
import pytest

from goscheduler.errors import InvalidArgument
from goscheduler.job import copy_with
from goscheduler.jobstores.mongodb import MongoDBJobStore, editing, reading
from goscheduler.jobstores.reading import StoreReads
from goscheduler.runs.model import JobState, OutcomeKind, Owner
from goscheduler.runs.queries import STORED_STATES, Count, JobQuery
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import MINUTE, NOW, JobMaker, Requests
from goscheduler.testing.contract_reads import failure, pages, success
from goscheduler.testing.scheduler import ManualScheduler

#: How many jobs are few, what may be looked through, how many are read together: so that each way is taken.
WAYS = {
    "few jobs are sorted": (1000, 1000, 1000),
    "all are looked through": (3, 1000, 1000),
    "a large collection is read on": (3, 10, 4),
}


@pytest.fixture
def scheduler():
    return ManualScheduler(clock=ManualClock(NOW))


@pytest.fixture
def space(mongodb, fresh):
    return fresh(mongodb)


@pytest.fixture
def store(scheduler, space):
    store = MongoDBJobStore.from_url(space.url, server_time=False)
    store.start(scheduler, "default")
    yield store
    store.shutdown()


@pytest.fixture
def database(space):
    with pymongo.MongoClient(space.url) as client:
        yield client[space.name]


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


@pytest.fixture
def requests():
    return Requests()


def paused(job):
    edited = copy_with(job, next_run_time=None)
    edited.stats = job.stats._replace(paused_by="me", pause_id="bulk")
    return edited


def fill(store, make_job, requests, choose):
    """Leave sixty jobs of all kinds."""
    jobs = []
    for number in range(60):
        due = choose([None, NOW - MINUTE, NOW, NOW + MINUTE, NOW + 2 * MINUTE])
        jobs.append(
            make_job(
                f"{choose('aBÄz.')}job-{number}", due=due, start=due or NOW, auto_remove=False,
                name=choose(["Nightly", "ÄRGER x", "100%_sure", "a.b"]),
                tags=choose([[], ["x"], ["x", "ö"], ["y", "x"]]), executor=choose(["default", "default", "special"]),
            )
        )  # fmt: skip
    store.add_jobs(jobs)
    runs = requests.fire(store, room={"default": 15}).runs
    store.settle([choose([success, failure])(run) for run in runs[:10]])
    store.edit_jobs([job.id for job in jobs[::9]], paused)


def any_query(choose):
    return JobQuery(
        tag=choose([None, None, "x", "ö", "none"]), state=choose([None, None, *sorted(STORED_STATES)]),
        executor=choose([None, None, "default", "special", "none"]),
        task=choose([None, None, "goscheduler.testing.contract:nothing", "none"]),
        text=choose([None, None, None, "JOB", "ÄR", "%_", ".b", "a.", "\0"]),
        due_before=choose([None, None, NOW + MINUTE]), pause_id=choose([None, None, None, "bulk"]),
        last_outcome=choose([None, None, None, OutcomeKind.FAILED, OutcomeKind.SUCCEEDED]),
        sort=choose(["next_run", "id"]), limit=choose([1, 3, 50]),
    )  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_whichever_way_is_taken_the_same_jobs_are_found_and_counted(store, make_job, requests, monkeypatch, way):
    choose = random.Random(way).choice
    fill(store, make_job, requests, choose)
    for name, value in zip(("FEW_JOBS", "MAX_SCANNED", "PORTION"), WAYS[way], strict=True):
        monkeypatch.setattr(reading, name, value)
    found = 0
    for _ in range(120):
        query, cap = any_query(choose), choose([1, 5, 100])
        expected = [job.id for job in StoreReads.find_jobs(store, query._replace(limit=100)).jobs]
        assert pages(store, query) == expected, query
        assert store.count_jobs(query, cap) == Count(min(len(expected), cap), len(expected) <= cap), query
        found += len(expected)
    assert found > 100


def test_more_executors_than_can_be_merged_are_found_all_the_same(store, make_job, monkeypatch):
    monkeypatch.setattr(reading, "MAX_EXECUTORS", 2)
    store.add_jobs([
        make_job(f"job-{n}", due=NOW - (n % 3) * MINUTE if n % 4 else None, executor=f"executor-{n % 5}")
        for n in range(30)
    ])  # fmt: skip
    for query in (JobQuery(limit=7), JobQuery(sort="id", limit=7), JobQuery(state=JobState.PAUSED)):
        expected = [job.id for job in StoreReads.find_jobs(store, query._replace(limit=100)).jobs]
        assert pages(store, query) == expected
        assert store.count_jobs(query, 100) == Count(len(expected))


def test_a_search_that_gives_up_tells_where_it_goes_on(store, make_job, monkeypatch):
    store.add_jobs([make_job(f"job-{n:02}", due=NOW) for n in range(30)])
    for name, value in {"FEW_JOBS": 3, "MAX_SCANNED": 10, "PORTION": 4, "SEARCH_SECONDS": -1.0}.items():
        monkeypatch.setattr(reading, name, value)
    query, found, steps = JobQuery(text="job-2"), [], 0
    while not (page := store.find_jobs(query)).complete:
        assert page.next is not None
        found, query, steps = [*found, *page.jobs], query._replace(after=page.next), steps + 1
    assert [job.id for job in [*found, *page.jobs]] == [f"job-{n}" for n in range(20, 30)]
    assert steps > 3


def test_a_firing_of_a_recurring_job_changes_no_trait(store, make_job, requests, database):
    store.add_job(make_job("a", due=NOW, tags=["x", "y"]))
    traits = ["tag:x", "tag:y", "calls:goscheduler.testing.contract:nothing"]
    seen = [database.jobs.find_one({"_id": "a"})]
    for minute in range(2):
        (run,) = requests.fire(store, now=NOW + minute * MINUTE).runs
        seen.append(database.jobs.find_one({"_id": "a"}))
        store.settle([success(run)])
        seen.append(database.jobs.find_one({"_id": "a"}))
    owner, ended = f"owner:{run.owner}", "outcome:succeeded"
    assert [each["marks"] for each in seen] == [
        traits, [*traits, owner], [*traits, ended], [*traits, ended, owner], [*traits, ended]
    ]  # fmt: skip
    assert len({each["v"] for each in seen}) == 5
    assert {(each["state"], "search" in each) for each in seen} == {("scheduled", False)}


def test_words_are_kept_of_jobs_that_are_not_plain(store, make_job, database):
    names = {"plain": "Nightly", "quoted": 'a "b"', "böse": "x", "other": "É"}
    store.add_jobs([make_job(job_id, due=NOW, name=name) for job_id, name in names.items()])
    assert {row["_id"] for row in database.jobs.find({"search": {"$exists": True}})} == {"quoted", "böse", "other"}
    texts = {"NIGHT": "plain", 'A "': "quoted", "BÖ": "böse", "é": "other", "LAIN": "plain", '"name"': None}
    for text, job_id in texts.items():
        assert [job.id for job in store.find_jobs(JobQuery(text=text)).jobs] == ([job_id] if job_id else []), text
    store.edit_job("quoted", lambda job: copy_with(job, name="plain now"))
    assert "search" not in database.jobs.find_one({"_id": "quoted"})
    assert [job.id for job in store.find_jobs(JobQuery(text="N NOW")).jobs] == ["quoted"]


# Many jobs at once


def test_a_job_that_another_process_changes_meanwhile_is_edited_as_it_is_then(store, scheduler, space, make_job):
    peer = MongoDBJobStore.from_url(space.url, server_time=False)
    peer.start(scheduler, "default")
    store.add_jobs([make_job("a"), make_job("b")])
    seen = []

    def edit(job):
        if not seen:
            peer.edit_job("b", lambda other: copy_with(other, name="theirs"))
        seen.append((job.id, job.name))
        return copy_with(job, name=f"{job.name} and ours")

    assert len(store.edit_jobs(["a", "b"], edit).changed) == 2
    peer.shutdown()
    assert seen == [("a", "nothing"), ("b", "nothing"), ("b", "theirs")]
    assert [store.lookup_job(job_id).name for job_id in "ab"] == ["nothing and ours", "theirs and ours"]


def test_large_jobs_are_edited_in_messages_that_the_server_takes(store, make_job, monkeypatch):
    monkeypatch.setattr(editing, "MAX_BYTES", 20_000)
    store.add_jobs([make_job(f"job-{n}") for n in range(10)])
    sizes, write = [], store._writer.write
    monkeypatch.setattr(store._writer, "write", lambda changes: (sizes.append(len(changes)), write(changes))[1])
    ids = [f"job-{n}" for n in range(10)]
    assert len(store.edit_jobs(ids, lambda job: copy_with(job, args=("x" * 8000,))).changed) == 10
    assert sizes == [2] * 5
    assert {len(store.lookup_job(job_id).args[0]) for job_id in ids} == {8000}


def test_a_job_that_cannot_be_stored_is_refused_and_the_others_are_edited(store, make_job):
    store.add_jobs([make_job("a"), make_job("b")])
    edited = store.edit_jobs(["a", "b"], lambda job: copy_with(job, args=("x" * (9_000_000 if job.id == "a" else 9),)))
    assert [job.id for job in edited.changed] == ["b"]
    assert list(edited.refused) == ["a"]
    with pytest.raises(InvalidArgument):
        store.edit_job("a", lambda job: copy_with(job, args=("x" * 9_000_000,)))


# Version 1


def as_version_1(database):
    """Leave the collections as the version before has written them."""
    traits = {"$regex": "^(tag|calls|pause|outcome|executor):"}
    database.jobs.update_many({"here": True}, {"$unset": {"search": "", "state": ""}, "$pull": {"marks": traits}})
    for name in ("goscheduler_queue", "goscheduler_found"):
        database.jobs.drop_index(name)
    database.jobs.create_index("marks", name="goscheduler_marks", partialFilterExpression={"marks": {"$exists": True}})
    database.jobs.create_index([("due.executor", 1), ("due.at", 1)], name="goscheduler_due")
    database["jobs.meta"].update_one({"_id": "schema"}, {"$set": {"version": 1}})


def test_a_store_of_version_1_is_upgraded(store, scheduler, make_job, requests, database):
    fill(store, make_job, requests, random.Random(1).choice)
    queries = [JobQuery(), JobQuery(tag="x"), JobQuery(state=JobState.PAUSED), JobQuery(text="job", sort="id")]
    before = [pages(store, query) for query in queries]
    assert all(before)
    store.shutdown()
    as_version_1(database)
    store.start(scheduler, "default")
    assert [pages(store, query) for query in queries] == before
    assert not {"goscheduler_due", "goscheduler_marks"} & database.jobs.index_information().keys()
    assert database["jobs.meta"].find_one({"_id": "schema"}) == {"_id": "schema", "version": 2}
    assert requests.fire(store, now=NOW + 5 * MINUTE).runs


def test_an_upgrade_that_was_broken_off_is_finished_by_the_next_process(store, scheduler, make_job, database):
    store.add_jobs([make_job(f"job-{n}", tags=["x"]) for n in range(5)])
    store.shutdown()
    as_version_1(database)
    database["jobs.meta"].update_one({"_id": "schema"}, {"$set": {"version": 2, "upgrading": True}})
    store.start(scheduler, "default")
    assert len(store.find_jobs(JobQuery(tag="x")).jobs) == 5
    assert "upgrading" not in database["jobs.meta"].find_one({"_id": "schema"})


def test_an_upgrade_suspends_a_document_of_another_shape(store, scheduler, make_job, database):
    store.add_jobs([make_job("bad"), make_job("good")])
    store.shutdown()
    as_version_1(database)
    database.jobs.update_one({"_id": "bad"}, {"$set": {"runs": 5}})
    store.start(scheduler, "default")
    assert [job.id for job in store.find_jobs(JobQuery(state=JobState.SUSPENDED)).jobs] == ["bad"]
    assert [job.id for job in store.find_jobs(JobQuery(state=JobState.SCHEDULED)).jobs] == ["good"]


def test_owners_of_the_version_before_are_read(store, database):
    store._owners.renew(Owner("owner-1"), NOW, timedelta(seconds=30))
    database["jobs.owners"].update_many({}, {"$unset": {"report": ""}})
    (owner,) = store.owners(NOW)
    assert (owner.id, owner.report, owner.expires_at) == ("owner-1", "", NOW + timedelta(seconds=30))
