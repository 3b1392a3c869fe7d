"""A store that several schedulers share, and an executor whose runs begin and end when a test says so."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from behaviour_doubles import HoldingExecutor

from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.call import cancelled
from goscheduler.jobstores._local.reading import LocalNotes
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.runs.model import Outcome, OutcomeKind
from goscheduler.testing import ManualClock, ManualScheduler

LEASE = 30.0

FALLIBLE = ("fire_due", "claim_runs", "settle", "renew_owner", "recover_runs", "retire_owner")


class SharedStore(MemoryJobStore):
    """Keeps everything in memory for all schedulers that have it, and fails on demand."""

    shared = True

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, BaseException] = {}
        self.asked: list[str] = []
        self.renewals: Counter[str] = Counter()
        """Name of a thread → how often it has renewed."""
        self.renewed = threading.Semaphore(0)
        self.during_renewal: Any = None
        self._kept_notes = LocalNotes()

    @property
    def _notes(self) -> LocalNotes:
        """The notes, which all who have this store find: it is one object."""
        return self._kept_notes

    def shutdown(self) -> None:
        self.asked.append("shutdown")

    def owner_ids(self, now: Any) -> list[str]:
        return [owner.id for owner in self.owners(now)]


def _fallible(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        self.asked.append(name)
        if name == "renew_owner":
            self.renewals[threading.current_thread().name] += 1
            self.renewed.release()
            if self.during_renewal is not None:
                self.during_renewal()
        if name in self.faults:
            raise self.faults[name].with_traceback(None)  # or one that is raised often would gather frames
        return getattr(super(SharedStore, self), name)(*args)

    return method


for _name in FALLIBLE:
    setattr(SharedStore, _name, _fallible(_name))


class BegunExecutor(HoldingExecutor):
    """Begins each run at once; it goes on until the test ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def submit(self, run: Any) -> None:
        if self._host.may_start(run):
            super().submit(run)
        else:
            self._host.report(run, cancelled("not started"))

    def cancel(self, run: Any, reason: str) -> bool:
        self.told.append(reason)
        return True

    def finish(self, kind: OutcomeKind = OutcomeKind.SUCCEEDED) -> Any:
        run = self.held.pop(0)
        self._host.report(run, Outcome(kind, started_at=self._host.clock.now()))
        return run


class QueueingExecutor(HoldingExecutor):
    """Begins what it has been given when the test says so."""

    def begin(self) -> None:
        """Run everything that waits."""
        while self.held:
            run = self.held.pop(0)
            self._report(run, self._attempt(run))


class LateExecutor(HoldingExecutor):
    """Gives what it has been given to an executor in the manner of APScheduler 3 when the test says so."""

    def begin(self) -> None:
        while self.held:
            BaseExecutor.submit(self, self.held.pop(0))


class Cluster:
    """Schedulers that share a store and a clock; each lives as long as the test has it do its rounds."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = SharedStore()
        self.members: list[ManualScheduler] = []

    def join(self, executor: Any = None, **options: Any) -> ManualScheduler:
        """Return one more scheduler, started."""
        if executor is not None:
            options = {"executors": {"default": executor}, **options}
        member = ManualScheduler(clock=self.clock, jobstores={"default": self.store}, **options)
        member.start()
        self.members.append(member)
        return member

    def kill(self, member: ManualScheduler) -> None:
        """Have a scheduler do nothing any more, as after a crash."""
        self.members.remove(member)

    def advance(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass; all who live do a round after each step, another one first each time."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.clock.advance(min(step, end - self.clock.monotonic()))
            self.members.append(self.members.pop(0))
            for member in list(self.members):
                member.run_due()

    def outcomes(self, job_id: str = "job") -> list[OutcomeKind]:
        """Return how the attempts at a job ended, oldest first."""
        return [record.outcome for record in reversed(self.members[0].runs(job_id))]
