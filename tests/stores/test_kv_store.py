"""What the stores on etcd and ZooKeeper have in common, on a server in memory."""

from __future__ import annotations

import pytest
from kv_double import MemoryKeyValue

from goscheduler.jobstores._kv_owners import TimedHeartbeats
from goscheduler.jobstores._kv_store import KeyValueJobStore
from goscheduler.testing.contract import StoreContract
from goscheduler.testing.model import StoreMachine, against_the_model


def store_on(server: MemoryKeyValue) -> KeyValueJobStore:
    return KeyValueJobStore(server, TimedHeartbeats(server), None, True)


class TestContract(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self):
        self.server = MemoryKeyValue()

    def make_store(self):
        return store_on(self.server)

    def make_peer(self, store):
        return store_on(self.server)


class Machine(StoreMachine):
    def make_store(self):
        self.server = MemoryKeyValue()
        return store_on(self.server)

    def make_peer(self, store):
        return store_on(self.server)


TestAgainstTheModel = against_the_model(Machine, examples=20)
