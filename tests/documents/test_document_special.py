"""What is special about each store of documents, on real servers: shapes, types, conditions, what cannot be used."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pymongo
import pytest
import redis
import sqlalchemy as sa
from bson.codec_options import CodecOptions
from bson.datetime_ms import DatetimeMS
from document_worlds import MINUTE, NOW, UTC, MongoWorld, RedisWorld, SQLWorld, closing
from sqlalchemy.dialects import mysql

from goscheduler.documents import DocumentScheduler
from goscheduler.documents.mongodb import MongoDocumentStore
from goscheduler.documents.redis import RedisDocumentStore
from goscheduler.documents.sqlalchemy import SQLAlchemyDocumentStore
from goscheduler.errors import InvalidArgument

LOCK = timedelta(minutes=10)
UNTIL = NOW + LOCK
PATIENCE = 60


# MongoDB


@pytest.fixture
def mongo(url_of):
    with closing(MongoWorld(url_of("mongodb"), sleep_until="cron.sleepUntil")) as world:
        yield world


def test_a_condition_leaves_other_documents_alone_and_is_part_of_the_index(mongo):
    store = MongoDocumentStore(
        mongo.collection, condition={"tenant": "a", "size": {"$gt": 5}, "$or": [{"on": True}, {"on": 1}]}
    )
    for number, (tenant, size, on) in enumerate([("a", 6, True), ("b", 6, True), ("a", 4, True), ("a", 9, False)]):
        mongo.collection.insert_one({"_id": number, "tenant": tenant, "size": size, "on": on, "sleepUntil": NOW})
    assert [each.id for each in store.upcoming(10)] == [0]
    assert store.count_due(NOW, 10).number == 1
    assert store.lock_next(NOW, UNTIL).id == 0
    assert store.lock_next(NOW, UNTIL) is None
    name = store.create_index()
    assert list(mongo.collection.index_information()[name]["key"]) == [("tenant", 1), ("sleepUntil", 1)]
    assert store.create_index() == name


def test_looking_for_work_and_for_what_is_no_date_goes_by_the_index(mongo):
    store = MongoDocumentStore(mongo.collection)
    name = store.create_index()
    mongo.collection.insert_many([{"_id": number} for number in range(500)])
    mongo.collection.insert_one({"_id": "due", "sleepUntil": NOW})
    command = {
        "findAndModify": mongo.collection.name, "query": {"$and": [*store._dates(), {"sleepUntil": {"$lte": NOW}}, {}]},
        "sort": {"sleepUntil": 1}, "update": {"$set": {"sleepUntil": UNTIL}},
    }  # fmt: skip
    plan = mongo.collection.database.command("explain", command, verbosity="executionStats")
    assert name in str(plan["queryPlanner"]["winningPlan"])
    assert plan["executionStats"]["totalDocsExamined"] == 1
    assert store.malformed(10) == []


@pytest.mark.parametrize(
    ("content", "is_told"),
    [
        ({"cron": "text"}, False),
        ({"cron": [{"sleepUntil": NOW}]}, False),
        ({"cron.sleepUntil": NOW}, False),
        ({}, False),
        ({"cron": {"sleepUntil": [NOW]}}, True),
        ({"cron": {"sleepUntil": {"deeper": NOW}}}, True),
        ({"cron": {"sleepUntil": 0}}, True),
        ({"cron": {"sleepUntil": "2026-01-01"}}, True),
        ({"cron": {"sleepUntil": True}}, True),
    ],
)
def test_a_document_of_another_shape_is_left_as_it_is_and_keeps_nobody_waiting(mongo, content, is_told):
    mongo.collection.insert_one({"_id": "odd", **content})
    mongo.collection.insert_one({"_id": "good", "cron": {"sleepUntil": NOW}})
    before = mongo.collection.find_one({"_id": "odd"})
    assert mongo.store.lock_next(NOW, UNTIL).id == "good"
    assert mongo.store.lock_next(NOW, UNTIL) is None
    assert mongo.collection.find_one({"_id": "odd"}) == before
    assert [bad.id for bad in mongo.store.malformed(10)] == ["odd"] * is_told


def test_a_date_that_python_does_not_have_was_due_long_ago(mongo):
    store = MongoDocumentStore(mongo.collection, interval="every")
    mongo.collection.insert_one({"_id": 1, "sleepUntil": DatetimeMS(-(10**15)), "every": "* * * * *"})
    document = store.lock_next(NOW, UNTIL)
    assert document.sleep_until.year == 1970
    assert document.content["sleepUntil"] == DatetimeMS(-(10**15))


def test_ids_may_be_documents_themselves(mongo):
    store = MongoDocumentStore(mongo.collection)
    mongo.collection.insert_one({"_id": {"tenant": "a", "n": 1}, "sleepUntil": NOW})
    assert store.remove(store.lock_next(NOW, UNTIL))


def test_a_collection_that_gives_times_in_a_zone_of_its_own_is_understood(mongo):
    options = CodecOptions(tz_aware=True, tzinfo=ZoneInfo("Asia/Tokyo"))
    store = MongoDocumentStore(mongo.collection.with_options(options))
    mongo.collection.insert_one({"_id": 1, "sleepUntil": NOW})
    document = store.lock_next(NOW, UNTIL)
    assert (document.sleep_until, document.content["sleepUntil"].hour) == (NOW, 21)
    assert store.update(document, None)


@pytest.mark.parametrize("collection", [None, "documents", pymongo.MongoClient(connect=False)["a"]])
def test_what_is_no_collection_is_refused(collection):
    with pytest.raises(TypeError, match="collection"):
        MongoDocumentStore(collection)


def test_a_condition_that_is_no_filter_is_refused(mongo):
    with pytest.raises(TypeError, match="condition"):
        MongoDocumentStore(mongo.collection, condition="tenant = 'a'")


# SQL


class Other(sa.types.TypeDecorator):
    """A type of the user's own that takes and gives only times with a zone."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value, dialect):
        if value is not None and value.tzinfo is None:
            raise ValueError("naive")
        return value and value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value, dialect):
        return value and value.replace(tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def engine(request, url_of, tmp_path):
    url = f"sqlite:///{tmp_path}/own.db" if request.param == "sqlite" else url_of(request.param)
    engine = sa.create_engine(url)
    yield engine
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS own"))
    engine.dispose()


def table_of(engine, *columns):
    table = sa.Table("own", sa.MetaData(), *columns)
    table.metadata.create_all(engine)
    return table


def run(engine, statement):
    with engine.begin() as connection:
        return connection.execute(statement)


def test_a_table_object_its_types_and_names_of_columns_are_respected(engine):
    precise = sa.DateTime().with_variant(mysql.DATETIME(fsp=3), "mysql", "mariadb")

    class Precise(Other):
        impl = precise
        cache_ok = True

    table = table_of(
        engine, sa.Column("id", sa.Integer, primary_key=True), sa.Column("next run", Precise),
        sa.Column("tags", sa.JSON), sa.Column("line", sa.String(40)),
    )  # fmt: skip
    run(engine, table.insert().values({"id": 1, "next run": NOW, "tags": {"a": [1]}, "line": "* * * * *"}))
    run(engine, table.insert().values({"id": 2, "next run": NOW, "tags": None}))
    store = SQLAlchemyDocumentStore(
        engine, table, sleep_until="next run", interval="line", condition=table.c.id.in_([1, 3])
    )
    store.open()
    assert store.upcoming(10) == [((1,), NOW, "* * * * *", None, None)]
    document = store.lock_next(NOW, UNTIL)
    assert document.content == {"id": 1, "next run": NOW, "tags": {"a": [1]}, "line": "* * * * *"}
    assert (document.id, document.interval, document.repeat_until) == ((1,), "* * * * *", None)
    assert store.lock_next(NOW, UNTIL) is None
    assert store.update(document, NOW + MINUTE)
    assert run(engine, sa.select(table.c["next run"]).where(table.c.id == 1)).scalar_one() == NOW + MINUTE


def test_a_table_without_the_optional_columns_will_do_and_a_dict_is_a_condition(engine):
    table = table_of(
        engine, sa.Column("id", sa.Integer, primary_key=True), sa.Column("sleep_until", sa.DateTime),
        sa.Column("tenant", sa.String(9)),
    )  # fmt: skip
    for number, tenant in enumerate("ab", start=1):
        run(engine, table.insert().values(id=number, sleep_until=NOW.replace(tzinfo=None), tenant=tenant))
    store = SQLAlchemyDocumentStore(engine, "own", condition={"tenant": "b"})
    assert [each[2:] for each in store.upcoming(10)] == [(None, None, None)]
    assert store.count_due(NOW, 10) == (1, True)
    assert store.lock_next(NOW, UNTIL).id == (2,), "it opens itself when it is first used"
    assert store.lock_next(NOW, UNTIL) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sleep_until": "sleep_untl"}, "did you mean 'sleep_until'"),
        ({"interval": "no such"}, "interval names a column that table own does not have"),
        ({"sleep_until": "number"}, "must hold a date and time"),
        ({"sleep_until": "always"}, "must allow NULL"),
        ({"repeat_until": "number"}, "must hold a date and time"),
        ({"table": "onw"}, "did you mean 'own'"),
        ({"condition": {"nobody": 1}}, "condition names a column"),
    ],
)
def test_columns_that_are_not_there_or_of_a_wrong_kind_are_refused_at_the_start(tmp_path, options, words):
    engine = sa.create_engine(f"sqlite:///{tmp_path}/own.db")
    table_of(
        engine, sa.Column("id", sa.Integer, primary_key=True), sa.Column("sleep_until", sa.DateTime),
        sa.Column("number", sa.Integer), sa.Column("always", sa.DateTime, nullable=False),
    )  # fmt: skip
    store = SQLAlchemyDocumentStore(engine, **{"table": "own", **options})
    cron = DocumentScheduler(store, print)
    with pytest.raises(InvalidArgument, match=words):
        cron.start()
    assert not cron.is_running()
    engine.dispose()


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE"])
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_whatever_isolation_the_engine_has_every_row_is_locked_once(url_of, kind, level):
    with closing(SQLWorld(url_of(kind), sa.DateTime())) as world:
        for number in range(20):
            world.add(f"job-{number}", NOW)
        engine = sa.create_engine(url_of(kind), isolation_level=level)
        stores = [SQLAlchemyDocumentStore(engine, world.table.name) for _ in range(3)]

        def take(store):
            return [world.name_of(document) for document in iter(lambda: store.lock_next(NOW, UNTIL), None)]

        with ThreadPoolExecutor(3) as pool:
            taken = [name for names in pool.map(take, stores) for name in names]
        engine.dispose()
        assert sorted(taken) == sorted(f"job-{number}" for number in range(20))


def test_a_condition_on_another_table_object_is_refused_and_one_with_a_query_inside_is_not(engine):
    table = table_of(engine, sa.Column("id", sa.Integer, primary_key=True), sa.Column("sleep_until", sa.DateTime))
    with pytest.raises(InvalidArgument, match="condition is about something else than own"):
        SQLAlchemyDocumentStore(engine, "own", condition=table.c.id > 5).open()
    other = table.alias()
    store = SQLAlchemyDocumentStore(
        engine, table, condition=table.c.id == sa.select(sa.func.max(other.c.id)).scalar_subquery()
    )
    store.open()
    run(engine, table.insert().values([{"id": n, "sleep_until": NOW.replace(tzinfo=None)} for n in (1, 2)]))
    assert store.lock_next(NOW, UNTIL).id == (2,)
    assert store.lock_next(NOW, UNTIL) is None


def test_a_table_without_a_primary_key_is_refused(engine):
    table_of(engine, sa.Column("sleep_until", sa.DateTime), sa.Column("id", sa.Integer))
    with pytest.raises(InvalidArgument, match="no primary key"):
        SQLAlchemyDocumentStore(engine, "own").open()


@pytest.mark.parametrize(
    ("text", "is_time"),
    [
        ("2026-01-01 08:00:00", True),
        ("2026-01-01 08:00:00.5", True),
        ("2026-01-01T08:00:00", False),
        ("2026-01-01 08:00:00+02:00", False),
        ("2026-01-01 08:00:00Z", False),
        ("2026-99-01 08:00:00", False),
        ("2026-01-01", False),
        ("0 o'clock", False),
        (0, False),
        (1.5, False),
        (b"\xff\xfe", False),
        ("", False),
    ],
)
def test_sqlite_takes_anything_for_a_time_and_only_times_are_due(tmp_path, text, is_time):
    with closing(SQLWorld(f"sqlite:///{tmp_path}/own.db")) as world:
        world.bad = text
        world.add_bad("odd")
        world.add("good", NOW)
        assert [each.id[1] for each in world.store.upcoming(10)] == (["odd", "good"] if is_time else ["good"])
        assert world.store.count_due(NOW, 10).number == 1 + is_time
        found = []
        while (document := world.store.lock_next(NOW, UNTIL)) is not None:
            found.append(world.name_of(document))
        assert found == (["odd", "good"] if is_time else ["good"])
        assert [bad.value for bad in world.store.malformed(10)] == ([] if is_time else [text])


def test_a_row_that_cannot_be_read_is_told_of_and_keeps_nobody_waiting(tmp_path):
    with closing(SQLWorld(f"sqlite:///{tmp_path}/own.db")) as world:
        world.add("odd", NOW - MINUTE)
        run(world.engine, sa.text(f"UPDATE {world.table.name} SET repeat_until = 'never' WHERE name = 'odd'"))
        world.add("good", NOW)
        assert [each.repeat_until for each in world.store.upcoming(10)] == ["never", None]
        errors, seen, done = [], [], threading.Event()

        def handle(document):
            seen.append(document["name"])
            done.set()

        with DocumentScheduler(world.store, handle, on_error=errors.append):
            assert done.wait(PATIENCE)
        assert seen == ["good"]
        assert [type(error) for error in errors] == [ValueError]
        assert world.ids() == {"odd", "good"}


def test_an_engine_or_table_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="engine"):
        SQLAlchemyDocumentStore(None, "own")
    with pytest.raises(TypeError, match="table"):
        SQLAlchemyDocumentStore("sqlite://", None)
    with pytest.raises(TypeError, match="condition"):
        SQLAlchemyDocumentStore("sqlite://", "own", condition="tenant = 'a'")
    with pytest.raises(InvalidArgument, match="database URL") as refused:
        SQLAlchemyDocumentStore("nonsense://user:secret@host/db", "own")
    assert "secret" not in str(refused.value)


@pytest.mark.serial
def test_a_database_that_is_down_at_the_start_is_waited_for(private_server):
    server = private_server("postgresql")
    with closing(SQLWorld(server.url)) as world:
        world.add("a", NOW)
        server.kill()
        world.engine.dispose()
        told, done = threading.Event(), threading.Event()
        store = SQLAlchemyDocumentStore(world.engine, world.table.name)
        with DocumentScheduler(store, lambda document: done.set(), on_error=lambda error: told.set()):
            assert told.wait(PATIENCE)
            server.restart()
            assert done.wait(PATIENCE)


# Redis


@pytest.fixture
def hashes(url_of):
    with closing(RedisWorld(url_of("redis"))) as world:
        yield world


def test_documents_that_others_have_written_are_found_after_a_rebuild(hashes):
    for number in range(3):
        hashes.client.hset(f"user[*]:{number}", mapping={"sleepUntil": int(NOW.timestamp()) + number, "n": number})
    hashes.client.hset("user[*]:none", "n", 7)
    hashes.client.hset("user[*]:odd", "sleepUntil", "tomorrow")
    hashes.client.hset(b"user[*]:\xff", "sleepUntil", int(NOW.timestamp()) + 9)
    hashes.client.hset("userX:1", "sleepUntil", 0)
    hashes.client.set("user[*]:text", "no hash")
    assert hashes.store.lock_next(NOW, UNTIL) is None
    assert hashes.store.rebuild() == 4
    assert hashes.store.rebuild() == 4
    taken = [hashes.store.lock_next(NOW + MINUTE, UNTIL).id for _ in range(4)]
    assert taken == ["0", "1", "2", b"\xff"]
    assert hashes.store.lock_next(NOW + MINUTE, UNTIL) is None
    assert [bad.id for bad in hashes.store.malformed(10)] == ["odd"]


def test_what_the_hash_says_counts_and_not_the_index(hashes):
    for name in ("postponed", "cleared", "gone", "odd", "replaced"):
        hashes.add(name, NOW - MINUTE)
    hashes.client.hset("user[*]:postponed", "sleepUntil", (NOW + MINUTE).timestamp())
    hashes.client.hset("user[*]:cleared", "sleepUntil", "")
    hashes.client.hset("user[*]:odd", "sleepUntil", "tomorrow")
    hashes.client.delete("user[*]:gone", "user[*]:replaced")
    hashes.client.set("user[*]:replaced", "no hash")
    assert hashes.store.lock_next(NOW, UNTIL) is None
    assert hashes.store.lock_next(NOW + MINUTE, UNTIL).id == "postponed"
    assert hashes.store.lock_next(NOW + MINUTE, UNTIL) is None


def test_a_long_queue_of_documents_that_are_gone_is_got_over(hashes):
    for number in range(450):
        hashes.client.zadd("user[*]:goscheduler:due", {f"gone-{number}": number})
    hashes.add("real", NOW)
    assert hashes.store.lock_next(NOW, UNTIL).id == "real"


@pytest.mark.parametrize("value", ["1767225600000", "9" * 18, "1e9", "0x10", "nan", "-", "12 ", "2026-01-01"])
def test_a_number_that_is_no_time_in_seconds_is_told_of(hashes, value):
    hashes.client.hset("user[*]:odd", "sleepUntil", value)
    assert not hashes.store.index("odd")
    (told,) = hashes.store.malformed(10)
    assert (told.id, told.value) == ("odd", value)
    assert "seconds" in told.expected
    with pytest.raises(InvalidArgument, match="sleepUntil"):
        hashes.store.add("other", {"sleepUntil": value})
    assert hashes.ids() == {"odd"}


def test_values_are_written_as_redis_has_them(hashes):
    hashes.add("a", NOW + timedelta(microseconds=1999), autoRemove=True, interval=None, n=5, raw=b"\xff")
    document = hashes.store.lock_next(NOW + MINUTE, UNTIL)
    assert document.sleep_until == NOW + timedelta(milliseconds=1)
    assert (document.interval, document.auto_remove) == (None, "1")
    assert (document.content["n"], document.content["raw"]) == ("5", b"\xff")
    assert hashes.store.update(document, None)
    assert hashes.client.hget("user[*]:a", "sleepUntil") == b""


def test_an_end_of_repetition_is_a_number_too_and_text_is_refused_later(hashes):
    hashes.add("a", NOW, repeatUntil=NOW + MINUTE)
    hashes.add("b", NOW, repeatUntil="tomorrow")
    found = {document.id: document.repeat_until for document in (hashes.store.lock_next(NOW, UNTIL) for _ in range(2))}
    assert found == {"a": NOW + MINUTE, "b": "tomorrow"}


def test_a_condition_leaves_other_hashes_alone(hashes):
    for number in range(450):  # more than one step looks at
        hashes.add(f"b-{number}", NOW - MINUTE, tenant="b", on=True)
    for name, fields in {"off": {"on": False}, "late": {"on": True}, "own": {"on": True, "draft": ""}}.items():
        hashes.add(name, NOW + MINUTE if name == "late" else NOW, tenant="a", **fields)
    store = RedisDocumentStore(hashes.client, "user[*]:", condition={"tenant": "a", "on": True, "draft": None})
    assert store.lock_next(NOW, UNTIL).id == "own"
    assert store.lock_next(NOW, UNTIL) is None
    assert hashes.store.lock_next(NOW, UNTIL).id.startswith("b-")


def test_lists_and_counts_pass_over_other_hashes_and_those_that_are_gone(hashes):
    for number in range(450):
        hashes.client.hset(f"user[*]:b-{number}", mapping={"sleepUntil": int(NOW.timestamp()) - 500, "tenant": "b"})
        hashes.store.index(f"b-{number}")
    for number in range(1100):
        hashes.client.zadd("user[*]:goscheduler:due", {f"gone-{number}": number})
    for number in range(3):
        hashes.add(f"a-{number}", NOW - number * MINUTE, tenant="a")
    store = RedisDocumentStore(hashes.client, "user[*]:", condition={"tenant": "a"})
    assert [each.id for each in store.upcoming(2)] == ["a-2", "a-1"]
    assert [each.id for each in store.upcoming(10)] == ["a-2", "a-1", "a-0"]
    assert [store.count_due(NOW - MINUTE, cap) for cap in (1, 2)] == [(1, False), (2, True)]
    assert hashes.store.count_due(NOW, 1000) == (453, True)
    assert hashes.client.zcard("user[*]:goscheduler:due") == 1553, "nothing was changed"


def test_a_list_shows_what_the_hash_says(hashes):
    for name in ("moved", "cleared", "odd", "same"):
        hashes.add(name, NOW)
    hashes.client.hset("user[*]:moved", "sleepUntil", (NOW - MINUTE).timestamp())
    hashes.client.hset("user[*]:cleared", "sleepUntil", "")
    hashes.client.hset("user[*]:odd", "sleepUntil", "tomorrow")
    assert [(each.id, each.sleep_until) for each in hashes.store.upcoming(10)] == [
        ("moved", NOW - MINUTE), ("same", NOW),
    ]  # fmt: skip
    assert hashes.store.count_due(NOW, 10) == (2, True)


def test_an_index_that_is_behind_does_not_hide_a_wanted_document(hashes):
    for name in ("moved", "wanted"):
        hashes.add(name, NOW - MINUTE, tenant=name)
    hashes.client.hset("user[*]:moved", "sleepUntil", NOW.timestamp())
    store = RedisDocumentStore(hashes.client, "user[*]:", condition={"tenant": "wanted"})
    assert store.lock_next(NOW, UNTIL).id == "wanted"
    assert store.lock_next(NOW, UNTIL) is None


def test_only_wanted_hashes_without_a_time_are_told_of(hashes):
    for name in "ab":
        hashes.client.hset(f"user[*]:{name}", mapping={"sleepUntil": "tomorrow", "tenant": name})
        hashes.store.index(name)
    store = RedisDocumentStore(hashes.client, "user[*]:", condition={"tenant": "a"})
    assert [bad.id for bad in store.malformed(10)] == ["a"]
    assert [bad.id for bad in hashes.store.malformed(10)] == ["a", "b"]


@pytest.mark.parametrize("gone", ["the document", "its time"])
def test_a_hash_that_was_mended_before_it_was_told_of_is_not_told_of(hashes, gone):
    for name in ("mended", "odd"):
        hashes.client.hset(f"user[*]:{name}", mapping={"sleepUntil": "tomorrow", "tenant": "a"})
        hashes.store.index(name)
    if gone == "the document":
        hashes.client.delete("user[*]:mended")
    else:
        hashes.client.hdel("user[*]:mended", "sleepUntil")
    assert [bad.id for bad in hashes.store.malformed(10)] == ["odd"]


@pytest.mark.parametrize("condition", ["tenant = 'a'", {1: "a"}, {"tenant": {"$gt": 5}}, {"tenant": ["a"]}])
def test_a_condition_that_redis_cannot_compare_is_refused(condition):
    with pytest.raises(TypeError, match="condition"):
        RedisDocumentStore(redis.Redis(), condition=condition)


@pytest.mark.parametrize("id", ["", None, 5, "goscheduler:due"])
def test_an_id_that_cannot_be_one_is_refused(hashes, id):
    with pytest.raises(InvalidArgument, match="id"):
        hashes.store.add(id, {"sleepUntil": NOW})


def test_a_client_or_prefix_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="client"):
        RedisDocumentStore(redis.asyncio.Redis())
    with pytest.raises(InvalidArgument, match="redis://") as refused:
        RedisDocumentStore("http://:secret@host")
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidArgument, match="prefix"):
        RedisDocumentStore(redis.Redis(), "")
    with pytest.raises(TypeError, match="prefix"):
        RedisDocumentStore(redis.Redis(), 5)


def test_a_url_is_enough(url_of, hashes):
    store = RedisDocumentStore(url_of("redis"), "user[*]:")
    store.add("a", {"sleepUntil": NOW})
    assert store.lock_next(NOW, UNTIL).id == "a"
    store.close()


def test_naive_dates_are_utc_in_redis_too(hashes):
    hashes.add("a", datetime(2026, 5, 4, 12))
    assert hashes.store.lock_next(NOW, UNTIL).sleep_until == NOW


@pytest.mark.parametrize("address", ["redis://localhost/0", "redis+sentinel://localhost/main/0"])
def test_a_client_made_of_an_address_does_not_lock_a_second_document_because_an_answer_was_lost(address):
    store = RedisDocumentStore(address)
    connection = store._client.connection_pool.make_connection()
    assert connection.retry._retries == 0
    store.close()
