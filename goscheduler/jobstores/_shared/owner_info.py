"""How shared stores write down what an owner is, beside its id and its lease."""

from __future__ import annotations

import json
from datetime import datetime

from goscheduler.runs.model import Owner
from goscheduler.times import UTC, from_micros, to_micros


def owner_info(owner: Owner, now: datetime) -> str:
    """Return host, process id, start, executors, tasks and report of an owner as text."""
    started_at = to_micros(owner.started_at or now)
    return json.dumps([owner.host, owner.pid, started_at, owner.executors, owner.tasks, owner.report])


def read_owner(owner_id: str, text: str, expires_at: datetime | None = None) -> Owner:
    """Return the owner that :func:`owner_info`, or an older version of it, wrote."""
    host, pid, started_at, executors, tasks, *others = json.loads(text)
    started, report = from_micros(started_at, UTC), others[0] if others else ""
    return Owner(owner_id, host, pid, started, tuple(executors), tuple(tasks), report, expires_at)


def host_of(text: str) -> str:
    """Return the host of an owner; an empty string if its text cannot be read."""
    try:
        return str(json.loads(text)[0])
    except (IndexError, KeyError, TypeError, ValueError):
        return ""
