"""Answers that are kept for a moment: shared by those with the same rights, and forgotten when something changes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from operation_doubles import nothing

from goscheduler import BackgroundScheduler
from goscheduler.observer import Observer
from goscheduler.ops.access import Forbidden, Principal, Role
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.schedulers._kept import KeptAnswers
from goscheduler.testing import ManualClock
from goscheduler.web.site import Site

ADA = Principal("ada", Role.ADMIN, see_arguments=True)
OLGA = Principal("olga", Role.ADMIN, see_arguments=True)
LONG = 1e9


@pytest.fixture
def observer(tmp_path):
    """An observer of a store with two jobs, and the worker beside it."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    worker = BackgroundScheduler(jobstores={"default": url})
    worker.start(paused=True)
    for name in ("bills", "reports"):
        worker.add_job(nothing, "interval", hours=1, id=name, tags=[name], kwargs={"order": 17})
    with Observer(url) as observer:
        yield observer, worker
    worker.shutdown()


def ids(operations, principal, **more):
    return [job["id"] for job in operations.call("find_jobs", principal, {"sort": "id"}, **more)["items"]]


def test_an_answer_is_shared_by_those_with_the_same_rights_only(observer):
    source, worker = Source(observer[0]), observer[1]
    operations = Operations(source, kept_seconds=LONG)
    assert ids(operations, ADA) == ["bills", "reports"]
    worker.remove_job("bills")
    assert ids(operations, OLGA) == ["bills", "reports"]
    assert ids(operations, Principal("vic", Role.VIEWER)) == ["reports"]
    assert ids(operations, Principal("rita", Role.ADMIN, tags=frozenset({"bills"}), see_arguments=True)) == []
    with pytest.raises(Forbidden):
        operations.call("overview", Principal("rita", Role.ADMIN, tags=frozenset({"bills"})))
    assert operations.call("job", ADA, {"id": "reports"})["kwargs"] == {"order": 17}
    assert operations.call("job", Principal("vic", Role.ADMIN), {"id": "reports"})["kwargs"] == "•••"


def test_whoever_acts_or_asks_anew_sees_what_is_there_now(observer):
    source, worker = Source(observer[0]), observer[1]
    operations = Operations(source, kept_seconds=LONG)
    states = {"state": "paused"}
    assert operations.call("count_jobs", ADA, states)["number"] == 0
    operations.call("pause_jobs", OLGA, {"ids": ["bills"]})
    assert operations.call("count_jobs", ADA, states)["number"] == 1
    worker.pause_job("reports")
    assert operations.call("count_jobs", ADA, states)["number"] == 1
    assert operations.call("count_jobs", ADA, states, anew=True)["number"] == 2
    assert operations.call("count_jobs", OLGA, {**states, "tag": None})["number"] == 2


def test_a_program_that_shows_its_own_scheduler_sees_its_changes_at_once(call, scheduler, source):
    site = Site(source)
    before = ids(site.operations, ADA)
    scheduler.remove_job("other")
    assert ids(site.operations, ADA) == [name for name in before if name != "other"]


def test_those_who_wait_share_one_look_and_an_error_is_not_kept():
    clock, asked, go = ManualClock(), [], threading.Event()
    kept = KeptAnswers(clock, 2.0, 2)

    def look():
        asked.append(True)
        assert go.wait(60)
        if len(asked) == 1:
            raise ValueError("the store is away")
        return len(asked)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(kept.get, "a", look) for _ in range(4)]
        go.set()
        found = {repr(each.exception()) if each.exception() else each.result() for each in waiting}
    assert "ValueError('the store is away')" in found
    assert len(asked) <= 2
    answer = kept.get("a", look)
    assert (kept.get("a", look), kept.last("a")) == (answer, answer)
    clock.advance(2)
    assert (kept.last("a"), kept.get("a", look)) == (answer, answer + 1)


def test_only_so_many_answers_are_kept():
    clock = ManualClock()
    kept = KeptAnswers(clock, 2.0, 2)
    for name in "abc":
        kept.get(name, lambda name=name: name)
    assert [kept.last(name) for name in "abc"] == [None, "b", "c"]
    clock.advance(2)
    kept.get("d", lambda: "d")
    assert [kept.last(name) for name in "bcd"] == [None, None, "d"]
