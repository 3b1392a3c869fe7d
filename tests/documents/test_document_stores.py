"""The contract of document stores, on each of them and on real servers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import mongomock
import pytest
import sqlalchemy as sa
from document_worlds import (
    MINUTE,
    NOW,
    SECOND,
    UTC,
    MemoryWorld,
    MongoWorld,
    RedisWorld,
    SQLWorld,
    closing,
)
from sqlalchemy.dialects import mysql, postgresql

from goscheduler.documents import _sql_columns
from goscheduler.documents.model import in_utc, round_up

LOCK = timedelta(minutes=10)
UNTIL = NOW + LOCK


class TimesContract:
    """What every store does, in whatever form it keeps times. ``world`` is a place that can be looked at without it."""

    @pytest.fixture
    def world(self):
        raise NotImplementedError

    @pytest.fixture
    def store(self, world):
        return world.store

    def test_locking_moves_the_time_and_returns_the_document_as_it_was(self, world, store):
        ends = NOW + timedelta(days=1)
        world.add("a", NOW - MINUTE, interval="*/5 * * * *", repeatUntil=ends, autoRemove=True, note="mine")
        document = store.lock_next(NOW, UNTIL)
        assert world.sleep_until("a") == document.locked_until == UNTIL
        assert (document.sleep_until, document.interval, document.repeat_until) == (
            NOW - MINUTE, "*/5 * * * *", _like(document.repeat_until, ends),
        )  # fmt: skip
        assert document.auto_remove in (True, "1")
        assert document.content["note"] == "mine"
        assert str(UNTIL.minute) not in str(self.time_in(document.content)), (
            "the content shows the time before the lock"
        )

    def time_in(self, content):
        return content.get("sleepUntil") or content.get("sleep_until")

    def test_a_lock_is_renewed_and_ended_by_who_holds_it(self, world, store):
        world.add("a", NOW)
        document = store.lock_next(NOW, UNTIL)
        assert store.update(document, UNTIL + MINUTE)
        assert world.sleep_until("a") == UNTIL + MINUTE
        assert not store.update(document, UNTIL + LOCK), "the old token is not right any more"
        renewed = document._replace(locked_until=UNTIL + MINUTE)
        assert store.update(renewed, None)
        assert world.sleep_until("a") is None
        assert world.ids() == {"a"}
        assert store.lock_next(UNTIL + LOCK, UNTIL + 2 * LOCK) is None

    def test_what_somebody_else_has_written_meanwhile_is_neither_overwritten_nor_removed(self, world, store):
        world.add("a", NOW)
        document = store.lock_next(NOW, UNTIL)
        world.set_sleep_until("a", NOW + MINUTE)
        assert not store.update(document, None)
        assert not store.remove(document)
        assert world.sleep_until("a") == NOW + MINUTE
        world.set_sleep_until("a", None)
        assert not store.update(document, UNTIL)
        assert world.sleep_until("a") is None

    def test_a_token_is_what_the_store_can_hold(self, world, store):
        world.add("a", NOW)
        until = round_up(UNTIL + timedelta(microseconds=1), store.resolution)
        document = store.lock_next(NOW, until)
        assert world.sleep_until("a") == until
        assert store.update(document, until + store.resolution)
        assert world.sleep_until("a") == until + store.resolution


class DocumentStoreContract(TimesContract):
    """What every store does."""

    tells_of_bad_ones = True

    def test_a_document_without_a_time_is_ignored(self, world, store):
        world.add("asleep", None, interval="* * * * *")
        assert store.lock_next(NOW, UNTIL) is None
        assert world.sleep_until("asleep") is None

    def test_a_document_is_due_when_its_time_has_come_and_not_before(self, world, store):
        world.add("later", NOW + SECOND)
        assert store.lock_next(NOW, UNTIL) is None
        document = store.lock_next(NOW + SECOND, UNTIL)
        assert world.name_of(document) == "later"
        assert document.sleep_until == NOW + SECOND

    def test_a_locked_document_is_nobody_elses_until_the_lock_has_run_out(self, world, store):
        world.add("a", NOW)
        assert store.lock_next(NOW, UNTIL) is not None
        assert world.peer().lock_next(UNTIL - SECOND, UNTIL + LOCK) is None
        assert world.peer().lock_next(UNTIL, UNTIL + LOCK) is not None

    def test_the_document_that_has_been_due_longest_comes_first(self, world, store):
        for minutes in (1, 3, 2):
            world.add(f"due-{minutes}", NOW - minutes * MINUTE)
        order = [world.name_of(store.lock_next(NOW, UNTIL)) for _ in range(3)]
        assert order == ["due-3", "due-2", "due-1"]

    def test_who_comes_back_after_his_lock_has_run_out_cannot_finish(self, world, store):
        world.add("a", NOW)
        late = store.lock_next(NOW, UNTIL)
        heir = world.peer().lock_next(UNTIL + SECOND, UNTIL + SECOND + LOCK)
        assert heir.sleep_until == UNTIL
        assert not store.update(late, None)
        assert not store.remove(late)
        assert store.remove(heir)
        assert world.ids() == set()

    def test_a_document_that_was_deleted_meanwhile_stays_deleted(self, world, store):
        world.add("a", NOW)
        document = store.lock_next(NOW, UNTIL)
        world.delete("a")
        assert not store.update(document, NOW)
        assert not store.remove(document)
        assert world.ids() == set()
        assert store.lock_next(UNTIL, UNTIL + LOCK) is None

    def test_a_removed_document_is_the_only_one_that_goes(self, world, store):
        world.add("a", NOW)
        world.add("b", NOW + MINUTE)
        assert store.remove(store.lock_next(NOW, UNTIL))
        assert world.ids() == {"b"}

    def test_among_several_who_ask_at_once_everybody_gets_other_documents(self, world):
        count = 24
        for number in range(count):
            world.add(f"job-{number}", NOW - number * SECOND)
        barrier = threading.Barrier(4)

        def take(peer):
            barrier.wait(60)
            taken = []
            while (document := peer.lock_next(NOW, UNTIL)) is not None:
                taken.append(world.name_of(document))
            return taken

        with ThreadPoolExecutor(4) as pool:
            taken = [name for names in pool.map(take, [world.peer() for _ in range(4)]) for name in names]
        assert sorted(taken) == sorted(f"job-{number}" for number in range(count))

    def test_a_document_whose_time_is_no_date_is_told_of_left_alone_and_keeps_nobody_waiting(self, world, store):
        if not self.tells_of_bad_ones:
            assert store.malformed(10) == []
            return
        world.add_bad("bad")
        world.add("good", NOW)
        assert world.name_of(store.lock_next(NOW, UNTIL)) == "good"
        assert store.lock_next(NOW, UNTIL) is None
        (told,) = store.malformed(10)
        assert told.value == world.bad
        assert "bad" in str(told.id)
        assert world.ids() == {"bad", "good"}

    def test_upcoming_documents_are_listed_by_their_time_with_what_they_are(self, world, store):
        world.add("asleep", None)
        world.add("later", NOW + MINUTE, interval="*/5 * * * *", repeatUntil=NOW + LOCK, autoRemove=True, note="mine")
        world.add("due", NOW - MINUTE)
        world.add("soon", NOW)
        found = store.upcoming(10)
        assert [(self.name_in(each.id), each.sleep_until) for each in found] == [
            ("due", NOW - MINUTE), ("soon", NOW), ("later", NOW + MINUTE),
        ]  # fmt: skip
        assert (found[2].interval, found[2].repeat_until) == ("*/5 * * * *", NOW + LOCK)
        assert found[2].auto_remove in (True, "1")
        assert found[0][2:] == (None, None, None)
        assert [self.name_in(each.id) for each in store.upcoming(2)] == ["due", "soon"]
        store.lock_next(NOW, UNTIL)
        assert [self.name_in(each.id) for each in store.upcoming(10)] == ["soon", "later", "due"]
        assert store.upcoming(10)[2].sleep_until == UNTIL

    def test_due_documents_are_counted_up_to_a_number(self, world, store):
        assert store.count_due(NOW, 5) == (0, True)
        world.add("asleep", None)
        world.add("later", NOW + SECOND)
        for number in range(3):
            world.add(f"due-{number}", NOW - number * MINUTE)
        assert [store.count_due(NOW, cap) for cap in (2, 3, 4)] == [(2, False), (3, True), (3, True)]
        world.delete("due-1")
        store.lock_next(NOW, UNTIL)
        assert store.count_due(NOW, 5) == (1, True)
        assert store.count_due(UNTIL, 5) == (3, True)

    def test_what_is_malformed_is_neither_upcoming_nor_due_and_stays_in_its_list(self, world, store):
        if not self.tells_of_bad_ones:
            assert store.malformed(10) == []
            return
        for name in ("bad-1", "bad-2"):
            world.add_bad(name)
        assert store.upcoming(10) == []
        assert store.count_due(NOW, 10) == (0, True)
        assert len(store.malformed(1)) == 1
        assert {self.name_in(bad.id) for bad in store.malformed(10)} == {"bad-1", "bad-2"}
        world.set_sleep_until("bad-1", NOW)
        assert [self.name_in(bad.id) for bad in store.malformed(10)] == ["bad-2"]
        assert [self.name_in(each.id) for each in store.upcoming(10)] == ["bad-1"]

    def name_in(self, id):
        """Return the name of a document by the id that its store gave it."""
        return id[1] if isinstance(id, tuple) else id

    def test_a_store_can_be_closed_and_opened_again(self, world, store):
        store.open()
        store.close()
        store.open()
        world.add("a", NOW)
        assert store.lock_next(NOW, UNTIL) is not None


def _moment(value):
    return in_utc(value) if isinstance(value, datetime) else datetime.fromtimestamp(float(value), UTC)


def _like(found, moment):
    """Return the moment in the manner of what was found: with a zone or without."""
    return moment.replace(tzinfo=None) if found.tzinfo is None else moment


class TestMemory(DocumentStoreContract):
    @pytest.fixture
    def world(self):
        return MemoryWorld()


class DeepFields:
    def time_in(self, content):
        return content["cron"]["at"]["sleepUntil"]


class TestMongoDB(DeepFields, DocumentStoreContract):
    @pytest.fixture
    def world(self, url_of):
        with closing(MongoWorld(url_of("mongodb"))) as world:
            yield world


class TestMongoDBThatGivesTimesWithAZone(DeepFields, TimesContract):
    @pytest.fixture
    def world(self, url_of):
        with closing(MongoWorld(url_of("mongodb"), tz_aware=True)) as world:
            yield world


class TestMongomock(DeepFields, DocumentStoreContract):
    @pytest.fixture
    def world(self):
        with closing(MongoWorld("mongodb://localhost/own", make_client=mongomock.MongoClient)) as world:
            yield world


class TestRedis(DocumentStoreContract):
    @pytest.fixture
    def world(self, url_of):
        with closing(RedisWorld(url_of("redis"))) as world:
            yield world


class TestRedisThatGivesText(TimesContract):
    @pytest.fixture
    def world(self, url_of):
        with closing(RedisWorld(url_of("redis"), decode=True)) as world:
            yield world


class TestSQLite(DocumentStoreContract):
    @pytest.fixture
    def world(self, tmp_path):
        with closing(SQLWorld(f"sqlite:///{tmp_path}/own.db")) as world:
            yield world


class TestPostgreSQL(DocumentStoreContract):
    tells_of_bad_ones = False

    @pytest.fixture
    def world(self, url_of):
        with closing(SQLWorld(url_of("postgresql"))) as world:
            yield world


class TestPostgreSQLWithOtherColumns(TimesContract):
    @pytest.fixture(params=[sa.DateTime(), postgresql.TIMESTAMP(precision=1)], ids=["without zone", "tenths"])
    def world(self, request, url_of):
        with closing(SQLWorld(url_of("postgresql"), request.param)) as world:
            yield world


class TestMariaDB(DocumentStoreContract):
    tells_of_bad_ones = False

    @pytest.fixture
    def world(self, url_of):
        with closing(SQLWorld(url_of("mariadb"), mysql.DATETIME())) as world:
            yield world


class TestMariaDBWithOtherColumns(TimesContract):
    @pytest.fixture(params=[mysql.DATETIME(fsp=6), mysql.DATETIME(fsp=2)], ids=["microseconds", "hundredths"])
    def world(self, request, url_of):
        with closing(SQLWorld(url_of("mariadb"), request.param)) as world:
            yield world


class TestDatabaseThatCannotPassOverLockedRows(DocumentStoreContract):
    tells_of_bad_ones = False

    @pytest.fixture
    def world(self, url_of, monkeypatch):
        monkeypatch.setattr(_sql_columns, "SKIPPING", {})
        with closing(SQLWorld(url_of("postgresql"))) as world:
            assert not world.store._columns.skips_locked
            yield world


@pytest.mark.parametrize(
    ("resolution", "moment", "rounded"),
    [
        (timedelta(seconds=1), "12:00:00.000001", "12:00:01"),
        (timedelta(seconds=1), "12:00:00", "12:00:00"),
        (timedelta(milliseconds=1), "12:00:00.123001", "12:00:00.124"),
        (timedelta(microseconds=1), "12:00:00.123001", "12:00:00.123001"),
    ],
)
def test_times_are_rounded_up_to_what_a_store_can_hold(resolution, moment, rounded):
    read = [datetime.fromisoformat(f"2026-05-04T{text}+00:00") for text in (moment, rounded)]
    assert round_up(read[0], resolution) == read[1]
