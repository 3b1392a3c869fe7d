"""Schedulers whose runs a test ends as it likes, for :mod:`goscheduler.testing.model`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_LEASE_LOST
from goscheduler.executors.base import BaseExecutor
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.runs.model import Outcome, OutcomeKind, Run
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.expectation import GRACE
from goscheduler.testing.recorder import EventRecorder
from goscheduler.testing.scheduler import ManualScheduler

#: How long the leases of the schedulers are, in seconds.
LEASE = 60


class HeldRuns(BaseExecutor):
    """Takes runs and does not run them; the machine says how they end."""

    grace_seconds = GRACE

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self.held: dict[tuple[str, int], Run] = {}
        self.given_up: list[Run] = []

    def submit(self, run: Run) -> None:
        refusal = self._begin(run)
        if refusal is None:
            self.held[run.id, run.fence] = run
        else:
            self._host.report(run, refusal)

    def cancel(self, run: Run, reason: str) -> bool:
        return (run.id, run.fence) in self.held

    def give_up(self, run: Run) -> None:
        self.given_up.append(self.held.pop((run.id, run.fence)))

    def end(self, run: Run, outcome: Outcome) -> None:
        """Report a run, if it is still here."""
        if self.held.pop((run.id, run.fence), None) is not None:
            self._host.report(run, outcome)

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        for run in list(self.held.values()):
            self.end(run, Outcome(OutcomeKind.SNOOZED, reason="the scheduler shuts down"))


class Troubles(logging.Handler):
    """Keeps the errors that a scheduler has survived: with these doubles there should be none."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


@dataclass(eq=False)
class Host:
    """A scheduler that uses a store, as a process would."""

    name: str
    store: BaseJobStore
    scheduler: ManualScheduler
    executor: HeldRuns
    heard: EventRecorder
    paused: bool = False
    lost: bool = False
    """Whether its lease has lapsed without its knowing."""
    zombies: list[Run] = field(default_factory=list)
    """What it had when its lease lapsed."""

    @property
    def may_claim(self) -> bool:
        return not (self.paused or self.lost)


def start_host(name: str, store: BaseJobStore, clock: ManualClock, troubles: Troubles) -> Host:
    """Return a scheduler that uses ``store`` and has begun."""
    executor = HeldRuns()
    logger = logging.Logger(f"goscheduler.testing.{name}", logging.WARNING)
    logger.addHandler(troubles)
    scheduler = ManualScheduler(
        clock=clock, jobstores={"default": store}, executors={"default": executor}, lease=LEASE, logger=logger
    )
    heard = EventRecorder(scheduler, EVENT_LEASE_LOST | EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    scheduler.start()
    return Host(name, store, scheduler, executor, heard)
