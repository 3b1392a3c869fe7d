"""How a process hears of others through SQLite, MySQL and MariaDB, which cannot tell: it watches them."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import StaticPool

from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy.due_work import PeekQuery, PeekResult
from goscheduler.jobstores.sqlalchemy.watcher import FilePeekCursor, PeekCursor, Watcher
from goscheduler.runs.transitions import asked_for
from goscheduler.testing.contract import NOW, SECOND, Requests, succeeded

PATIENCE = 60
VIEWS: dict[str, type[PeekCursor]] = {"sqlite": FilePeekCursor, "mariadb": PeekCursor}


@pytest.fixture(params=list(VIEWS))
def kind(request):
    return request.param


@pytest.fixture
def url(request, kind, tmp_path, fresh):
    return f"sqlite:///{tmp_path}/jobs.db" if kind == "sqlite" else fresh(request.getfixturevalue(kind)).url


@pytest.fixture
def started(opened, url):
    return lambda **options: opened(SQLAlchemyJobStore(url, server_time=False, **options))


@pytest.fixture
def requests():
    return Requests()


def watching_thread(store: SQLAlchemyJobStore) -> threading.Thread:
    return store._database._stop_listening.__self__._thread  # type: ignore[union-attr]


def until(condition: Any) -> None:
    wait = threading.Event().wait
    assert any(condition() or wait(0.01) for _ in range(PATIENCE * 100))


class Turns:
    """What the thread of a store would do, one turn after another."""

    def __init__(self, store: SQLAlchemyJobStore, view: type[PeekCursor]) -> None:
        self._connection = store._database.engine.connect()
        self._connection.detach()
        self._woken: list[None] = []
        self._view = view(self._connection)
        self._watcher = Watcher(
            store._database.engine, view, 0.0, store._due_work_reader, lambda: self._woken.append(None), print
        )

    def wakes(self) -> bool:
        """Tell whether the loop is woken in this turn."""
        self._woken.clear()
        self._watcher._compare(self._view)
        return bool(self._woken)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def turns(kind):
    made = []

    def make(store):
        made.append(Turns(store, VIEWS[kind]))
        return made[-1]

    yield make
    for each in made:
        each.close()


# Who is woken


def test_a_store_wakes_its_loop_for_a_job_that_another_one_has_added(started, requests, make_job):
    ours, other = started(), started()
    heard = threading.Event()
    ours.subscribe(heard.set)
    until(lambda: ours.poll_after() == math.inf)
    assert requests.fire(ours).runs == []
    other.add_job(make_job("a"))
    assert heard.wait(PATIENCE)
    assert [run.job.id for run in requests.fire(ours).runs] == ["a"]


def test_a_loop_is_woken_once_and_again_when_it_has_looked(started, requests, make_job, turns):
    ours, other = started(), started()
    turn = turns(ours)
    assert not turn.wakes(), "it has not looked yet, and will"
    requests.fire(ours)
    assert not turn.wakes()
    other.add_job(make_job("a"))
    assert turn.wakes()
    assert not turn.wakes()
    requests.fire(ours)
    assert not turn.wakes()
    other.add_job(make_job("b"))
    assert turn.wakes()


def test_a_job_of_another_priority_a_pending_run_and_a_wish_to_end_wake(started, requests, make_job, turns):
    ours, other = started(), started()
    turn = turns(ours)
    ours.add_job(make_job("a"))
    (run,) = requests.fire(ours).runs
    assert not turn.wakes()
    other.add_job(make_job("b", priority=9))
    assert turn.wakes()
    requests.fire(ours)
    other.add_run(asked_for(make_job("c"), "run-of-c", NOW))
    assert turn.wakes()
    requests.claim(ours)
    assert other.cancel_run(run.id, "enough", lambda run: succeeded(run)) is not None
    assert turn.wakes()


def test_a_wish_to_end_wakes_although_an_earlier_one_has_not_been_forgotten(started, requests, make_job, turns):
    ours, other = started(), started()
    turn = turns(ours)
    ours.add_jobs([make_job("a"), make_job("b", due=NOW - SECOND)])
    later, earlier = sorted(requests.fire(ours).runs, key=lambda run: run.job.id)
    other.cancel_run(earlier.id, "enough", succeeded)
    assert turn.wakes()
    requests.claim(ours)
    assert not turn.wakes(), "it has heard of that"
    other.cancel_run(later.id, "enough", succeeded)
    assert turn.wakes()
    requests.claim(ours)
    assert ours.withdraw_cancel_requests("owner-1", {earlier.id: "enough", later.id: "enough"})
    assert not turn.wakes()
    for run in (earlier, later):
        other.cancel_run(run.id, "once more", succeeded)
    assert turn.wakes()


def test_a_process_is_not_woken_by_what_it_writes_and_has_seen(started, requests, make_job, turns):
    store = started()
    turn = turns(store)
    for number in range(3):
        store.add_job(make_job(f"job-{number}"))
        runs = requests.fire(store).runs
        assert len(runs) == 1
        assert not turn.wakes()
        store.settle([succeeded(run) for run in runs])
        assert not turn.wakes()


def test_nobody_is_woken_by_what_another_process_fires_and_ends(started, requests, make_job, turns):
    ours, other = started(), started()
    turn = turns(ours)
    other.add_job(make_job("a"))
    requests.fire(ours, room={"default": 0})
    (run,) = requests.fire(other, owner="other").runs
    assert not turn.wakes()
    other.settle([succeeded(run)])
    assert not turn.wakes()


def test_what_was_added_while_the_loop_was_looking_is_compared_with_what_it_saw(started, requests, make_job, turns):
    ours, other = started(), started()
    turn = turns(ours)
    other.add_job(make_job("a", due=NOW))
    requests.fire(ours, room={"default": 0})
    with_a = ours._due_work_reader.answer
    requests.fire(other, owner="other")
    requests.fire(ours)
    without = ours._due_work_reader.answer
    ours._due_work_reader.answer = with_a  # the loop has asked, and has not got its answer yet
    other.add_job(make_job("b", due=NOW))
    assert not turn.wakes()
    ours._due_work_reader.answer = without
    assert turn.wakes()


# Life


def test_the_thread_ends_with_the_store(started, requests):
    store = started()
    store.subscribe(lambda: None)
    thread = watching_thread(store)
    assert thread.name == "goscheduler-sql-watcher"
    until(lambda: store.poll_after() == math.inf)
    store.shutdown()
    assert not thread.is_alive()
    assert store.poll_after() < math.inf


def test_a_pool_of_one_connection_is_left_to_those_who_work(started, requests, make_job):
    store = started(engine_options={"pool_size": 1, "max_overflow": 0})
    store.subscribe(lambda: None)
    until(lambda: store.poll_after() == math.inf)
    store.add_job(make_job("a"))
    assert len(requests.fire(store).runs) == 1


# SQLite


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_file_is_whole_when_its_last_store_has_shut_down(started, tmp_path, make_job):
    store = started()
    store.subscribe(lambda: None)
    until(lambda: store.poll_after() == math.inf)
    store.add_job(make_job("a"))
    store.shutdown()
    assert [path.name for path in Path(tmp_path).iterdir()] == ["jobs.db"]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_file_that_nobody_writes_to_is_asked_for_nothing_but_its_version(started, requests, turns):
    store = started()
    turn = turns(store)
    requests.fire(store)
    turn.wakes()
    statements: list[str] = []
    turn._connection.connection.dbapi_connection.set_trace_callback(statements.append)
    for _ in range(3):
        turn.wakes()
    assert statements == ["PRAGMA data_version"] * 3


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_file_that_was_deleted_is_watched_as_long_as_it_is_used(started, requests, make_job, tmp_path):
    ours, other = started(), started()
    heard = threading.Event()
    ours.subscribe(heard.set)
    until(lambda: ours.poll_after() == math.inf)
    requests.fire(ours)
    requests.fire(other)
    for path in Path(tmp_path).iterdir():
        path.unlink()
    other.add_job(make_job("a"))
    assert heard.wait(PATIENCE)
    assert len(requests.fire(ours).runs) == 1


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("place", ["sqlite://", "sqlite:///one.db"])
def test_the_only_connection_that_there_is_belongs_to_those_who_work(opened, place, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine = create_engine(place, poolclass=StaticPool, connect_args={"check_same_thread": False})
    store = opened(SQLAlchemyJobStore(engine=engine))
    store.subscribe(lambda: None)
    assert store.poll_after() < math.inf
    assert store.get_all_jobs() == []
    engine.dispose()


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_forked_child_watches_for_itself(started, scheduler, requests, make_job):
    ours = started()
    ours.subscribe(lambda: None)
    until(lambda: ours.poll_after() == math.inf)
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            ours.start(scheduler, "default")
            assert ours.poll_after() < math.inf
            heard = threading.Event()
            ours.subscribe(heard.set)
            requests.fire(ours)
            os.write(writing, b"ready")
            os._exit(0 if heard.wait(PATIENCE) else 1)
        finally:
            os._exit(2)
    assert os.read(reading, 5) == b"ready"
    ours.add_job(make_job("a"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(reading)
    os.close(writing)


# MariaDB


@pytest.mark.parametrize("kind", ["mariadb"], indirect=True)
def test_a_lost_connection_is_told_once_and_another_one_is_taken(started, requests, make_job, url):
    ours = started()
    heard, told = threading.Event(), threading.Event()
    warnings: list[str] = []
    ours._database.listen(ours._due_work_reader, heard.set, lambda words: (warnings.append(words), told.set()))
    until(lambda: ours.poll_after() == math.inf)
    requests.fire(ours)
    kill_all_others(url)
    assert told.wait(PATIENCE)
    assert "the scheduler polls" in warnings[0]
    until(lambda: ours.poll_after() == math.inf)
    started().add_job(make_job("a"))
    assert heard.wait(PATIENCE)
    assert len(warnings) == 1


def test_a_view_is_answered_as_the_round_was_whatever_a_task_is_called(started, requests, make_job, turns):
    ours, other, task = started(), started(), "it's 100 % \\ \"done\" %s \\"
    turn = turns(ours)
    other.add_job(make_job("a", func=task))
    other.add_job(make_job("b", due=NOW + SECOND, priority=9))
    other.add_run(asked_for(make_job("c"), "run-of-c", NOW + SECOND))
    request = requests._request(NOW, room={"default": 0})._replace(tasks=(task, "other"))
    assert ours.fire_due(request).more, "it knows the task"
    seen = ours._due_work_reader.answer
    found = turn._view.peek(seen).row[1:]
    assert list(found) == list(seen.row[1:])
    assert len([value for value in found if value is not None]) > 7


def kill_all_others(url: str) -> None:
    engine = create_engine(url)
    with engine.connect() as connection:
        mine = "db = DATABASE() AND id <> CONNECTION_ID() AND command = 'Sleep'"
        for number in connection.execute(text(f"SELECT id FROM information_schema.processlist WHERE {mine}")).scalars():
            connection.exec_driver_sql(f"KILL {number}")
    engine.dispose()


# What is news


def answer(to_cancel=0, held=0, unblocked=0, priorities=(None, None, None, None), times=()):
    question = PeekQuery(None, ["default"], [("default", 5)] * len(times), [])  # type: ignore[arg-type]
    return PeekResult(question, "me", (None, to_cancel, held, unblocked, *priorities, *times))


@pytest.mark.parametrize(
    ("found", "seen", "is_news"),
    [
        (answer(), answer(), False),
        (answer(to_cancel=1), answer(), True),
        (answer(to_cancel=1), answer(to_cancel=1), False),
        (answer(held=1), answer(), False),
        (answer(unblocked=1), answer(), True),
        (answer(), answer(to_cancel=1, unblocked=1), False),
        (answer(priorities=(5, 5, None, None)), answer(), True),
        (answer(), answer(priorities=(5, 5, None, None)), False),
        (answer(times=(7,)), answer(times=(None,)), True),
        (answer(times=(7,)), answer(times=(8,)), True),
        (answer(times=(8,)), answer(times=(7,)), False),
        (answer(times=(None,)), answer(times=(7,)), False),
        (answer(times=(7,)), answer(times=(7,)), False),
    ],
)
def test_only_what_is_to_be_done_earlier_is_news(found, seen, is_news):
    assert found.has_more_than(seen) is is_news
