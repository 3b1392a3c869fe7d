"""What is found out about a scheduler and its stores, and what it comes to: healthy, degraded or unhealthy; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.errors import shown

if TYPE_CHECKING:
    from goscheduler.runs.model import Run
    from goscheduler.runs.processes import Process

#: Seconds for which something may be due, or go on, before that counts as a fault.
STUCK_AFTER = 300.0
#: Clocks may differ by so much.
SKEW = timedelta(seconds=5)
#: So many names are told.
MOST_NAMES = 5


class HealthStatus(str, Enum):
    """The verdict of a health check."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    """It works, and something needs attention."""
    UNHEALTHY = "unhealthy"
    """A store does not answer, or nothing fires although something is due."""


_BADNESS = {status: number for number, status in enumerate(HealthStatus)}


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    status: HealthStatus = HealthStatus.HEALTHY
    message: str = ""
    """Why it is not healthy, in a sentence."""


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a health check."""

    status: HealthStatus
    latency: float
    """How many seconds the store took to answer."""
    pending: int | None
    """How many jobs or messages wait for their time; None if they were not counted."""
    stuck: int | None
    """How many runs or messages a process has that should have ended long ago; None if the store did not answer."""
    details: Mapping[str, Any]
    checked_at: datetime
    message: str = ""
    """Why it is not healthy, in a sentence."""
    checks: Sequence[Check] = field(default=())
    """What was looked at, each with its own verdict."""


class StoreFacts(NamedTuple):
    """What was found in one job store; None for what cannot be known."""

    jobstore: str
    error: str = ""
    """Why it did not answer."""
    overdue: float = 0.0
    """For how many seconds the job is due that has waited longest; 0 if none is due."""
    firing: int | None = None
    """How many processes fire its jobs."""
    stuck: int = 0
    """How many live runs should have begun, or ended, long ago."""
    lapsed: int = 0
    """How many live runs belong to processes whose lease has lapsed."""
    executors: Sequence[str] = ()
    """Executors that due jobs name and no process has."""
    tasks: Sequence[str] = ()
    """Tasks that due jobs name and no process knows."""
    skew: str = ""
    """How clocks differ."""
    pending: int | None = None
    latency: float = 0.0


def judge_store(found: StoreFacts, stuck_after: float) -> list[Check]:
    """Return what the findings in a store come to."""
    if found.error:
        return [Check("store", HealthStatus.UNHEALTHY, f"the store cannot be asked: {found.error}")]
    idle = found.firing == 0 and found.overdue > 0
    tasks, executors = named(found.tasks), named(found.executors)
    return [
        Check("store"),
        _check("processes", idle, f"{_due_for(found)} and no process fires", HealthStatus.UNHEALTHY),
        _check("overdue", found.overdue > stuck_after, _due_for(found)),
        _check("stuck", found.stuck > 0, _counted(found.stuck, "run is stuck", "runs are stuck")),
        _check("takeover", found.lapsed > 0, f"{_counted(found.lapsed, 'run waits', 'runs wait')} to be taken over "
               "from a process whose lease has lapsed"),
        _check("executors", bool(executors), f"no process has the executor {executors}, which due jobs name"),
        _check("tasks", bool(tasks), f"no process knows the task {tasks}, which due jobs name"),
        _check("clocks", bool(found.skew), found.skew),
    ]  # fmt: skip


def is_stuck(run: Run, started_at: datetime | None, now: datetime, stuck_after: float) -> bool:
    """Tell whether a live run should have begun, or been ended by its timeout, long ago."""
    if started_at is None:
        return (now - run.due_at).total_seconds() > stuck_after
    timeout = run.job.timeout
    return timeout is not None and (now - started_at).total_seconds() > timeout + stuck_after


def _check(name: str, broken: bool, message: str, status: HealthStatus = HealthStatus.DEGRADED) -> Check:
    return Check(name, status, message) if broken else Check(name)


def _due_for(found: StoreFacts) -> str:
    return f"a job has been due for {found.overdue:.0f} seconds"


def _counted(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number} {many}"


def merged(by_store: Mapping[str, Iterable[Check]]) -> list[Check]:
    """Return one check of each name for several stores: the worst, with all messages that tell of a fault."""
    found: dict[str, Check] = {}
    for alias, checks in by_store.items():
        for check in checks:
            own = check._replace(message=f"{alias}: {check.message}") if check.message and len(by_store) > 1 else check
            other = found.get(check.name)
            found[check.name] = own if other is None else _both(other, own)
    return list(found.values())


def _both(one: Check, other: Check) -> Check:
    status = max(one.status, other.status, key=lambda status: _BADNESS[status])
    return Check(one.name, status, "; ".join(filter(None, (one.message, other.message))))


def verdict(checks: Sequence[Check]) -> tuple[HealthStatus, str]:
    """Return what checks come to, and why: the messages of the worst."""
    status = max((check.status for check in checks), key=lambda status: _BADNESS[status], default=HealthStatus.HEALTHY)
    return status, "; ".join(check.message for check in checks if check.status is status and check.message)


def clock_trouble(processes: Sequence[Process], now: datetime) -> str:
    """Return how the clocks of processes differ from this one or from each other; empty if not, as far as they tell."""
    told = [(each, each.report.written_at) for each in processes if each.report is not None and each.report.written_at]
    ahead = [f"{each.host}:{each.pid}" for each, written_at in told if written_at - now > SKEW]
    # A store notes by its own clock when a lease ends, and the process by its own when it renewed it.
    lengths = [each.expires_at - written_at for each, written_at in told if each.expires_at is not None]
    spread = max(lengths) - min(lengths) if lengths else timedelta(0)
    if ahead:
        return f"the clock of {named(ahead)} is ahead of this one"
    if spread > SKEW and len({each.host for each, _ in told}) > 1:
        return f"the clocks of the processes may differ by {spread.total_seconds():.0f} s"
    return ""


def named(names: Sequence[str]) -> str:
    """Return the first names of a list for a sentence, and how many others there are."""
    more = len(names) - MOST_NAMES
    listed = ", ".join(shown(name) for name in names[:MOST_NAMES])
    return f"{listed} and {more} more" if more > 0 else listed
