"""The MongoDB store under the contract of all stores, on a real server."""

from __future__ import annotations

import itertools

import pytest

from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.testing.contract import StoreContract
from goscheduler.testing.model import StoreMachine, against_the_model

NUMBERS = itertools.count()


class TestMongoDB(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, mongodb, fresh):
        self.space = fresh(mongodb)

    def make_store(self):
        return MongoDBJobStore.from_url(self.space.url, server_time=False)


class MongoDBMachine(StoreMachine):
    url = ""

    def make_store(self):
        self.collection = f"jobs{next(NUMBERS)}"
        return MongoDBJobStore.from_url(self.url, collection=self.collection, server_time=False)

    def make_peer(self, store):
        return MongoDBJobStore.from_url(self.url, collection=self.collection, server_time=False)


class TestMongoDBAgainstTheModel(against_the_model(MongoDBMachine, examples=10, steps=40)):
    @pytest.fixture(autouse=True)
    def _place(self, mongodb, fresh):
        MongoDBMachine.url = fresh(mongodb).url
