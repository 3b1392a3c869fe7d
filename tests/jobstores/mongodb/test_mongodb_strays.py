"""Runs of the MongoDB store that are held, and that nobody would let try again: somebody was killed halfway."""

from __future__ import annotations

import logging

import pytest

from goscheduler.jobstores.mongodb import MongoDBJobStore, firing
from goscheduler.jobstores.mongodb.limits import LimitPermits
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Owner
from goscheduler.runs.transitions import asked_for
from goscheduler.schedulers import _housekeeping
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, Requests, nothing, succeeded
from goscheduler.testing.contract_owners import LEASE, lost
from goscheduler.testing.scheduler import ManualScheduler

ONE = Limit("few", concurrency=1)
TWO = Limit("few", concurrency=2)


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture
def url(url_of):
    return url_of("mongodb")


@pytest.fixture
def store(url, opened):
    return opened(MongoDBJobStore.from_url(url, server_time=False))


@pytest.fixture
def other(url, opened):
    """Another process."""
    return opened(MongoDBJobStore.from_url(url, server_time=False))


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture
def jobs(store):
    """The documents of jobs."""
    return store._collections.jobs


@pytest.fixture
def wait(store, make_job):
    """Return a function that adds runs of different jobs under a limit."""

    def add(count, limits=ONE, **options):
        for number in range(count):
            store.add_run(asked_for(make_job(f"job-{number}", limits=limits, **options), f"run-{number}", NOW))

    return add


@pytest.fixture
def killed_before(monkeypatch):
    """Return a function that has a process die in a step."""

    def during(target, name, act):
        def die(*args):
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(target, name, die)
            with pytest.raises(Killed):
                act()

    return during


def put_back(store, limit=1000):
    """Return the ids of all that was put back while everything was looked at once."""
    ids = []
    while True:
        found = store.requeue_orphans(limit)
        ids += found.ids
        if not found.more:
            return ids


def ids_of(claimed):
    return [run.id for run in claimed.runs]


def spoil(jobs, job_id, number=0):
    """Make a run unreadable."""
    jobs.update_one({"_id": job_id}, {"$set": {f"runs.{number}.text": "{", "v": "by hand"}})


# Held under a limit


def test_a_run_that_waits_for_a_place_that_was_given_back_is_let_try(store, wait, requests, killed_before):
    wait(2)
    (live,) = requests.claim(store).runs
    killed_before(firing, "unblock_next", lambda: store.settle([succeeded(live)]))
    assert not requests.claim(store).runs
    assert put_back(store) == ["run-1"]
    assert ids_of(requests.claim(store)) == ["run-1"]
    assert put_back(store) == []


def test_a_run_that_is_held_when_the_last_one_has_just_ended_is_let_try(
    store, other, wait, requests, killed_before, monkeypatch
):
    wait(2)
    (live,) = requests.claim(store, room={"default": 1}).runs
    write = other._writer.write

    def write_late(*args):
        store.settle([succeeded(live)])
        return write(*args)

    monkeypatch.setattr(other._writer, "write", write_late)
    killed_before(LimitPermits, "freed_limits", lambda: requests.claim(other, owner="owner-2"))
    monkeypatch.undo()
    assert not requests.claim(store).runs
    assert put_back(store) == ["run-1"]
    assert ids_of(requests.claim(store)) == ["run-1"]


def test_no_more_are_let_try_than_there_are_places(store, wait, requests, killed_before):
    wait(6, TWO)
    live = requests.claim(store).runs
    assert len(live) == 2
    killed_before(firing, "unblock_next", lambda: store.settle([succeeded(live[0])]))
    assert len(put_back(store)) == 1
    (third,) = requests.claim(store).runs
    killed_before(firing, "unblock_next", lambda: store.settle([succeeded(live[1]), succeeded(third)]))
    assert len(put_back(store, 1)) == 2, "also if each look takes one of them"
    assert len(requests.claim(store).runs) == 2


def test_a_run_that_is_rightly_held_is_left_alone(store, wait, requests, jobs):
    wait(3)
    requests.claim(store)
    before = list(jobs.find().sort("_id", 1))
    assert put_back(store) == []
    assert list(jobs.find().sort("_id", 1)) == before


def test_a_run_whose_place_was_given_back_a_moment_ago_is_left_to_the_one_who_did(store, other, wait, requests):
    wait(2)
    (live,) = requests.claim(store).runs
    step = firing.unblock_next
    store_free = []

    def look_first(*args):
        store_free.append(other.requeue_orphans(1000))
        return step(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(firing, "unblock_next", look_first)
        store.settle([succeeded(live)])
    (seen,) = store_free
    assert (seen.ids, seen.more) == ([], True)
    assert put_back(other) == []
    assert ids_of(requests.claim(store)) == ["run-1"]


def test_a_place_that_was_taken_between_two_looks_is_not_given_to_another(store, wait, requests, killed_before):
    wait(2)
    (live,) = requests.claim(store).runs
    killed_before(firing, "unblock_next", lambda: store.settle([succeeded(live)]))
    assert store.requeue_orphans(1000).more
    wait(1)  # run-0 again, which comes first now
    assert ids_of(requests.claim(store)) == ["run-0"]
    assert put_back(store) == []


def test_a_turn_that_nobody_can_take_is_passed_on_and_nothing_is_said_of_it(store, make_job, requests):
    for number, executor in enumerate(["default", "busy", "default"]):
        store.add_run(asked_for(make_job(f"job-{number}", executor=executor, limits=ONE), f"run-{number}", NOW))
    (live,) = requests.claim(store, room={"default": 1}).runs
    requests.claim(store, room={"busy": 1})
    requests.claim(store)
    store.settle([succeeded(live)])
    assert not requests.claim(store).runs, "it is the turn of the run for which there is no room"
    assert put_back(store) == []
    assert ids_of(requests.claim(store)) == ["run-2"]


def test_an_unreadable_run_passes_its_turn_on(store, wait, requests, jobs):
    wait(3)
    (live,) = requests.claim(store).runs
    spoil(jobs, "job-1")
    store.settle([succeeded(live)])
    assert ids_of(requests.claim(store)) == ["run-2"], "within the same claim"


# Held behind a run of the same job


@pytest.fixture
def two_of_one_job(store, make_job, requests):
    """One live run, and one that is held behind it."""
    store.renew_owner(Owner("owner-1"), NOW, LEASE)
    for number in range(2):
        store.add_run(asked_for(make_job("job"), f"run-{number}", NOW))
    (live,) = requests.claim(store).runs
    assert live.id == "run-0"


@pytest.mark.usefixtures("two_of_one_job")
def test_what_waits_behind_a_run_that_cannot_be_read_goes_on_when_that_is_set_aside(store, requests, jobs):
    spoil(jobs, "job")
    assert store.recover_runs(NOW + 2 * LEASE, lost) == []
    assert ids_of(requests.claim(store, owner="owner-2")) == ["run-1"]


@pytest.mark.usefixtures("two_of_one_job")
def test_a_run_that_waits_behind_none_of_its_job_is_let_try(store, requests, jobs):
    assert put_back(store) == [], "it is rightly held"
    jobs.update_one({"_id": "job"}, {"$pull": {"runs": {"id": "run-0"}}, "$set": {"v": "by hand"}})
    assert not requests.claim(store).runs
    assert put_back(store) == ["run-1"]
    assert ids_of(requests.claim(store)) == ["run-1"]


def test_a_document_that_somebody_has_spoilt_does_not_hold_up_the_others(store, wait, requests, jobs, killed_before):
    wait(3)
    (live,) = requests.claim(store).runs
    jobs.update_one({"_id": "job-1"}, {"$set": {"runs": ["held"], "v": "by hand"}})
    jobs.update_one({"_id": "job-1"}, {"$set": {"marks": ["held:limit:few"]}})
    killed_before(firing, "unblock_next", lambda: store.settle([succeeded(live)]))
    assert put_back(store) == ["run-2"]


def test_a_scheduler_looks_by_itself(url, killed_before, caplog):
    store = MongoDBJobStore.from_url(url, server_time=False)
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}) as scheduler:
        scheduler.add_job(nothing, "interval", days=1, id="job", limits=ONE)
        scheduler.run_now("job")
        (document,) = store._collections.jobs.find({"_id": "job"})
        blocked = [{**document["runs"][0], "held": "limit:few"}]
        store._writer.write([firing.Change(document, firing.with_runs(document, blocked))])
        with caplog.at_level(logging.WARNING, "goscheduler"):
            scheduler.advance(_housekeeping.STRAYS_INTERVAL + 10)
        assert [record.outcome.value for record in scheduler.runs("job")] == ["succeeded"]
    assert "1 jobs or runs that no queue listed" in caplog.text
