"""Places under limits in the MongoDB store, taken and given back by processes that come in between each other."""

from __future__ import annotations

from datetime import timedelta

import pymongo
import pytest
from mongodb_machine import MongoDBMachine

from goscheduler.jobstores.mongodb import MongoDBJobStore, limits, settling
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Outcome, OutcomeKind, Owner
from goscheduler.runs.transitions import asked_for, crashed, settle
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import MINUTE, NOW, JobMaker, Requests, succeeded
from goscheduler.testing.model_limits import limits_against_the_model
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.triggers.date import DateTrigger

LEASE = timedelta(hours=1)
TWO = Limit("api", concurrency=2)


@pytest.fixture
def scheduler():
    return ManualScheduler(clock=ManualClock(NOW))


@pytest.fixture
def space(mongodb, fresh):
    return fresh(mongodb)


@pytest.fixture
def stores(scheduler, space):
    """Three processes on the same collections."""
    stores = [MongoDBJobStore.from_url(space.url, server_time=False) for _ in range(3)]
    for number, each in enumerate(stores):
        each.start(scheduler, "default")
        each.renew_owner(Owner(f"owner-{number}"), NOW, LEASE)
    yield stores
    for each in stores:
        each.shutdown()


@pytest.fixture
def permits(space):
    """The documents of limits."""
    with pymongo.MongoClient(space.url) as client:
        yield client[space.name]["jobs.limits"]


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


@pytest.fixture
def requests():
    return Requests()


def come_between(monkeypatch, target, name, act):
    """Do something just before a step of another process."""
    step = getattr(target, name)

    def late(*args, **kwargs):
        monkeypatch.undo()
        act()
        return step(*args, **kwargs)

    monkeypatch.setattr(target, name, late)


def snoozed(run):
    return settle(run, Outcome(OutcomeKind.SNOOZED, started_at=NOW), NOW)


def runs_of(permits):
    return [place["run"] for row in permits.find() for place in row["places"]]


@pytest.mark.parametrize("step", ["fire", "claim"])
def test_a_process_that_was_too_late_for_a_run_gives_back_its_own_place_only(
    stores, make_job, requests, permits, monkeypatch, step
):
    store, peer, third = stores
    if step == "fire":
        store.add_job(make_job("a", due=NOW, trigger=DateTrigger(NOW), limits=TWO))
    else:
        store.add_run(asked_for(make_job("a", limits=TWO), "run-a", NOW))
    won = []
    act = lambda: won.extend(getattr(requests, step)(peer, owner="owner-1").runs)  # noqa: E731
    come_between(monkeypatch, store._context.writer, "write", act)
    assert getattr(requests, step)(store, owner="owner-0").runs == []
    assert runs_of(permits) == [run.id for run in won], "the place of the one that has the run"
    for name in "bcd":
        third.add_job(make_job(name, due=NOW, trigger=DateTrigger(NOW), limits=TWO))
    requests.fire(third, owner="owner-2")
    requests.claim(third, owner="owner-2")
    assert len(third.live_runs()) == 2


@pytest.mark.parametrize("way", ["settle", "recover", "retire"])
def test_a_process_that_is_late_with_a_place_leaves_that_of_the_next_claim(
    stores, make_job, requests, permits, monkeypatch, way
):
    store, peer, _ = stores
    store.add_run(asked_for(make_job("a", limits=TWO), "run-a", NOW))
    (run,) = requests.claim(store, owner="owner-0").runs
    ways = {
        "settle": lambda: store.settle([snoozed(run)]),
        "recover": lambda: store.recover_runs(NOW + LEASE, lambda run, host: crashed(run, NOW, host=host)),
        "retire": lambda: store.retire_owner("owner-0"),
    }
    if way == "recover":
        peer.renew_owner(Owner("owner-1"), NOW + LEASE, LEASE)
    won = []
    act = lambda: won.extend(requests.claim(peer, now=NOW + LEASE, owner="owner-1").runs)  # noqa: E731
    come_between(monkeypatch, settling, "release_and_unblock", act)
    ways[way]()
    assert [run.id for run in won] == ["run-a"]
    assert runs_of(permits) == ["run-a"]
    assert peer.settle([succeeded(won[0])]) == []
    assert runs_of(permits) == []


def test_a_place_that_was_found_without_a_run_is_given_back_without_that_of_the_next_claim(
    stores, make_job, requests, permits, monkeypatch
):
    store, peer, third = stores
    store.add_run(asked_for(make_job("a", limits=TWO), "run-a", NOW))
    take_and_end(store, requests, monkeypatch)
    won = []
    later = NOW + MINUTE
    act = lambda: won.extend(requests.claim(peer, now=later, owner="owner-1").runs)  # noqa: E731
    come_between(monkeypatch, limits, "release_permits", act)
    third.recover_runs(later, None)
    assert [run.id for run in won] == runs_of(permits) == ["run-a"]


def test_a_place_of_a_claim_that_was_not_written_is_given_back_although_another_has_the_run(
    stores, make_job, requests, permits, monkeypatch
):
    store, peer, third = stores
    store.add_run(asked_for(make_job("a", limits=TWO), "run-a", NOW))
    take_and_end(store, requests, monkeypatch)
    (run,) = requests.claim(peer, owner="owner-1").runs
    assert runs_of(permits) == ["run-a", "run-a"]
    third.recover_runs(NOW + MINUTE, None)
    assert runs_of(permits) == ["run-a"]
    assert peer.settle([succeeded(run)]) == []
    assert runs_of(permits) == []


def test_all_runs_may_go_for_which_places_are_found_that_nobody_has(stores, make_job, requests, permits, monkeypatch):
    store, peer, third = stores
    for name in "ab":
        store.add_run(asked_for(make_job(name, limits=TWO), f"run-{name}", NOW))
    take_and_end(store, requests, monkeypatch)
    assert requests.claim(peer, owner="owner-1").runs == [], "all places are taken"
    third.recover_runs(NOW + MINUTE, None)
    assert len(requests.claim(peer, now=NOW + MINUTE, owner="owner-1").runs) == 2


@pytest.mark.parametrize("way", ["settle", "recover", "retire", "tidy"])
@pytest.mark.parametrize("kind", ["fired", "claimed"])
def test_a_place_that_an_earlier_version_has_taken_is_given_back(stores, make_job, requests, permits, kind, way):
    store, peer, _ = stores
    job = make_job("a", due=NOW, trigger=DateTrigger(NOW), limits=TWO)
    if kind == "fired":
        store.add_job(job)
        (run,) = requests.fire(store, owner="owner-0").runs
    else:
        store.add_run(asked_for(job, "run-a", NOW))
        (run,) = requests.claim(store, owner="owner-0").runs
    permits.update_many({}, {"$unset": {"places.$[].by": ""}})
    if way == "settle":
        store.settle([succeeded(run)])
    elif way == "recover":
        peer.recover_runs(NOW + LEASE, lambda run, host: crashed(run, NOW, host=host))
    elif way == "retire":
        store.retire_owner("owner-0")
    else:
        store._collections.jobs.delete_one({"_id": "a"})
        peer.recover_runs(NOW + MINUTE, None)
    assert runs_of(permits) == []


@pytest.mark.timeout(300)
class TestLimitsAgainstTheModel(limits_against_the_model(MongoDBMachine, examples=3)):
    @pytest.fixture(autouse=True)
    def _permit(self, mongodb, fresh):
        MongoDBMachine.url = fresh(mongodb).url


def take_and_end(store, requests, monkeypatch):
    """Let a process take places for all that waits, and end before it has claimed anything."""
    with monkeypatch.context() as patch:
        patch.setattr(store._context.writer, "_send", ended)
        assert isinstance(store.claim_runs(requests._request(NOW, owner="owner-0")).error, Ended)


class Ended(pymongo.errors.AutoReconnect):
    """Raised where a process is to end."""


def ended(*args):
    raise Ended("ended here")


def test_of_the_runs_that_wait_for_a_limit_the_one_that_was_due_first_has_the_turn(stores, make_job, requests):
    store, *_ = stores
    for name, waited in (("live", 9), ("a", 1), ("b", 3), ("c", 2)):
        job = make_job(name, limits=Limit("api", concurrency=1))
        store.add_run(asked_for(job, f"run-{name}", NOW - waited * MINUTE))
    order = []
    while runs := requests.claim(store, owner="owner-0").runs:
        (run,) = runs
        order.append(run.job.id)
        store.settle([succeeded(run)])
    assert order == ["live", "b", "c", "a"]


def test_a_run_that_an_earlier_version_has_held_has_its_turn(stores, make_job, requests, space):
    store, *_ = stores
    for name in "ab":
        store.add_run(asked_for(make_job(name, limits=Limit("api", concurrency=1)), f"run-{name}", NOW))
    (live,) = requests.claim(store, owner="owner-0").runs
    with pymongo.MongoClient(space.url) as client:
        client[space.name]["jobs"].update_one({"_id": "b"}, {"$set": {"marks": ["held:limit:api"]}})
    store.settle([succeeded(live)])
    assert [run.id for run in requests.claim(store, owner="owner-0").runs] == ["run-b"]


@pytest.mark.parametrize("jobs", ["aaaa", "abcd"], ids=["of one job", "of several jobs"])
def test_a_turn_that_a_run_cannot_use_is_passed_on_at_once(stores, make_job, requests, jobs):
    store, *_ = stores
    limits = [Limit("one", concurrency=1), Limit("rare", rate="1/1h")]
    for number, name in enumerate(jobs):
        job = make_job(name, limits=limits, overlap="queue")
        store.add_run(asked_for(job, f"run-{number}", NOW - number * MINUTE))
    (live,) = requests.claim(store, owner="owner-0").runs
    store.settle([succeeded(live)])
    assert requests.claim(store, owner="owner-0").runs == []
    waiting = store.pending_runs()
    assert len(waiting) == 3
    assert all(run.due_at > NOW for run in waiting), "each of them knows that it has to wait for the rate"
