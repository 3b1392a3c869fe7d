"""The rules of alerts. Each is a pure function of facts: it returns what is broken."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from goscheduler.alerts.model import Breach
from goscheduler.errors import InvalidArgument, shown, survivable
from goscheduler.runs.health import HealthStatus
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.queries import signature
from goscheduler.times import parse_duration

if TYPE_CHECKING:
    from goscheduler.alerts.facts import Facts, JobFacts
    from goscheduler.runs.records import Record

Length = timedelta | float | str
FAILED = frozenset({OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST})
ENDED = FAILED | {OutcomeKind.SUCCEEDED}
#: A p95 is told of the attempts of so long, if there were so many.
LATE_WITHIN, LEAST_ATTEMPTS = timedelta(minutes=10), 5
SCHEDULE = "schedule"


@dataclass(frozen=True)
class Rule:
    """What must not be so, and for how long it may be."""

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset()
    """The fields of the facts that it looks at."""

    @property
    def hold_off(self) -> timedelta:
        """For how long it has to be broken before that is told."""
        return parse_duration(getattr(self, "for_", 0))

    def find(self, facts: Facts) -> Iterable[Breach]:
        """Return what is broken."""
        raise NotImplementedError


@dataclass(frozen=True)
class Failures(Rule):
    """The last ``count`` attempts of a job have failed, all of them ``within`` a length of time if one is given."""

    count: int = 1
    within: Length | None = None
    for_: Length = 0
    name: ClassVar[str] = "failures"
    needs: ClassVar[frozenset[str]] = frozenset({"failing"})

    def __post_init__(self) -> None:
        _check_count("failures", self.count)
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        for job_id, records in facts.failing.items():
            ended = [record for record in records if record.outcome in ENDED][: self.count]
            begin = None if self.within is None else facts.now - parse_duration(self.within)
            in_time = [record for record in ended if begin is None or record.finished_at >= begin]
            if len(in_time) == self.count and all(record.outcome in FAILED for record in in_time):
                told = "the last attempt failed" if self.count == 1 else f"the last {self.count} attempts failed"
                yield Breach(job_id, f"{told}: {_error(in_time[0])}", _cause(in_time[0]))


@dataclass(frozen=True)
class FailureRate(Rule):
    """More than a share of the last ``of`` attempts have failed, of all jobs that are meant together."""

    above: float = 0.5
    of: int = 20
    for_: Length = 0
    name: ClassVar[str] = "failure_rate"
    needs: ClassVar[frozenset[str]] = frozenset({"records"})

    def __post_init__(self) -> None:
        _check_count("failure_rate.of", self.of)
        _check_share("failure_rate.above", self.above)
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        ended = [record for record in facts.records if record.outcome in ENDED][: self.of]
        failed = sum(record.outcome in FAILED for record in ended)
        if len(ended) == self.of and failed > self.above * self.of:
            yield Breach(facts.about, f"{failed} of the last {self.of} attempts failed")


@dataclass(frozen=True)
class NoSuccess(Rule):
    """A job has had no success ``within`` a length of time, or since it should have by its schedule.

    ``"schedule"`` goes by the times of the job's own trigger, ``"schedule+15m"`` allows so long after each. A job that
    is named and gone, paused, suspended, or that no process runs is as bad as one that fails.
    """

    within: Length = SCHEDULE
    for_: Length = 0
    name: ClassVar[str] = "no_success"
    needs: ClassVar[frozenset[str]] = frozenset({"jobs"})

    def __post_init__(self) -> None:
        _check_lengths(self, "for_")
        self._allowed()

    def _allowed(self) -> timedelta:
        text = self.within
        if isinstance(text, str) and text.startswith(SCHEDULE):
            grace = text.removeprefix(SCHEDULE).strip()
            if grace and not grace.startswith("+"):
                raise InvalidArgument(f'no_success must be as "schedule+15m", got {shown(text)}', field="no_success")
            return parse_duration(grace.removeprefix("+").strip() or 0)
        return parse_duration(text)

    @property
    def by_schedule(self) -> bool:
        """Whether the times of the job's trigger count."""
        return isinstance(self.within, str) and self.within.startswith(SCHEDULE)

    def find(self, facts: Facts) -> Iterable[Breach]:
        for job_id in facts.absent:
            yield Breach(job_id, "there is no such job", "absent")
        for job in facts.jobs:
            since = job.last_success or job.created_at
            if since is not None and self._is_over(job, since, facts.now):
                told = f"no success since {since:%Y-%m-%d %H:%M}"
                yield Breach(job.id, f"{told}; it is {job.obstacle}" if job.obstacle else told, job.obstacle)

    def _is_over(self, job: JobFacts, since: datetime, now: datetime) -> bool:
        end = now - self._allowed()
        return _fires_between(job, since, end) if self.by_schedule else since < end


@dataclass(frozen=True)
class Late(Rule):
    """Runs start late: 95 of 100 within ten minutes by less than ``p95``, and no job is due for longer than
    ``oldest``."""

    p95: Length | None = None
    oldest: Length | None = None
    for_: Length = 0
    name: ClassVar[str] = "late"
    needs: ClassVar[frozenset[str]] = frozenset({"records", "due"})

    def __post_init__(self) -> None:
        if self.p95 is None and self.oldest is None:
            raise InvalidArgument("late needs p95 or oldest", field="late")
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        begin = facts.now - LATE_WITHIN
        begun = [record for record in facts.records if record.started_at is not None and record.finished_at >= begin]
        late = sorted(record.lateness for record in begun)
        usual = quantile(late, 0.95) if len(late) >= LEAST_ATTEMPTS else 0.0
        if self.p95 is not None and usual > _seconds(self.p95):
            yield Breach(facts.about, f"runs start late: the p95 of ten minutes is {usual:.1f} s")
        elif self.oldest is not None and facts.oldest_due > _seconds(self.oldest):
            yield Breach(facts.about, f"a job has been due for {facts.oldest_due:.0f} s")


@dataclass(frozen=True)
class Slow(Rule):
    """A run goes on for longer than ``times`` what 95 of 100 earlier runs of its job took, and than ``at_least``."""

    times: float = 2.0
    at_least: Length = 60
    for_: Length = 0
    name: ClassVar[str] = "slow"
    needs: ClassVar[frozenset[str]] = frozenset({"running"})

    def __post_init__(self) -> None:
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        for run in facts.running:
            if run.usual is not None and run.seconds > max(self.times * run.usual, _seconds(self.at_least)):
                yield Breach(run.job_id, f"a run has gone on for {run.seconds:.0f} s; usual are {run.usual:.1f} s")


@dataclass(frozen=True)
class Missed(Rule):
    """So many fire times were missed ``within`` a length of time."""

    count: int = 1
    within: Length = "1h"
    for_: Length = 0
    name: ClassVar[str] = "missed"
    needs: ClassVar[frozenset[str]] = frozenset({"missed"})

    def __post_init__(self) -> None:
        _check_count("missed", self.count)
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        begin = facts.now - parse_duration(self.within)
        counts = Counter[str]()
        for record in facts.missed:
            if record.finished_at >= begin:
                counts[record.job_id] += record.fire_times
        for job_id, number in counts.items():
            if number >= self.count:
                yield Breach(job_id, f"{number} fire times were missed", "missed")


@dataclass(frozen=True)
class Queue(Rule):
    """More than ``depth`` jobs are due, or one is for longer than ``age``."""

    depth: int | None = None
    age: Length | None = None
    for_: Length = 0
    name: ClassVar[str] = "queue"
    needs: ClassVar[frozenset[str]] = frozenset({"due"})

    def __post_init__(self) -> None:
        if self.depth is None and self.age is None:
            raise InvalidArgument("queue needs depth or age", field="queue")
        if self.depth is not None:
            _check_count("queue.depth", self.depth)
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        if self.depth is not None and facts.due > self.depth:
            yield Breach(facts.about, f"{facts.due} jobs are due")
        elif self.age is not None and facts.oldest_due > _seconds(self.age):
            yield Breach(facts.about, f"a job has been due for {facts.oldest_due:.0f} s")


@dataclass(frozen=True)
class LimitFull(Rule):
    """Runs wait for a limit: for the one of this ``limit`` name, or for any."""

    limit: str | None = None
    for_: Length = "5m"
    name: ClassVar[str] = "limit_full"
    needs: ClassVar[frozenset[str]] = frozenset({"limits"})

    def __post_init__(self) -> None:
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        for use in facts.limits:
            if use.waiting and self.limit in (None, use.name):
                yield Breach(use.name, f"{use.waiting} runs wait for the limit {shown(use.name)}; {use.live} are live")


@dataclass(frozen=True)
class DeadLetters(Rule):
    """So many runs of one task have died of one kind of error, all in all or ``within`` a length of time."""

    count: int = 1
    within: Length | None = None
    for_: Length = 0
    name: ClassVar[str] = "dead_letters"
    needs: ClassVar[frozenset[str]] = frozenset({"letters"})

    def __post_init__(self) -> None:
        _check_count("dead_letters", self.count)
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        begin = None if self.within is None else facts.now - parse_duration(self.within)
        for group in facts.letters:
            if group.size >= self.count and (begin is None or group.last >= begin):
                error = ": ".join(filter(None, (group.error_type, group.signature)))
                yield Breach(f"{group.task} {error}", f"{group.size} dead letters of {group.task}: {error}")


@dataclass(frozen=True)
class Processes(Rule):
    """Fewer than ``below`` processes fire."""

    below: int = 1
    for_: Length = "1m"
    name: ClassVar[str] = "processes"
    needs: ClassVar[frozenset[str]] = frozenset({"processes"})

    def __post_init__(self) -> None:
        _check_count("processes", self.below)
        _check_lengths(self)

    def find(self, facts: Facts) -> Iterable[Breach]:
        if facts.processes < self.below:
            yield Breach("processes", f"{facts.processes} processes fire, expected at least {self.below}")


@dataclass(frozen=True)
class ProcessLost(Rule):
    """A process has ended without a word, or has hung: its lease lapsed. It is told for ten minutes."""

    for_: Length = 0
    name: ClassVar[str] = "process_lost"
    needs: ClassVar[frozenset[str]] = frozenset({"lost"})

    def find(self, facts: Facts) -> Iterable[Breach]:
        return [Breach(process, f"the lease of process {process} has lapsed") for process in facts.lost]


@dataclass(frozen=True)
class StoreDown(Rule):
    """A job store does not answer."""

    for_: Length = 0
    name: ClassVar[str] = "store_down"
    needs: ClassVar[frozenset[str]] = frozenset({"checks"})

    def find(self, facts: Facts) -> Iterable[Breach]:
        return _of_check(facts, "store", HealthStatus.UNHEALTHY)


@dataclass(frozen=True)
class ClockSkew(Rule):
    """The clocks of processes differ by more than five seconds."""

    for_: Length = "1m"
    name: ClassVar[str] = "clock_skew"
    needs: ClassVar[frozenset[str]] = frozenset({"checks"})

    def find(self, facts: Facts) -> Iterable[Breach]:
        return _of_check(facts, "clocks", HealthStatus.DEGRADED)


@dataclass(frozen=True)
class JobSuspended(Rule):
    """A job cannot be run, and is suspended with a reason."""

    for_: Length = 0
    name: ClassVar[str] = "job_suspended"
    needs: ClassVar[frozenset[str]] = frozenset({"suspended"})

    def find(self, facts: Facts) -> Iterable[Breach]:
        return [Breach(job_id, f"suspended: {reason}", reason) for job_id, reason in facts.suspended.items()]


#: Every rule by its name.
RULES: Mapping[str, type[Rule]] = MappingProxyType({
    rule.name: rule
    for rule in (
        Failures, FailureRate, NoSuccess, Late, Slow, Missed, Queue, LimitFull, DeadLetters, ProcessLost, Processes,
        StoreDown, ClockSkew, JobSuspended,
    )
})  # fmt: skip


def quantile(ascending: Sequence[float], share: float) -> float:
    """Return the value that a share of all does not exceed; 0 of none."""
    return ascending[math.ceil(share * len(ascending)) - 1] if ascending else 0.0


def _of_check(facts: Facts, name: str, status: HealthStatus) -> list[Breach]:
    return [Breach(name, check.message) for check in facts.checks if check.name == name and check.status is status]


def _fires_between(job: JobFacts, since: datetime, until: datetime) -> bool:
    """Tell whether a job has a fire time behind a moment and not behind another one; False if it cannot tell."""
    if until <= since:
        return False
    try:
        times = job.trigger.between(since, until, 2)
    except BaseException as error:
        if not survivable(error):
            raise
        return False
    return any(time > since for time in times)


def _error(record: Record) -> str:
    if record.error_type is None:
        return record.reason or record.outcome.value
    return f"{record.error_type}: {record.error_message}".removesuffix(": ")


def _cause(record: Record) -> str:
    return f"{record.error_type or record.outcome.value} {signature(record.error_message or record.reason)}"


def _seconds(length: Length) -> float:
    return parse_duration(length).total_seconds()


def _check_lengths(rule: Rule, *names: str) -> None:
    for name in names or ("within", "for_", "p95", "oldest", "age", "at_least"):
        value = getattr(rule, name, None)
        if value is not None:
            parse_duration(value)


def _check_count(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise InvalidArgument(f"{field} must be a whole number from 1 to 1000, got {shown(value)}", field=field)


def _check_share(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise InvalidArgument(f"{field} must be a share from 0 to below 1, got {shown(value)}", field=field)
