"""The life of runs, in any order of steps, against a model: two schedulers that share a store."""

from __future__ import annotations

from functools import cached_property

import pytest
from behaviour_doubles import PickledStore

from goscheduler.jobstores._local.reading import LocalNotes
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.testing.expectation import Terms
from goscheduler.testing.model import StoreMachine, against_the_model

pytestmark = pytest.mark.timeout(3600)  # as long as GOSCHEDULER_MODEL_EXAMPLES wants


class KeptNotes:
    """Notes of a store that is one object for all who have it."""

    @cached_property
    def _notes(self):
        return LocalNotes()


class SharedMemoryStore(KeptNotes, MemoryJobStore):
    """A memory store that several schedulers of this process use."""

    shared = True

    def shutdown(self) -> None:
        """Stay as it is: the others go on."""


class SharedPickledStore(KeptNotes, PickledStore):
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


def test_the_model_lets_runs_of_one_job_start_in_the_order_of_their_ranks():
    # A redriven run of an older definition that allows two runs waits beside a retry of the present one, which
    # allows one and goes first by its priority.
    machine = SharedMemoryMachine()
    machine.begin(jobs=[])
    older = {"overlap": "skip", "delay": 0, "timeout": None, "on_crash": "rerun", "max_crashes": 1}
    machine.add_several(once=True, period=1, terms=Terms(max_instances=2, attempts=1, priority=1, **older), who=0)
    for _ in range(2):
        machine.crash(ends=False, who=0)
        machine.come_back()
    machine.pause_or_resume_scheduler(who=0)
    machine.pause_or_resume_scheduler(who=1)
    machine.add_several(once=False, period=1, terms=Terms(max_instances=1, attempts=2, priority=0, **older), who=0)
    machine.let_time_pass(seconds=2, who=0)
    machine.run_now(job_id="a", who=0)
    machine.pause_or_resume_scheduler(who=0)
    machine.redrive_all(who=1)
    machine.time_out(pick=1)
    machine.both_have_the_same_runs()
    machine.teardown()
