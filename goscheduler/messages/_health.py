"""Checks the health of the messages of one front."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.errors import SchedulerNotRunningError, described
from goscheduler.runs.health import Check, Health, HealthStatus, verdict
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.messages._shelf import MessageRepository
    from goscheduler.schedulers.base import BaseScheduler
    from goscheduler.transports.base import Transport


class Findings(NamedTuple):
    """The findings in store and transport; None for a figure that was not counted."""

    error: str = ""
    """Why the store did not answer."""
    pending: int | None = None
    stuck: int | None = None
    overdue: float | None = None
    """For how many seconds the oldest message that nobody has taken is due."""
    transport: str = ""
    """Why the transport cannot take messages now."""


def judge(found: Findings, stuck_after: float) -> list[Check]:
    """Return what findings come to."""
    if found.error:
        checks = [Check("store", HealthStatus.UNHEALTHY, f"the store cannot be asked: {found.error}")]
    else:
        checks = [Check("store"), _stuck(found.stuck), _overdue(found.overdue, stuck_after)]
    if found.transport:
        message = f"the transport takes no messages: {found.transport}"
        return [*checks, Check("transport", HealthStatus.DEGRADED, message)]
    return [*checks, Check("transport")]


def _stuck(stuck: int | None) -> Check:
    if not stuck:
        return Check("messages")
    told = "1 message is stuck" if stuck == 1 else f"{stuck} messages are stuck"
    return Check("messages", HealthStatus.DEGRADED, told)


def _overdue(overdue: float | None, stuck_after: float) -> Check:
    if overdue is None or overdue <= stuck_after:
        return Check("overdue")
    told = f"nobody has taken a message that is due for {overdue:.0f} seconds"
    return Check("overdue", HealthStatus.DEGRADED, told)


def check_health(
    scheduler: BaseScheduler, shelf: MessageRepository, transport: Transport | None, stuck_after: float, count: bool,
    details: dict[str, Any],
) -> Health:  # fmt: skip
    """Look at store and transport, and return what was found."""
    clock = scheduler.clock
    checked_at, trouble = clock.now(), _trouble(transport)
    begin = clock.monotonic()
    try:
        next_due = _first_answer(scheduler, shelf)
        latency = clock.monotonic() - begin
        overdue = 0.0 if next_due is None else max(0.0, (checked_at - next_due).total_seconds())
        stuck = shelf.count_stuck(to_micros(checked_at - timedelta(seconds=stuck_after)))
        found = Findings("", shelf.count() if count else None, stuck, overdue, trouble)
    except Exception as problem:  # it may go away between two questions
        latency = clock.monotonic() - begin
        found = Findings(described(problem), transport=trouble)
    checks = judge(found, stuck_after)
    status, message = verdict(checks)
    details = {**details, "overdue_seconds": found.overdue, "transport": found.transport or "healthy"}
    return Health(status, latency, found.pending, found.stuck, details, checked_at, message, checks)


def _first_answer(scheduler: BaseScheduler, shelf: MessageRepository) -> datetime | None:
    """Return when the store has something due next; a scheduler that was not started has none to ask."""
    if not scheduler.running:
        raise SchedulerNotRunningError
    return shelf.store.get_next_run_time()


def _trouble(transport: Transport | None) -> str:
    healthy = getattr(transport, "healthy", None)
    if healthy is None:
        return ""
    try:
        return "" if healthy() else "it says that it is not healthy"
    except Exception as error:
        return described(error)
