"""When the SQL store looks for what is due, and when it believes what it has seen a moment ago."""

from __future__ import annotations

from datetime import timedelta

import pytest

from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy import due_work as sql_due_work
from goscheduler.jobstores.sqlalchemy.dialects import mysql as sql_mysql
from goscheduler.testing.contract import MINUTE, NOW, Requests
from goscheduler.triggers.date import DateTrigger

REQUESTS = Requests()
ROOM = {"default": 2}


@pytest.fixture
def store(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(sql_due_work, "BELIEVED", 3600)
    return opened(SQLAlchemyJobStore(f"sqlite:///{tmp_path}/jobs.db", server_time=False))


@pytest.fixture
def add(store, make_job):
    def add_once(*ids, due=NOW, **options):
        store.add_jobs([make_job(job_id, due=due, trigger=DateTrigger(due), **options) for job_id in ids])

    return add_once


@pytest.fixture
def looks(store, monkeypatch):
    counted, look = [], store._looking.look

    def count(connection, request):
        counted.append(request)
        return look(connection, request)

    monkeypatch.setattr(store._looking, "look", count)
    return counted


def fired(store, now=NOW, room=ROOM):
    return [run.job.id for run in REQUESTS.fire(store, now, room=room).runs]


def test_while_there_is_more_than_can_be_fired_nobody_looks(store, add, looks):
    add(*"abcdef")
    assert [sorted(fired(store)) for _ in range(3)] == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert len(looks) == 1
    assert fired(store) == []
    assert len(looks) == 2, "the fourth round has found nothing, and looked"


def test_where_less_was_fired_than_could_be_it_is_looked_for_what_comes_next(store, add, looks):
    add("a")
    add("b", due=NOW + MINUTE)
    answer = REQUESTS.fire(store, room=ROOM)
    assert answer.next_due == NOW + MINUTE
    assert not answer.more
    assert len(looks) == 2


def test_a_job_of_a_priority_that_nobody_expected_fires_in_the_round_in_which_the_expected_ones_are_gone(store, add):
    add("a", "b")
    assert sorted(fired(store)) == ["a", "b"]
    add("c", priority=1)
    assert fired(store) == ["c"]


def test_what_is_expected_does_not_fire_before_its_time(store, add):
    add("a", "b")
    add("c", due=NOW + MINUTE)
    assert sorted(fired(store)) == ["a", "b"]
    assert fired(store, NOW + MINUTE - timedelta(microseconds=1)) == []
    assert fired(store, NOW + MINUTE) == ["c"]


def test_only_for_a_moment_it_is_believed_that_there_is_more(store, add, looks, monkeypatch):
    add(*"abcd")
    fired(store)
    monkeypatch.setattr(sql_due_work, "BELIEVED", -1)
    fired(store)
    assert len(looks) == 2


def test_what_is_told_of_a_round_without_a_firing_is_not_lost_because_others_were_expected(store, add):
    add("a", "b")
    fired(store)
    add("late", due=NOW - MINUTE, misfire_grace_time=1)
    answer = REQUESTS.fire(store, room=ROOM)
    assert [record.run.job.id for record in answer.records] == ["late"]


def test_rows_that_are_too_long_for_one_answer_of_mysql_come_one_by_one(
    opened, make_job, mariadb, fresh, monkeypatch
):
    monkeypatch.setattr(sql_mysql, "LONGEST_ANSWER", 1000)
    store = opened(SQLAlchemyJobStore(fresh(mariadb).url, server_time=False))
    store.add_jobs([make_job(job_id, args=["x" * 400]) for job_id in ("a", "b", "ü")])
    assert sorted(fired(store, room={"default": 10})) == ["a", "b", "ü"]
