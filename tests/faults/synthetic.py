"""Builds histories by hand, for the tests of the checker."""

from __future__ import annotations

from typing import Any

from history import (
    Delivery,
    Event,
    Execution,
    Fault,
    Guarded,
    History,
    Hold,
    Letter,
    Life,
    Operation,
    Record,
    Row,
    Setup,
    Waiting,
)

#: What the wall clock is ahead of the monotonic one.
OFFSET = 1_700_000_000.0
LEASE = 3.0


class Synthetic:
    """A history in the making. Times are seconds from the begin of the run."""

    def __init__(self, nodes: int = 3, read: float = 120.0, **setup: Any) -> None:
        given = {
            "store": "postgresql", "heal": read - 30, "recovery": LEASE + 5, "resume": 5.0, "epsilon": 0.02,
            "lease": LEASE, **setup,
        }  # fmt: skip
        self.history = History(Setup(seed=1, wall_offset=OFFSET, read=read, **given))
        for number in range(nodes):
            self.life(f"n{number}")
        self._fence = 0

    def life(self, node: str, life: int = 1, ready: float = 0.0, **ends: float) -> Life:
        """Add a process."""
        found = Life(node, life, ready, **ends)
        self.history.lives.append(found)
        return found

    def call(
        self, op: str, id: str | None, t0: float, t1: float | None = None, result: str = "ok", **spec: Any
    ) -> None:
        """Add a call of the client."""
        t1 = t0 + 0.01 if t1 is None else t1
        self.history.operations.append(Operation(t0, t1, op, id, result, dict(spec)))

    def interval(self, job: str, every: float = 1.0, first: float = 1.0, result: str = "ok", **spec: Any) -> None:
        """Let the client add a job that fires again and again."""
        self.call("add_job", job, 0.5, result=result, kind="interval", every=every, first=OFFSET + first, **spec)

    def date(self, job: str, at: float, added: float = 0.5, result: str = "ok", **spec: Any) -> None:
        """Let the client add a job that fires once."""
        self.call("add_job", job, added, result=result, kind="date", at=OFFSET + at, **spec)

    def run(
        self, job: str, at: float, *, t: float | None = None, seconds: float | None = 0.05, node: str = "n0",
        life: int = 1, attempt: int = 1, fence: int | None = None, run: str | None = None, outcome: str = "ok",
        record: str | None = "", **fields: Any,
    ) -> Execution:  # fmt: skip
        """Add a call of the job's function and its record; without ``seconds`` it has no end."""
        self._fence = max(self._fence + 1, fence or 0)
        fence = self._fence if fence is None else fence
        run, fire, t = run or f"{job}-{at:g}", f"{job}@{at:g}", at + 0.01 if t is None else t
        call = Execution(t, job, run, fire, OFFSET + at, attempt, fence, node, life)
        if seconds is not None:
            call.end, call.outcome = t + seconds, outcome
        self.history.executions.append(call)
        if record == "":
            record = {"ok": "succeeded", "error": "failed", "cancelled": "cancelled"}[outcome] if seconds else "lost"
        if record is not None:
            over = t + (seconds or 0) + 0.001
            self.record(job, at, record, run=run, fence=fence, attempt=attempt, started=t, t=over, **fields)
        return call

    def record(
        self, job: str, at: float, outcome: str, *, run: str | None = None, fence: int = 0, attempt: int = 1,
        started: float | None = None, t: float | None = None, coalesced: int = 0, **fields: Any,
    ) -> None:  # fmt: skip
        """Add a record of the product's history."""
        begun = None if started is None else OFFSET + started
        self.history.records.append(Record(
            job, run or f"{job}-{at:g}", f"{job}@{at:g}", OFFSET + at, attempt, fence, outcome, "owner", begun,
            OFFSET + (at if t is None else t), coalesced, **fields,
        ))  # fmt: skip

    def runs(self, job: str, every: float = 1.0, first: float = 1.0, until: float | None = None, **fields: Any) -> None:
        """Add all firings of a job."""
        at = first
        while at <= (self.history.setup.read if until is None else until) + 1e-9:
            self.run(job, at, **fields)
            at += every

    def fault(
        self, kind: str, begin: float, end: float, node: str | None = None, life: int | None = 1, detail: Any = None
    ) -> Fault:
        """Add a disturbance; a kill ends the process."""
        fault = Fault(kind, node, life, begin, end, detail)
        self.history.faults.append(fault)
        if kind == "kill":
            next(each for each in self.history.lives if (each.node, each.life) == (node, life)).killed = begin
        return fault

    def waiting(self, job: str, at: float, owner: str | None = None, due: float | None = None) -> None:
        """Add a run that has not ended at the final read."""
        row = Waiting(f"{job}-{at:g}", job, OFFSET + at, None if due is None else OFFSET + due, 1, owner)
        (self.history.pending if owner is None else self.history.live).append(row)

    def letter(self, job: str, at: float, attempts: int = 1) -> None:
        """Add a dead letter."""
        self.history.dead.append(Letter(job, f"{job}-{at:g}", f"{job}@{at:g}", attempts))

    def left(self, job: str, next_run: float | None) -> None:
        """Add a job that is there at the final read."""
        row: Row = {"id": job, "next_run_time": None if next_run is None else OFFSET + next_run, "state": "scheduled"}
        self.history.jobs.append(row)

    def message(self, name: str, at: float, result: str = "ok") -> None:
        """Let the client schedule a message."""
        self.call("schedule_message", name, 0.5, result=result, at=OFFSET + at)

    def delivered(self, name: str, t: float, node: str = "n0", attempt: int = 1) -> None:
        self.history.deliveries.append(Delivery(t, name, node, 1, f"run-{name}", attempt))

    def document(self, name: str, t: float, end: float | None, node: str = "n0") -> None:
        self.history.documents.append(Hold(t, name, f"{t}", node, 1, end, end is not None))

    def lock(self, name: str, t: float, end: float | None, fence: int, node: str = "n0") -> None:
        self.history.locks.append(Hold(t, name, fence, node, 1, end, end is not None))

    def guarded(self, name: str, t: float, fence: int, accepted: bool, node: str = "n0") -> None:
        self.history.guarded.append(Guarded(t, name, fence, accepted, node, 1))

    def event(self, code: str, t: float, node: str = "n0", run: str | None = None) -> None:
        self.history.events.append(Event(t, code, node, 1, None, run))

    def build(self) -> History:
        """Return the history, in order."""
        history = self.history
        for rows in (history.executions, history.deliveries, history.documents, history.locks, history.guarded):
            rows.sort(key=lambda each: each.t)
        history.faults.sort(key=lambda each: each.begin)
        history.operations.sort(key=lambda each: each.t0)
        return history
