"""When the SQL store looks for what is due, and what a round tells of what comes next."""

from __future__ import annotations

from datetime import timedelta

import pytest

from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy.dialects import mysql as sql_mysql
from goscheduler.testing.contract import MINUTE, NOW, Requests
from goscheduler.triggers.date import DateTrigger

REQUESTS = Requests()
ROOM = {"default": 2}


@pytest.fixture
def store(opened, tmp_path):
    return opened(SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db", server_time=False))


@pytest.fixture
def add(store, make_job):
    def add_once(*ids, due=NOW, **options):
        store.add_jobs([make_job(job_id, due=due, trigger=DateTrigger(due), **options) for job_id in ids])

    return add_once


@pytest.fixture
def looks(store, monkeypatch):
    counted, look = [], store._due_work_reader.peek

    def count(connection, request):
        counted.append(request)
        return look(connection, request)

    monkeypatch.setattr(store._due_work_reader, "peek", count)
    return counted


def fired(store, now=NOW, room=ROOM):
    return [run.job.id for run in REQUESTS.fire(store, now, room=room).runs]


def test_where_less_was_fired_than_could_be_it_is_looked_for_what_comes_next(store, add, looks):
    add("a")
    add("b", due=NOW + MINUTE)
    answer = REQUESTS.fire(store, room=ROOM)
    assert answer.next_due == NOW + MINUTE
    assert not answer.more
    assert len(looks) == 2


def test_a_job_of_a_priority_that_was_not_there_before_fires_in_the_next_round(store, add):
    add("a", "b")
    assert sorted(fired(store)) == ["a", "b"]
    add("c", priority=1)
    assert fired(store) == ["c"]


def test_what_is_left_does_not_fire_before_its_time(store, add):
    add("a", "b")
    add("c", due=NOW + MINUTE)
    assert sorted(fired(store)) == ["a", "b"]
    assert fired(store, NOW + MINUTE - timedelta(microseconds=1)) == []
    assert fired(store, NOW + MINUTE) == ["c"]


def test_a_round_that_starts_nothing_tells_what_it_has_recorded(store, add):
    add("a", "b")
    fired(store)
    add("late", due=NOW - MINUTE, misfire_grace_time=1)
    answer = REQUESTS.fire(store, room=ROOM)
    assert [record.run.job.id for record in answer.records] == ["late"]


def test_rows_that_are_too_long_for_one_answer_of_mysql_come_one_by_one(
    opened, make_job, mariadb, fresh, monkeypatch
):
    monkeypatch.setattr(sql_mysql, "MAX_ANSWER_BYTES", 1000)
    store = opened(SQLAlchemyJobStore(fresh(mariadb).url, server_time=False))
    store.add_jobs([make_job(job_id, args=["x" * 400]) for job_id in ("a", "b", "ü")])
    assert sorted(fired(store, room={"default": 10})) == ["a", "b", "ü"]
