"""The model of stores on MongoDB, for several files of tests."""

from __future__ import annotations

import itertools

from goscheduler.jobstores.mongodb import MongoDBJobStore
from goscheduler.testing.model import StoreMachine

NUMBERS = itertools.count()


class MongoDBMachine(StoreMachine):
    decides_apart = True
    url = ""

    def make_store(self):
        self.collection = f"jobs{next(NUMBERS)}"
        return MongoDBJobStore.from_url(self.url, collection=self.collection, server_time=False)

    def make_peer(self, store):
        return MongoDBJobStore.from_url(self.url, collection=self.collection, server_time=False)
