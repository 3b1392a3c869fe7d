"""What people ask of the stores on etcd and ZooKeeper: copies that follow the server, and notes, on real servers."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.errors import StoreUnavailable
from goscheduler.job import copy_with
from goscheduler.jobstores._keyvalue import etcd_mirror, history, jobs
from goscheduler.jobstores._keyvalue.server import (
    Span,
    Transaction,
    decode_text_descending,
    encode_text_descending,
    escape,
)
from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.runs.model import JobState, OutcomeKind, Owner
from goscheduler.runs.queries import Count, JobQuery, Note
from goscheduler.runs.records import HistoryQuery
from goscheduler.testing import ManualScheduler
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import JobMaker, Requests, failed, succeeded

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
STORES = {"etcd": EtcdJobStore, "zookeeper": ZooKeeperJobStore}


@pytest.fixture(params=STORES)
def kind(request):
    return request.param


@pytest.fixture
def scheduler():
    return ManualScheduler(clock=ManualClock(NOW))


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture
def start(kind, shared_server, fresh, opened):
    """Return a function that starts another store in the same place."""
    space = fresh(shared_server(kind))
    return lambda **options: opened(STORES[kind](url=f"{space.url}/{space.name}", **options))


@pytest.fixture
def store(start):
    return start()


@pytest.fixture
def peer(start):
    return start()


def found(store, **filters):
    return [job.id for job in store.find_jobs(JobQuery(sort="id", limit=1000, **filters)).jobs]


# Copies


def test_what_another_process_changes_is_found_at_once(store, peer, make_job, requests):
    assert found(store) == []
    peer.add_jobs([make_job(job_id, due=NOW + MINUTE) for job_id in "abcd"])
    assert found(store) == ["a", "b", "c", "d"]
    peer.edit_job("b", lambda job: copy_with(job, tags=["t"], next_run_time=None))
    assert found(store, tag="t") == found(store, state=JobState.PAUSED) == ["b"]
    peer.remove_job("a")
    assert found(store) == ["b", "c", "d"]
    peer.remove_job("c")
    peer.add_job(make_job("c", due=NOW, name="another"))
    assert found(store, text="another") == ["c"]
    (run,) = requests.fire(peer).runs
    assert found(store, state=JobState.RUNNING) == ["c"]
    peer.settle([failed(run)])
    assert found(store, state=JobState.RUNNING) == []
    assert found(store, last_outcome=OutcomeKind.FAILED) == ["c"]
    assert [job.stats.run_count for job in store.find_jobs(JobQuery(sort="id")).jobs] == [0, 1, 0]
    (run,) = requests.fire(peer, now=NOW + 9 * MINUTE, room={"default": 1}).runs
    peer.settle([succeeded(run)])
    assert found(store, last_outcome=OutcomeKind.SUCCEEDED) == [run.job.id]
    peer.remove_all_jobs()
    assert found(store) == []
    assert store.count_jobs(JobQuery(), 10) == Count(0)


def test_what_goes_among_many_is_missed_where_it_was(store, peer, make_job, monkeypatch):
    monkeypatch.setattr(etcd_mirror, "PARTS", 5)
    monkeypatch.setattr(etcd_mirror, "VALUES_PER_READ", 7)
    monkeypatch.setattr(etcd_mirror, "NAMES_PER_READ", 3)
    names = [f"job-{number:02}" for number in range(40)]
    peer.add_jobs([make_job(name) for name in names])
    assert found(store) == names
    for gone, new in (("job-00", "aaa"), ("job-20", "job-205"), ("job-39", "zzz"), ("aaa", "job-00")):
        peer.remove_job(gone)
        peer.add_job(make_job(new))
        names = sorted({*names, new} - {gone})
        assert found(store) == names
    peer.remove_jobs(names[3:30])
    assert found(store) == names[:3] + names[30:]


def test_jobs_that_are_found_belong_to_who_asks(store, make_job):
    store.add_job(make_job("a"))
    (first,) = store.find_jobs(JobQuery()).jobs
    first.name, first.stats = "changed", first.stats._replace(run_count=99)
    (second,) = store.find_jobs(JobQuery()).jobs
    assert (second.name, second.stats.run_count) == ("nothing", 0)


def test_a_job_that_cannot_be_read_is_found_as_suspended(store, make_job):
    store.add_job(make_job("a"))
    assert store._server.commit(Transaction().replace(("jobs", "a"), "no job"))
    (job,) = store.find_jobs(JobQuery(state=JobState.SUSPENDED)).jobs
    assert (job.id, "cannot be read" in job.suspended) == ("a", True)


def test_records_of_a_run_are_found_as_they_come_and_go(store, peer, make_job, requests):
    peer.add_job(make_job("a", due=NOW))
    for number in range(3):
        (run,) = requests.fire(peer, now=NOW + number * MINUTE).runs
        assert store.attempts(run.id) == []
        peer.settle([succeeded(run, NOW + number * MINUTE)])
        assert [record.run_id for record in store.attempts(run.id, "a")] == [run.id]
    (name, *_) = peer._server.names([Span(("history",))])[0]
    assert peer._server.commit(Transaction().delete(("history", name)))
    assert store.attempts(run.id) == []


def test_records_of_a_job_are_found_behind_many_of_others(store, peer, make_job, requests, monkeypatch):
    monkeypatch.setattr(history, "FEWEST_NAMES", 2)
    monkeypatch.setattr(history, "NAMES_BEFORE_COPY", 4)
    peer.add_jobs([make_job(f"job-{number}", due=NOW + number * MINUTE) for number in range(10)])
    for number in range(10):
        runs = [run for run in requests.fire(peer, now=NOW + number * MINUTE).runs if run.job.id != "job-0"]
        peer.settle([succeeded(run, NOW + number * MINUTE) for run in runs])
    for job_id in ("job-1", "job-1", "job-9", "job-0"):
        expected = [record for record in store.history(HistoryQuery(limit=100)) if record.job_id == job_id]
        records = store.history(HistoryQuery(job_id, limit=4))
        assert records == expected[:4]
        if len(expected) > 4:
            rest = store.history(HistoryQuery(job_id, limit=4, before=records[-1].position))
            assert rest == expected[4:8]


def test_dead_letters_come_and_go(store, peer, make_job, requests):
    peer.add_jobs([make_job(job_id, due=NOW, dead_letter=True) for job_id in "ab"])
    runs = {run.job.id: run for run in requests.fire(peer).runs}
    for number, job_id in enumerate("ab"):
        peer.settle([failed(runs[job_id], NOW + number * MINUTE)])
        assert [group.size for group in store.letter_groups(HistoryQuery())] == [number + 1]
    assert peer.take_dead_letter(runs["a"].id)
    assert [letter.run.id for letter in store.dead_letters(HistoryQuery())] == [runs["b"].id]
    assert store.dead_letter(runs["a"].id) is None


def test_a_copy_that_could_not_be_brought_up_to_date_is_made_anew(store, peer, make_job, monkeypatch):
    store.add_jobs([make_job("a"), make_job("b")])
    assert found(store) == ["a", "b"]
    peer.remove_job("a")
    peer.edit_job("b", lambda job: copy_with(job, tags=["t"]))

    def no_answer(*args):
        raise StoreUnavailable("no answer")

    (stats,) = [copy for copy in store._index._copies if getattr(copy, "_folder", None) == ("lives",)]
    with monkeypatch.context() as patch:
        patch.setattr(stats, "refresh", no_answer)  # what the other copy has taken over is lost with it
        with pytest.raises(StoreUnavailable):
            found(store, last_outcome=OutcomeKind.FAILED)
    assert found(store) == found(store, tag="t") == ["b"]


def test_a_server_that_was_away_is_followed_again(kind, private_server, opened, make_job):
    server = private_server(kind, durable=True)
    asking, silent, peer = (opened(STORES[kind](url=f"{server.url}/here")) for _ in range(3))
    peer.add_jobs([make_job("a"), make_job("b")])
    assert found(asking) == found(silent) == ["a", "b"]
    server.kill()
    with pytest.raises(StoreUnavailable):
        found(asking)
    server.start()
    other = opened(STORES[kind](url=f"{server.url}/here"))
    other.remove_job("a")
    other.edit_job("b", lambda job: copy_with(job, tags=["t"]))
    other.add_job(make_job("c"))
    for store in (asking, silent):
        connected(store)
        assert found(store) == ["b", "c"]
        assert found(store, tag="t") == ["b"]


def connected(store):
    """Wait until the server answers."""
    pause = threading.Event()
    for _ in range(600):
        try:
            return store.lookup_job("b")
        except StoreUnavailable:
            pause.wait(0.1)
    raise AssertionError("no answer within a minute")


# Several jobs at once


def test_of_two_who_edit_the_same_jobs_neither_overwrites_the_other(store, peer, make_job, monkeypatch):
    monkeypatch.setattr(jobs, "JOBS_PER_READ", 60)
    names = [f"job-{number:03}" for number in range(100)]
    store.add_jobs([make_job(name, args=(0,)) for name in names])
    others = iter(names)

    def counted(job):
        if job.args[0] == 0 and int(job.id[4:]) % 9 == 0:  # meanwhile, another process edits this or another one
            peer.edit_job(next(others), lambda job: copy_with(job, args=(job.args[0] + 1, *job.args[1:])))
        return copy_with(job, args=(*job.args, "edited"))

    edited = store.edit_jobs(names, counted)
    assert sorted(job.id for job in edited.changed) == names
    taken = names.index(next(others))
    jobs_there = store.find_jobs(JobQuery(sort="id", limit=100)).jobs
    assert [job.args for job in jobs_there] == [(int(number < taken), "edited") for number in range(100)]


def test_of_many_jobs_those_that_are_there_are_removed(store, peer, make_job, requests):
    names = [f"job-{number:03}" for number in range(70)]
    store.add_jobs([make_job(name, due=NOW) for name in names])
    (run,) = requests.fire(peer, room={"default": 1}).runs
    assert sorted(store.remove_jobs([*names, "nobody", names[0]])) == names
    assert store.remove_jobs(names) == []
    assert not peer.settle([succeeded(run)])
    assert peer._server.names([Span(("groups",)), Span(("lives",)), Span(("runs",))]) == [[], [], []]


# Owners


def test_an_owner_is_known_by_its_last_report_and_the_end_of_its_lease(store, peer):
    report = "é" * 30_000
    lease = timedelta(seconds=40)
    for text in ("", "before", report):
        now = datetime.now(timezone.utc)
        assert store.renew_owner(Owner("me", "here", 1, NOW, report=text), now, lease)
        (owner,) = peer.owners(now)
        assert owner.report == text
        assert abs(owner.expires_at - now - lease) < timedelta(seconds=30)
    store.retire_owner("me")
    assert peer.owners(NOW) == []
    assert not store.renew_owner(Owner("me", "here", 1, NOW), NOW, lease)


# Notes


def test_a_note_that_was_removed_and_written_anew_is_not_the_expected_one(store, peer):
    store.put_note(Note("k", "a", "old"))
    server, commit = store._server, store._server.commit

    def meanwhile(transaction):
        server.commit = commit
        peer.remove_note("k", "a")
        peer.put_note(Note("k", "a", "new"))
        return commit(transaction)

    store.put_note(Note("k", "b", "x"))
    assert store.put_note(Note("k", "b", "y"), expected="x")  # from now on there is the key that tells of removals
    server.commit = meanwhile
    assert not store.put_note(Note("k", "a", "mine"), expected="old")
    assert peer.read_note("k", "a") == "new"


def test_of_two_who_forget_the_same_notes_each_is_forgotten_once(store, peer):
    for number in range(5):
        store.put_note(Note("k", str(number), "x"))
    server, commit = store._server, store._server.commit

    def meanwhile(transaction):
        if transaction.deleted:
            server.commit = commit
            peer.remove_note("k", "1")
        return commit(transaction)

    server.commit = meanwhile
    assert store.prune_notes("k", "4", 3) == 2
    assert [note.key for note in peer.notes("k")] == ["4", "3"]


@given(st.lists(st.text(), min_size=1))
def test_names_of_texts_are_in_their_order_and_plain(texts):
    names = sorted(map(encode_text_descending, texts))
    assert [decode_text_descending(name) for name in names] == sorted(texts, reverse=True)
    assert all(escape(name) == name for name in names)
