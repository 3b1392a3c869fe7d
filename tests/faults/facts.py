"""A history with what all rules ask of it, looked up once; and what a rule finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from causes import Causes
from history import Execution, History, Letter, Record, Row, Waiting, micros
from targets import Schedule, Target, manual_calls, schedules_of, targets_of

#: Outcomes of an attempt that has failed; the retry policy decides.
FAILURES = frozenset({"failed", "timed out"})
#: How often an owner may be lost before the run is a dead letter, unless the job says otherwise.
MAX_CRASHES = 3


@dataclass(slots=True)
class Violation:
    """A promise that was not kept, with what to look at."""

    kind: str
    subject: str
    """The job, message, document, lock or node."""
    text: str
    begin: float
    end: float
    fire: str | None = None
    """The firing, if the violation is about one."""
    nodes: tuple[str, ...] = ()


@dataclass
class Firing:
    """Everything that is known of one fire time of a job."""

    job: str
    at: int
    calls: list[Execution] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    fire: str = ""

    @property
    def runs(self) -> set[str]:
        return {each.run for each in [*self.calls, *self.records]}

    @property
    def succeeded(self) -> bool:
        """Whether there is evidence that it was done, in the ledger or in the product's history."""
        return any(call.outcome == "ok" for call in self.calls) or any(
            record.outcome == "succeeded" for record in self.records
        )

    def attempts(self) -> set[int]:
        return {call.attempt for call in self.calls} | {
            record.attempt for record in self.records if record.outcome not in ("skipped", "missed")
        }


class Facts:
    """What the rules look at."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.setup = history.setup
        self.causes = Causes(history)
        self.schedules = schedules_of(history)
        self.manual = manual_calls(history)
        self.firings: dict[tuple[str, int], Firing] = {}
        self._gather()

    def _gather(self) -> None:
        by_run: dict[str, Firing] = {}
        for call in self.history.executions:
            firing = self._firing(call.job, micros(call.at), call.fire)
            firing.calls.append(call)
            by_run[call.run] = firing
        for record in self.history.records:
            firing = self._firing(record.job, micros(record.at), record.fire)
            firing.records.append(record)
            by_run[record.run] = firing
        for letter in self.history.dead:
            if letter.run in by_run:
                by_run[letter.run].letters.append(letter)
        for waiting in [*self.history.live, *self.history.pending]:
            firing = by_run.get(waiting.id) or self._firing(waiting.job, micros(waiting.at), "")
            firing.waiting.append(waiting)

    def _firing(self, job: str, at: int, fire: str) -> Firing:
        firing = self.firings.get((job, at))
        if firing is None:
            firing = self.firings[job, at] = Firing(job, at)
        firing.fire = firing.fire or fire
        return firing

    @cached_property
    def by_job(self) -> dict[str, list[Firing]]:
        """Job id → its firings, in order of their times."""
        found: dict[str, list[Firing]] = defaultdict(list)
        for firing in sorted(self.firings.values(), key=lambda each: each.at):
            found[firing.job].append(firing)
        return found

    @cached_property
    def targets(self) -> dict[str, dict[int, Target]]:
        """Job id → its fire times by the calls of the client."""
        return {job: targets_of(self.history, schedule) for job, schedule in self.schedules.items()}

    @cached_property
    def known(self) -> list[Firing]:
        """The firings of jobs that the client has added: those of messages and the like are judged otherwise."""
        return [firing for firing in self.firings.values() if firing.job in self.schedules]

    @cached_property
    def _last_starts(self) -> dict[str, float]:
        """Job, or limit with a mark before it → when a run of it was started for the last time."""
        last: dict[str, float] = {}
        for call in self.history.executions:
            schedule = self.schedules.get(call.job)
            limits = [] if schedule is None else schedule.spec.get("limits") or []
            for key in [call.job, *(f"limit {name}" for name, _ in limits)]:
                last[key] = max(call.t, last.get(key, 0.0))
        return last

    def last_start(self, job: str) -> float:
        """Return when a run of a job, or of one that shares a limit with it, was started for the last time."""
        schedule = self.schedules.get(job)
        limits = [] if schedule is None else schedule.spec.get("limits") or []
        return max(self._last_starts.get(key, 0.0) for key in [job, *(f"limit {name}" for name, _ in limits)])

    def spec(self, firing: Firing) -> Row:
        """Return the specification that a firing follows."""
        target = self.targets.get(firing.job, {}).get(firing.at)
        return target.spec if target is not None else self.schedules[firing.job].spec

    def mono(self, at: int) -> float:
        return self.history.mono(at / 1e6)

    def slack(self, spec: Row) -> float:
        """Return how many seconds after its time a firing must be over at the latest, if nothing is disturbed."""
        tries = min(int(spec.get("fails", 0)) + 1, int(spec.get("attempts", 1)))
        each = float(spec.get("seconds", 0)) + float(spec.get("retry_delay", 0))
        skew = 6.0 if any(fault.kind.startswith("clock") for fault in self.history.faults) else 0.0
        return self.setup.recovery + tries * each + skew

    def removed_by(self, schedule: Schedule | None) -> float | None:
        """Return from when on a job may have been removed, or None if nobody asked for that."""
        removals = [] if schedule is None else schedule.removals()
        return min(change.by.t0 for change in removals) if removals else None

    def was_removed(self, job: str) -> bool:
        return self.removed_by(self.schedules.get(job)) is not None

    def about(self, kind: str, firing: Firing, text: str, calls: Iterable[Execution] = ()) -> Violation:
        """Return a violation that concerns one firing."""
        chosen = list(calls) or firing.calls
        times = [call.t for call in chosen] + [call.end for call in chosen if call.end is not None]
        times = times or [self.mono(firing.at)]
        nodes = tuple(dict.fromkeys(call.node for call in chosen))
        return Violation(kind, firing.job, text, min(times), max(times), firing.fire or None, nodes)
