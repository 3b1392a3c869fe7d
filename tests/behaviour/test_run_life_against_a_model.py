"""The life of runs, in any order of steps, against a model: two schedulers that share a store."""

from __future__ import annotations

import pytest
from behaviour_doubles import PickledStore

from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.testing.model import StoreMachine, against_the_model

pytestmark = pytest.mark.timeout(3600)  # as long as GOSCHEDULER_MODEL_EXAMPLES wants


class SharedMemoryStore(MemoryJobStore):
    """A memory store that several schedulers of this process use."""

    shared = True

    def shutdown(self) -> None:
        """Stay as it is: the others go on."""


class SharedPickledStore(PickledStore):
    """The base class's runs, shared in the same way."""

    shared = True


class SharedMemoryMachine(StoreMachine):
    def make_store(self):
        return SharedMemoryStore()

    def make_peer(self, store):
        return store


class SharedPickleMachine(SharedMemoryMachine):
    def make_store(self):
        return SharedPickledStore()


TestTwoSchedulersOnAMemoryStore = against_the_model(SharedMemoryMachine, examples=50)
TestTwoSchedulersOnASimpleStore = against_the_model(SharedPickleMachine, examples=50)
