"""What runs in a soak, and what it counts in a window of time."""

from __future__ import annotations

import random
import threading
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

from goscheduler import BackgroundScheduler, current_run
from goscheduler.messages import Message, MessageScheduler


class Window:
    """What happened since it was last taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: Counter[str] = Counter()
        self._late: list[float] = []

    def note(self, kind: str, late: float | None) -> None:
        with self._lock:
            self._begun[kind] += 1
            if late is not None:
                self._late.append(late)

    def take(self) -> dict[str, Any]:
        """Return what happened, lateness in milliseconds, and begin anew."""
        with self._lock:
            begun, self._begun = self._begun, Counter()
            late, self._late = sorted(self._late), []
        shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
        return {
            "begun": dict(begun),
            "late": {name: round(1000 * late[int(share * (len(late) - 1))], 1) if late else None
                     for name, share in shares.items()},
        }  # fmt: skip


window = Window()
scheduler: BackgroundScheduler | None = None
outbox: MessageScheduler | None = None


class Wobble(Exception):
    """The first attempt at every firing of some jobs fails."""


def steady() -> None:
    window.note("steady", current_run().lateness)


def flaky() -> None:
    run = current_run()
    if run.attempt == 1:
        window.note("flaky", run.lateness)
        raise Wobble
    window.note("retry", None)


def once() -> None:
    window.note("once", current_run().lateness)


def deliver(event_name: str, message: Any) -> None:
    window.note("message", (datetime.now(timezone.utc) - message.scheduled_at).total_seconds())


def feed(jobs: int, messages: int) -> None:
    """Add jobs that fire once and messages, spread over the second after the next."""
    assert scheduler is not None
    assert outbox is not None
    moment = datetime.now(timezone.utc) + timedelta(seconds=1)
    times = [moment + timedelta(seconds=random.random()) for _ in range(jobs + messages)]
    scheduler.add_jobs({"func": "soak_jobs:once", "trigger": "date", "run_date": time} for time in times[:jobs])
    outbox.schedule_many([Message("soak", {"some": "load" * 20}, scheduled_at=time) for time in times[jobs:]])
    window.note("feed", None)
