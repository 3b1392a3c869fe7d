"""Flights of MongoDB when several processes have to do with one, or when one of them does not come to an end."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pymongo import _csot
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from goscheduler.jobstores.mongodb import MongoDBJobStore, connecting, firing
from goscheduler.jobstores.mongodb import packed_runs as flights
from goscheduler.jobstores.mongodb.documents import indexed
from goscheduler.runs.model import Owner
from goscheduler.runs.transitions import asked_for, called_off, crashed
from goscheduler.testing.contract import MINUTE, NOW, Requests, failed, succeeded
from goscheduler.triggers.date import DateTrigger


@pytest.fixture(autouse=True)
def _one_is_worth_it(monkeypatch):
    monkeypatch.setattr(flights, "FEWEST", 1)


@pytest.fixture
def space(mongodb, fresh):
    return fresh(mongodb)


@pytest.fixture
def store(space, opened):
    return opened(MongoDBJobStore.from_url(space.url, server_time=False))


@pytest.fixture
def peer(space, opened):
    return opened(MongoDBJobStore.from_url(space.url, server_time=False))


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture
def fly(store, make_job, requests):
    def fired(*ids, **options):
        store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW), **options) for job_id in ids])
        return sorted(requests.fire(store).runs, key=lambda run: run.job.id)

    return fired


@pytest.mark.parametrize("order", [(2, 0), (0, 2)])
def test_the_end_of_a_run_that_landed_is_applied_whatever_else_ends_with_it(store, peer, fly, order):
    runs = fly(*"abc")
    peer.cancel_run(runs[0].id, "enough", lambda run: called_off(run, "enough", NOW))
    assert store.settle([succeeded(runs[1])]) == []
    assert store.settle([succeeded(runs[n]) for n in order]) == []
    assert store.live_runs() == []


ADDING = {
    "add_job": lambda store, job: store.add_job(job),
    "add_jobs": lambda store, job: store.add_jobs([job]),
    "run_now": lambda store, job: store.add_run(asked_for(job, "asked", NOW)),
}


@pytest.mark.parametrize("add", ADDING.values(), ids=ADDING)
def test_who_adds_a_job_in_the_moment_in_which_another_fires_it_for_the_last_time_knows_of_its_run(
    store, peer, make_job, requests, monkeypatch, add
):
    job = make_job("a", due=NOW, trigger=DateTrigger(NOW))
    peer.add_job(job)
    others = [peer]
    for step in ("insert_one", "insert_many"):
        take = getattr(Collection, step)

        def fire_first(self, *args, take=take, **options):
            if others:
                assert requests.fire(others.pop()).runs
            return take(self, *args, **options)

        monkeypatch.setattr(Collection, step, fire_first)
    if add is ADDING["run_now"]:  # which finds no job: it was removed a moment ago, and added again by the other
        monkeypatch.setattr(store._work.writer, "edit", with_nothing_read_first(store._work.writer))
    add(store, make_job("a", due=NOW, trigger=DateTrigger(NOW)))
    assert others == []
    requests.fire(store, owner="owner-2")
    requests.claim(store, owner="owner-2")
    assert len(store.live_runs("a")) == 1, "no more than may be live at once"


def with_nothing_read_first(writer):
    """Return ``writer.edit`` that takes a job at first for one that there is not."""
    edit = writer.edit

    def edit_blindly(job_id, change, call=True):
        after = change(None)
        return after if writer._write_one(job_id, None, indexed(after), call) else edit(job_id, change, call)

    return edit_blindly


def test_a_retry_of_a_run_that_landed_is_not_lost(store, peer, fly, make_job):
    runs = fly(*"abc", retry=3)
    peer.add_job(make_job("a", due=NOW + MINUTE, retry=3))
    assert store.settle([succeeded(runs[1])]) == []
    assert store.settle([succeeded(runs[2]), failed(runs[0])]) == []
    assert store.live_runs() == []
    assert [run.attempt for run in store.pending_runs("a")] == [2]


def test_what_is_known_of_a_run_is_forgotten_when_its_end_was_not_heard_of(store, fly, monkeypatch):
    runs = fly(*"abc")
    write = store._writer.__class__._send

    def lose(self, changes):
        write(self, changes)
        raise AutoReconnect("lost")

    with monkeypatch.context() as patch:
        patch.setattr(store._writer.__class__, "_send", lose)
        with pytest.raises(AutoReconnect):
            store.settle([succeeded(run) for run in runs])
    assert store.settle([succeeded(run) for run in runs]) == []
    assert store._writer.known == {}


def test_a_process_that_is_killed_while_it_takes_off_does_not_hold_up_the_others(
    space, peer, make_job, requests, monkeypatch
):
    peer.add_jobs([make_job(f"j{n}", due=NOW, trigger=DateTrigger(NOW)) for n in range(6)])
    monkeypatch.setattr(firing, "PATIENCE", 0.5)
    with subprocess.Popen([sys.executable, "-c", TAKING_OFF, space.url], stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout.readline() == "deleted\n"
        victim.kill()
    fired = peer.fire_due(requests._request(NOW, owner="owner-2"))
    assert fired.error is None
    assert sorted(run.job.id for run in fired.runs) == [f"j{n}" for n in range(6)]


TAKING_OFF = """
import sys, threading
from datetime import timedelta
from pymongo.collection import Collection
from goscheduler.jobstores.mongodb import packed_runs as flights
from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.runs.model import Owner
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, Requests
from goscheduler.testing.scheduler import ManualScheduler

flights.FEWEST = 1
store = MongoDBJobStore.from_url(sys.argv[1], server_time=False)
store.start(ManualScheduler(clock=ManualClock(NOW)), "default")
store.renew_owner(Owner("owner-1", "here", 1, NOW, (), ()), NOW, timedelta(minutes=1))
insert = Collection.insert_many

def hang(self, *args, **options):
    if options.get("session") is None:
        return insert(self, *args, **options)
    print("deleted", flush=True)
    threading.Event().wait()

Collection.insert_many = hang
store.fire_due(Requests()._request(NOW))
"""


def test_a_landing_that_somebody_was_killed_in_does_not_hold_up_the_others(store, peer, fly, monkeypatch):
    runs = fly(*"abc")
    monkeypatch.setattr(flights, "IN_VAIN", 2)
    store.renew_owner(Owner("owner-3", "here", 1, NOW, (), ()), NOW, MINUTE)
    left_open = store._work.flights._transaction()
    session = left_open.__enter__()
    store._collections.jobs.update_many({"marks": "flight"}, {"$set": {"v": "touched"}}, session=session)
    assert peer.cancel_run(runs[0].id, "enough", lambda run: called_off(run, "enough", NOW)).id == runs[0].id
    left_open.gen.close()


def test_what_was_broken_once_does_not_pile_up(store, make_job, requests):
    store.add_job(make_job("a", due=NOW))
    store._collections.jobs.update_one({"_id": "a"}, {"$set": {"runs": 5}})
    requests.fire(store)
    store.update_job(make_job("a", due=NOW))
    assert store.suspensions() == {}
    for n in range(1, 4):
        runs = requests.fire(store, now=NOW + n * MINUTE).runs
        assert len(runs) == 1
        assert store.settle([succeeded(run) for run in runs]) == []
    assert store._writer.known == {}


def test_runs_land_for_a_client_that_prefers_to_read_elsewhere(space, opened, make_job, requests):
    url = space.url + ("&" if "?" in space.url else "?") + "readPreference=secondaryPreferred"
    store, peer = (opened(MongoDBJobStore.from_url(url, server_time=False)) for _ in range(2))
    store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW)) for job_id in "abc"])
    runs = requests.fire(store).runs
    assert len(runs) == 3
    peer.cancel_run(runs[0].id, "enough", lambda run: called_off(run, "enough", NOW))
    assert store.settle([succeeded(run) for run in runs]) == []
    assert store.live_runs() == []


def test_a_run_that_lands_while_runs_are_listed_is_listed_once(store, peer, make_job, requests, monkeypatch, fly):
    runs = fly(*"abc")
    monkeypatch.setattr(flights, "FEWEST", 10_000)
    store.add_jobs([make_job(f"j{n:03}", due=NOW, trigger=DateTrigger(NOW)) for n in range(150)])
    assert len(requests.fire(store).runs) == 150
    read, landed = store._runs_at_hand._read, []

    def read_slowly(entry, document):
        if not landed:
            landed.append(peer.cancel_run(runs[0].id, "enough", lambda run: called_off(run, "enough", NOW)))
        return read(entry, document)

    monkeypatch.setattr(store._runs_at_hand, "_read", read_slowly)
    found = [run.id for run in store.live_runs()]
    assert landed
    assert len(found) == len(set(found))


def test_a_take_off_that_runs_out_of_time_holds_up_nobody(store, peer, make_job, requests, monkeypatch):
    store.add_jobs([make_job(f"j{n}", due=NOW, trigger=DateTrigger(NOW)) for n in range(5)])
    peer.fire_due(requests._request(NOW - MINUTE))
    insert = Collection.insert_many

    def slow(self, *args, **options):
        if options.get("session") is not None:
            pass_deadline()
        return insert(self, *args, **options)

    with monkeypatch.context() as patch:
        store.fire_due(requests._request(NOW - MINUTE))
        patch.setattr(Collection, "insert_many", slow)
        assert store.fire_due(requests._request(NOW)).error is not None
    monkeypatch.setattr(firing, "PATIENCE", connecting.CALL)  # nobody has to lose it
    assert len(requests.fire(peer, owner="owner-2").runs) == 5


def test_a_commit_for_which_there_is_no_time_holds_up_nobody(store, peer, make_job, requests, monkeypatch):
    store.add_jobs([make_job(f"j{n}", due=NOW, trigger=DateTrigger(NOW)) for n in range(5)])
    peer.fire_due(requests._request(NOW - MINUTE))
    commit = ClientSession.commit_transaction
    late = []

    def slow(self):
        if not late:
            late.append(pass_deadline())
        return commit(self)

    with monkeypatch.context() as patch:
        store.fire_due(requests._request(NOW - MINUTE))
        patch.setattr(ClientSession, "commit_transaction", slow)
        mine = store.fire_due(requests._request(NOW)).runs
    theirs = requests.fire(peer, owner="owner-2").runs
    assert sorted(run.job.id for run in (*mine, *theirs)) == [f"j{n}" for n in range(5)]
    assert len(store.live_runs()) == 5


def pass_deadline():
    """Leave the call that goes on no more time."""
    _csot.DEADLINE.set(0.0)


def test_a_landing_step_by_step_that_was_broken_off_doubles_no_run(store, peer, fly, requests, monkeypatch):
    fly(*"ab")
    peer._work.flights.possible = False
    write = peer._work.flights._write

    def broken_off(changes, session):
        write([change for change in changes if not change.before], session)
        raise AutoReconnect("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(peer._work.flights, "_write", broken_off)
        with pytest.raises(AutoReconnect):
            peer.recover_runs(NOW, lambda run, host="": crashed(run, NOW, host=host))
    peer.recover_runs(NOW, lambda run, host="": crashed(run, NOW, host=host))
    rows = list(store._collections.jobs.find({"here": False, "runs": {"$exists": True}}))
    assert sorted(entry["id"] for row in rows for entry in row["runs"]) == ["run-1", "run-2"]
