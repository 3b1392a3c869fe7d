"""A client or an engine may be given by a reference, as configuration files do."""

from __future__ import annotations

import pytest
from etcd3gw.client import Etcd3Client
from kazoo.client import KazooClient
from pymongo import MongoClient
from redis import Redis
from sqlalchemy import create_engine

from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.schedulers.background import BackgroundScheduler

engine = create_engine("sqlite://")
redis = Redis(socket_timeout=1)
mongodb = MongoClient(connect=False)
etcd = Etcd3Client()
zookeeper = KazooClient()

STORES = [
    (RedisJobStore, "redis", lambda store: store.redis, redis),
    (MongoDBJobStore, "mongodb", lambda store: store.client, mongodb),
    (EtcdJobStore, "etcd", lambda store: store._server.wire.client, etcd),
    (ZooKeeperJobStore, "zookeeper", lambda store: store._server.connection.given, zookeeper),
]


@pytest.mark.parametrize(("cls", "name", "used", "client"), STORES, ids=[name for _, name, _, _ in STORES])
def test_a_client_is_found_by_its_reference(cls, name, used, client):
    assert used(cls(client=f"{__name__}:{name}")) is client


def test_an_engine_of_a_configuration_is_found_by_its_reference():
    settings = {
        "apscheduler.jobstores.default": {"type": "sqlalchemy", "engine": f"{__name__}:engine", "tablename": "by_ref"}
    }
    scheduler = BackgroundScheduler(settings)
    scheduler.start(paused=True)
    scheduler.shutdown()
    with engine.connect() as connection:
        assert engine.dialect.has_table(connection, "by_ref_jobs")


@pytest.mark.parametrize("reference", ["nowhere:engine", f"{__name__}:nothing", "engine"])
@pytest.mark.parametrize(("cls", "option"), [(SQLAlchemyJobStore, "engine"), (RedisJobStore, "client")])
def test_a_reference_that_leads_nowhere_is_refused_by_its_name(cls, option, reference):
    with pytest.raises((LookupError, ValueError), match=reference):
        cls(**{option: reference})
