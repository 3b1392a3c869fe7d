"""The store on ZooKeeper under the contract of all stores, on a real server, and what is special about it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from goscheduler.jobstores.zookeeper import ZooKeeperJobStore
from goscheduler.testing.contract import StoreContract
from goscheduler.testing.model import StoreMachine, against_the_model
from goscheduler.testing.model_limits import limits_against_the_model

#: For how many seconds a session is kept. Nothing dies here, but a busy machine may let this process stand still.
SESSION = 60


def store_at(url):
    return ZooKeeperJobStore(url=url, server_time=False, timeout=SESSION)


class TestContract(StoreContract):
    long_history = 300  # test_kv_store.py has more, on a server in memory

    @pytest.fixture(autouse=True)
    def _place(self, zookeeper, fresh):
        space = fresh(zookeeper)
        self.url = f"{space.url}/{space.name}"

    def make_store(self):
        return store_at(self.url)

    def make_peer(self, store):
        return self.make_store()


class Machine(StoreMachine):
    decides_apart = True
    places: Iterator[str]

    def make_store(self):
        self.url = next(self.places)
        return store_at(self.url)

    def make_peer(self, store):
        return store_at(self.url)


class TestAgainstTheModel(against_the_model(Machine, examples=4, steps=30)):
    @pytest.fixture(autouse=True)
    def _places(self, zookeeper, fresh):
        space = fresh(zookeeper)
        Machine.places = (f"{space.url}/{space.name}/{number}" for number in count())


@pytest.mark.timeout(300)
class TestLimitsAgainstTheModel(limits_against_the_model(Machine, examples=4, steps=15)):
    @pytest.fixture(autouse=True)
    def _places(self, zookeeper, fresh):
        space = fresh(zookeeper)
        Machine.places = (f"{space.url}/{space.name}/{number}" for number in count())
