"""When each job had to fire, by the calls of the client alone; the product's own triggers have no part in it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from history import History, Operation, Row, micros

ON, MAYBE, OFF = "on", "maybe", "off"

#: What a schedule of the workload says: each whole minute.
EACH_MINUTE: Row = {"kind": "interval", "every": 60.0, "first": 0.0}


@dataclass(slots=True)
class Change:
    """From ``t`` on a job is in a state, with a specification."""

    t: float
    state: str
    spec: Row
    by: Operation
    removal: bool = False


@dataclass(slots=True)
class Target:
    """A fire time that the client's calls lead to."""

    job: str
    at: int
    """Microseconds since 1970."""
    state: str
    spec: Row
    since: float = 0.0
    """From when on the job could fire for it, if that was later."""


@dataclass
class Schedule:
    """What the client has said about one job, in order."""

    job: str
    changes: list[Change] = field(default_factory=list)

    @property
    def specs(self) -> list[Row]:
        found: list[Row] = []
        for change in self.changes:
            if change.spec and change.spec not in found:
                found.append(change.spec)
        return found

    @property
    def spec(self) -> Row:
        """The last specification."""
        return self.specs[-1] if self.specs else {}

    def state(self, t: float) -> str:
        place = bisect_right([change.t for change in self.changes], t)
        return self.changes[place - 1].state if place else OFF

    def state_about(self, t: float, epsilon: float) -> str:
        """Return the state around a moment; if it changes there, anything may be."""
        states = {self.state(t - epsilon), self.state(t + epsilon)}
        states |= {change.state for change in self.changes if t - epsilon <= change.t <= t + epsilon}
        return states.pop() if len(states) == 1 else MAYBE

    def stays(self, begin: float, end: float) -> bool:
        """Tell whether nobody has touched the job in a window."""
        return not any(begin <= change.t <= end for change in self.changes)

    def removals(self) -> list[Change]:
        """Return when the job was removed, or may have been."""
        return [change for change in self.changes if change.removal]

    def apply(self, operation: Operation, spec: Row | None, state: str, removal: bool = False) -> None:
        """Note what a call leads to: while it goes on anything may be, and afterwards too if it has no answer."""
        if operation.result == "fail":
            return
        spec = spec if spec is not None else self.spec
        self.changes.append(Change(operation.t0, MAYBE, spec, operation, removal and operation.result == "unknown"))
        if operation.result == "ok":
            self.changes.append(Change(operation.t1, state, spec, operation, removal))


def schedules_of(history: History) -> dict[str, Schedule]:
    """Return job id → what the client has said about it."""
    schedules: dict[str, Schedule] = {}
    synced: set[str] = set()

    def of(job: str) -> Schedule:
        return schedules.setdefault(job, Schedule(job))

    for operation in history.operations:
        for job, spec, state, removal in _effects(operation, synced):
            of(job).apply(operation, spec, state, removal)
    for schedule in schedules.values():
        schedule.changes.sort(key=lambda change: change.t)
    return schedules


def _effects(operation: Operation, synced: set[str]) -> Iterator[tuple[str, Row | None, str, bool]]:
    """Yield (job, specification, state, whether that is a removal) for each job that a call concerns."""
    name, spec = operation.op, operation.spec
    if name == "add_job" and operation.id is not None:
        yield operation.id, spec, ON, False
    elif name in ("add_jobs", "sync_periodic"):
        jobs: dict[str, Row] = spec.get("jobs", {})
        if name == "sync_periodic" and operation.result != "fail":
            jobs = dict.fromkeys(spec["schedules"], EACH_MINUTE)
            for job in synced - set(jobs):
                yield job, None, OFF, True
            synced |= set(jobs)
        for job, each in jobs.items():
            yield job, each, ON, False
    elif name in ("remove_job", "pause_job", "bulk_pause", "resume_job", "bulk_resume"):
        state = ON if "resume" in name else OFF
        ids = spec.get("ids") or ([operation.id] if operation.id is not None else [])
        for job in ids:
            yield job, None, state, name == "remove_job"


def targets_of(history: History, schedule: Schedule) -> dict[int, Target]:
    """Return fire time → what is to be said of it, up to the final read."""
    targets: dict[int, Target] = {}
    for number, spec in enumerate(schedule.specs):
        since = min(change.t for change in schedule.changes if change.spec == spec)
        possible = _possible_since(schedule, spec, history.setup.epsilon)
        for at in _times(spec, history, since):
            t = history.mono(at / 1e6)
            state = schedule.state_about(max(t, possible), history.setup.epsilon)
            if len(schedule.specs) > 1 and state == ON:
                state = ON if _spec_at(schedule, t) is schedule.specs[number] else MAYBE
            if at not in targets or targets[at].state != ON:
                targets[at] = Target(schedule.job, at, state, spec, possible)
    return targets


def _times(spec: Row, history: History, since: float) -> Iterator[int]:
    if spec.get("kind") == "date":
        yield micros(spec["at"])
        return
    if spec.get("kind") != "interval":
        return
    first, every = micros(spec["first"]), micros(spec["every"])
    offset = history.setup.wall_offset
    skip = max(0, math.floor((micros(since + offset) - first) / every))
    end = micros(history.setup.read + offset)
    yield from range(first + skip * every, end + 1, every)


def _possible_since(schedule: Schedule, spec: Row, epsilon: float) -> float:
    """Return when a job was there for certain whose date may have passed by then: it fires at once."""
    if spec.get("kind") != "date":
        return 0.0
    answers = [change.t for change in schedule.changes if change.spec == spec and change.by.op.startswith("add")]
    return answers[-1] + 2 * epsilon if answers else 0.0


def _spec_at(schedule: Schedule, t: float) -> Row:
    place = bisect_right([change.t for change in schedule.changes], t)
    return next(each for each in schedule.specs if each == schedule.changes[max(0, place - 1)].spec)


def manual_calls(history: History) -> dict[str, list[Operation]]:
    """Return job id → the calls that asked for a run at once."""
    calls: dict[str, list[Operation]] = defaultdict(list)
    for operation in history.operations:
        if operation.op == "run_now" and operation.result != "fail" and operation.id is not None:
            calls[operation.id].append(operation)
    return calls
