"""Jobs of MongoDB that fire for the last time, while other processes have to do with them too."""

from __future__ import annotations

import pytest
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.jobstores.mongodb.documents import indexed
from goscheduler.runs.transitions import asked_for, called_off
from goscheduler.testing.contract import MINUTE, NOW, Requests, failed, in_threads, succeeded
from goscheduler.triggers.date import DateTrigger


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
def fire(store, make_job, requests):
    """Return a function that fires jobs for the last time, and returns their runs."""

    def fired(*ids, **options):
        store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW), **options) for job_id in ids])
        return sorted(requests.fire(store).runs, key=lambda run: run.job.id)

    return fired


@pytest.mark.parametrize("order", [(2, 0), (0, 2)])
def test_the_end_of_a_run_whose_document_others_have_changed_is_applied_whatever_else_ends_with_it(
    store, peer, fire, order
):
    runs = fire(*"abc")
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
        monkeypatch.setattr(store._context.writer, "edit", with_nothing_read_first(store._context.writer))
    add(store, make_job("a", due=NOW, trigger=DateTrigger(NOW)))
    assert others == []
    requests.fire(store, owner="owner-2")
    requests.claim(store, owner="owner-2")
    assert len(store.live_runs("a")) == 1, "no more than may be live at once"


def with_nothing_read_first(writer):
    """Return ``writer.edit`` that takes a job at first for one that there is not."""
    edit = writer.edit

    def edit_blindly(job_id, change, notify=True):
        after = change(None)
        return after if writer._write_one(job_id, None, indexed(after), notify) else edit(job_id, change, notify)

    return edit_blindly


def test_a_retry_of_a_run_whose_job_was_added_again_is_not_lost(store, peer, fire, make_job):
    runs = fire(*"abc", retry=3)
    peer.add_job(make_job("a", due=NOW + MINUTE, retry=3))
    assert store.settle([succeeded(runs[1])]) == []
    assert store.settle([succeeded(runs[2]), failed(runs[0])]) == []
    assert store.live_runs() == []
    assert [run.attempt for run in store.pending_runs("a")] == [2]


def test_what_is_known_of_a_run_is_forgotten_when_its_end_was_not_heard_of(store, fire, monkeypatch):
    runs = fire(*"abc")
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


def test_a_run_is_settled_by_somebody_who_has_not_fired_it(store, peer, fire):
    runs = fire(*"abc")
    assert peer.settle([succeeded(run) for run in runs[:2]]) == []
    assert store.settle([succeeded(run) for run in runs]) == [succeeded(run) for run in runs[:2]]
    assert store.live_runs() == []


def test_nothing_follows_a_live_run_whose_job_is_forgotten(store, peer, fire):
    runs = fire(*"abc", retry=3)
    peer.forget_job("a")
    store.settle([failed(run) for run in runs])
    assert sorted(run.job.id for run in store.pending_runs()) == ["b", "c"]


def test_of_many_that_fire_the_same_jobs_each_is_fired_by_one(store, peer, make_job, requests):
    store.add_jobs([make_job(f"job-{n}", due=NOW, trigger=DateTrigger(NOW)) for n in range(200)])
    fired = in_threads([lambda place=place: requests.fire(place) for place in (store, peer) * 4])
    ran = sorted(run.job.id for result in fired for run in result.runs)
    assert ran == sorted(f"job-{n}" for n in range(200))
    assert len({run.id for run in store.live_runs()}) == 200


def test_a_job_that_somebody_changes_meanwhile_does_not_keep_the_others_from_firing(
    store, peer, make_job, requests, monkeypatch
):
    store.add_jobs([make_job(job_id, due=NOW, trigger=DateTrigger(NOW)) for job_id in "abc"])
    write = store._writer.write

    def write_late(*args):
        peer.update_job(make_job("b", due=NOW + MINUTE, trigger=DateTrigger(NOW + MINUTE)))
        return write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(store._writer, "write", write_late)
        assert sorted(run.job.id for run in requests.fire(store).runs) == ["a", "c"]
    assert store.lookup_job("b").next_run_time == NOW + MINUTE


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
