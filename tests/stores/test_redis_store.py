"""The Redis store under the contract of all stores and against the model, on a real server; and what is special to it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.testing.contract import StoreContract
from goscheduler.testing.model import StoreMachine, against_the_model


class TestRedis(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, redis_server, fresh):
        self.url = fresh(redis_server).url

    def make_store(self):
        return RedisJobStore(url=self.url, server_time=False)


class RedisMachine(StoreMachine):
    url = ""

    def make_store(self):
        prefix = f"machine-{uuid4().hex}"
        return RedisJobStore(url=self.url, prefix=prefix, server_time=False)

    def make_peer(self, store):
        return RedisJobStore(url=self.url, prefix=store._link.keys[1:-2], server_time=False)


class TestRedisAgainstTheModel(against_the_model(RedisMachine, examples=12, steps=40)):
    @pytest.fixture(autouse=True)
    def _place(self, redis_server, fresh):
        RedisMachine.url = fresh(redis_server).url
