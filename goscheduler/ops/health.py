"""The operation that tells how goscheduler fares: its stores, processes, jobs and messages."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from goscheduler.ops.access import Role
from goscheduler.ops.model_around import CheckView, HealthView
from goscheduler.ops.operation import Call, operation
from goscheduler.ops.schema import Text
from goscheduler.runs.health import Check, Health, HealthStatus, verdict

#: Checks of the front of messages that the scheduler below has not made.
OF_MESSAGES = ("messages", "transport")

Host = Annotated[str | None, Text("Also unhealthy if no process on the machine of this name has a lease.")]


@operation(Role.VIEWER, whole=True)
def health(call: Call, host: Host = None) -> HealthView:
    """Return how goscheduler fares: healthy, degraded or unhealthy, with what was looked at."""
    found = call.scheduler.health()
    messages = _messages(call) if found.stuck is not None else None
    checks = [*found.checks, *_of_messages(messages), *_of_host(call, found, host)]
    status, message = verdict(checks)
    stuck = found.stuck if messages is None else max(found.stuck or 0, messages.stuck or 0)
    return HealthView(
        status.value, message, round(found.latency * 1000, 3), found.pending, stuck,
        {name: str(value) for name, value in found.details.items()}, found.checked_at,
        [CheckView(check.name, check.status.value, check.message) for check in checks],
    )  # fmt: skip


def _messages(call: Call) -> Health | None:
    """Return how the messages fare, if there are any that can be asked about."""
    front = call.source.messages
    if front is None:
        return None
    found = call.scheduler.engine.inspector.shared("the messages", partial(front.health, count=False))
    return found if isinstance(found, Health) else None


def _of_messages(found: Health | None) -> list[Check]:
    return [] if found is None else [check for check in found.checks if check.name in OF_MESSAGES]


def _of_host(call: Call, found: Health, host: str | None) -> list[Check]:
    """Return whether a machine has a living process, if a store could tell."""
    if host is None or found.stuck is None:
        return []
    processes = call.scheduler.engine.inspector.shared("the processes", call.scheduler.processes)
    if not isinstance(processes, str) and any(process.host == host for process in processes):
        return [Check("host")]
    return [Check("host", HealthStatus.UNHEALTHY, f"no process on {host} has a lease")]
