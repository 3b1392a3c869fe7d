"""How shared stores write down what an owner is, beside its id and its lease."""

from __future__ import annotations

import json
from datetime import datetime

from goscheduler.runs.model import Owner
from goscheduler.times import UTC, from_micros, to_micros


def owner_info(owner: Owner, now: datetime) -> str:
    """Return host, process id, start, executors and tasks of an owner as text."""
    return json.dumps([owner.host, owner.pid, to_micros(owner.started_at or now), owner.executors, owner.tasks])


def read_owner(owner_id: str, text: str) -> Owner:
    """Return the owner that :func:`owner_info` wrote."""
    host, pid, started_at, executors, tasks = json.loads(text)
    return Owner(owner_id, host, pid, from_micros(started_at, UTC), tuple(executors), tuple(tasks))


def host_of(text: str) -> str:
    """Return the host of an owner; an empty string if its text cannot be read."""
    try:
        return str(json.loads(text)[0])
    except (IndexError, KeyError, TypeError, ValueError):
        return ""
