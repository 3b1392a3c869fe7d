"""The stores on etcd and ZooKeeper under the contract of all stores and against its model, on real servers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from goscheduler.jobstores.etcd import EtcdJobStore
from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.testing.contract import StoreContract
from goscheduler.testing.model import StoreMachine, against_the_model
from goscheduler.testing.model_limits import limits_against_the_model

#: For how many seconds a session of ZooKeeper is kept: a busy machine may let this process stand still.
SESSION = {"timeout": 60}


class TestEtcd(StoreContract):
    long_history = 300  # test_kv_store.py has more, on a server in memory
    kind, store_class = "etcd", EtcdJobStore
    options: dict[str, int] = {}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _place(self, shared_server, fresh):
        space = fresh(shared_server(self.kind))
        self.url = f"{space.url}/{space.name}"

    def make_store(self):
        return self.store_class(url=self.url, server_time=False, **self.options)

    def make_peer(self, store):
        return self.make_store()


class TestZooKeeper(TestEtcd):
    kind, store_class, options = "zookeeper", ZooKeeperJobStore, SESSION


class EtcdMachine(StoreMachine):
    decides_apart = True
    places: Iterator[str]
    store_class = EtcdJobStore
    options: dict[str, int] = {}  # noqa: RUF012

    def make_store(self):
        self.url = next(self.places)
        return self.make_peer(None)

    def make_peer(self, store):
        return self.store_class(url=self.url, server_time=False, **self.options)


class ZooKeeperMachine(EtcdMachine):
    store_class, options = ZooKeeperJobStore, SESSION


class _OnServer:
    kind, machine = "etcd", EtcdMachine

    @pytest.fixture(autouse=True)
    def _places(self, shared_server, fresh):
        space = fresh(shared_server(self.kind))
        self.machine.places = (f"{space.url}/{space.name}/{number}" for number in count())


class TestEtcdAgainstTheModel(_OnServer, against_the_model(EtcdMachine, examples=4, steps=30)):
    pass


@pytest.mark.timeout(300)
class TestEtcdLimitsAgainstTheModel(_OnServer, limits_against_the_model(EtcdMachine, examples=4, steps=15)):
    pass


class TestZooKeeperAgainstTheModel(_OnServer, against_the_model(ZooKeeperMachine, examples=4, steps=30)):
    kind, machine = "zookeeper", ZooKeeperMachine


@pytest.mark.timeout(300)
class TestZooKeeperLimitsAgainstTheModel(_OnServer, limits_against_the_model(ZooKeeperMachine, examples=4, steps=15)):
    kind, machine = "zookeeper", ZooKeeperMachine
