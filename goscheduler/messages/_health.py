"""How the messages of one front fare."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.errors import SchedulerNotRunningError, described
from goscheduler.messages.views import Health, HealthStatus
from goscheduler.times import instant

if TYPE_CHECKING:
    from goscheduler.messages._shelf import Shelf
    from goscheduler.schedulers.base import BaseScheduler
    from goscheduler.transports.base import Transport


class Findings(NamedTuple):
    """What a look at store and transport has brought."""

    error: str = ""
    """Why the store did not answer."""
    pending: int | None = 0
    stuck: int = 0
    overdue: float = 0.0
    """For how many seconds the oldest message that nobody has taken is due."""
    transport: str = ""
    """Why the transport cannot take messages now."""


def judge(found: Findings, stuck_after: float) -> tuple[HealthStatus, str]:
    """Return what findings come to, and why, in a sentence."""
    if found.error:
        return HealthStatus.UNHEALTHY, f"the store cannot be asked: {found.error}"
    if found.stuck:
        return HealthStatus.DEGRADED, f"{found.stuck} messages are stuck"
    if found.overdue > stuck_after:
        return HealthStatus.DEGRADED, f"nobody has taken a message that is due for {found.overdue:.0f} seconds"
    if found.transport:
        return HealthStatus.DEGRADED, f"the transport takes no messages: {found.transport}"
    return HealthStatus.HEALTHY, ""


def check_health(
    scheduler: BaseScheduler, shelf: Shelf, transport: Transport | None, stuck_after: float, count: bool,
    details: dict[str, Any],
) -> Health:  # fmt: skip
    """Look at store and transport, and return what was found."""
    clock = scheduler.clock
    checked_at, begin = clock.now(), clock.monotonic()
    error, next_due = "", None
    try:
        if not scheduler.running:
            raise SchedulerNotRunningError
        next_due = shelf.store.get_next_run_time()
    except Exception as problem:
        error = described(problem)
    latency = clock.monotonic() - begin
    found = Findings(error)
    if not error:
        overdue = 0.0 if next_due is None else max(0.0, (checked_at - next_due).total_seconds())
        limit = instant(checked_at - timedelta(seconds=stuck_after))
        pending = shelf.count() if count else None
        found = Findings("", pending, shelf.count_stuck(limit), overdue, _trouble(transport))
    status, message = judge(found, stuck_after)
    details = {**details, "overdue_seconds": found.overdue, "transport": found.transport or "healthy"}
    return Health(status, latency, found.pending, found.stuck, details, checked_at, message)


def _trouble(transport: Transport | None) -> str:
    healthy = getattr(transport, "healthy", None)
    if healthy is None:
        return ""
    try:
        return "" if healthy() else "it says that it is not healthy"
    except Exception as error:
        return described(error)
