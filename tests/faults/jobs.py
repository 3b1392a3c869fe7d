"""What the jobs, messages, documents and locks of the workload do: they write lines into the ledger of their process.

A line is one ``write`` on a descriptor that appends, so it is whole or absent, however the process ends, and it needs
neither the store nor the scheduler under test.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from contextlib import suppress
from datetime import timezone
from typing import Any

from goscheduler import RunCancelled, current_run
from goscheduler.errors import LockLost, LockNotAcquired, StoreUnavailable
from goscheduler.executors.context import CurrentRun
from goscheduler.locks import lock

#: How often a job looks whether it was told to end, in seconds.
GLANCE = 0.1
NOT_OURS = (LockNotAcquired, LockLost, StoreUnavailable)

_never = threading.Event()


class Ledger:
    """Where the lines of this process go, and what each of them says of it."""

    def __init__(self) -> None:
        self.descriptor = -1
        self.node = ""
        self.life = 0
        self.place = ""
        """The store, as this process gets to it; where its locks are."""
        self.resource = ""
        """The file that refuses what is written with a fence below one that it has seen."""

    def open(self, path: str, node: str, life: int) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.node, self.life = node, life

    def write(self, event: str, **facts: Any) -> None:
        line = {"t": time.monotonic(), "e": event, **facts, "node": self.node, "life": self.life}
        os.write(self.descriptor, (json.dumps(line, separators=(",", ":")) + "\n").encode())


LEDGER = Ledger()


class Failure(Exception):
    """What a job of the workload raises on an attempt that is to fail."""


def work(kind: str, seconds: float = 0.0, fails: int = 0) -> None:
    """Take so long, and fail so many attempts."""
    run = current_run()
    facts = begin(run, kind)
    try:
        last(run, seconds)
        if run.attempt <= fails:
            raise Failure(f"attempt {run.attempt} of {fails} that fail")
    except RunCancelled:
        LEDGER.write("end", **facts, outcome="cancelled")
        raise
    except Failure:
        LEDGER.write("end", **facts, outcome="error")
        raise
    LEDGER.write("end", **facts, outcome="ok")


def guard(kind: str, name: str, ttl: float, seconds: float) -> None:
    """Write to the resource under a lock, at its begin and at its end. Without the lock there is nothing to do."""
    run = current_run()
    facts = begin(run, kind)
    try:
        with suppress(*NOT_OURS), lock(LEDGER.place, name, ttl=ttl, wait=ttl / 2) as held:
            LEDGER.write("lock", name=name, fence=held.fence, phase="acquired")
            write_guarded(name, held.fence)
            try:
                last(run, seconds)
            finally:
                write_guarded(name, held.fence)
                LEDGER.write("lock", name=name, fence=held.fence, phase="released" if held.held else "lost")
    except RunCancelled:
        LEDGER.write("end", **facts, outcome="cancelled")
        raise
    LEDGER.write("end", **facts, outcome="ok")


def begin(run: CurrentRun, kind: str) -> dict[str, Any]:
    """Write that a run begins, and return what identifies it."""
    facts = {"job": run.job_id, "run": run.run_id, "fire": run.fire_id, "attempt": run.attempt, "fence": run.fence}
    at, source = run.scheduled_at.timestamp(), run._run.source.value
    LEDGER.write("start", **facts, kind=kind, at=at, source=source, owner=run._run.owner, coalesced=run._run.coalesced)
    return facts


def last(run: CurrentRun, seconds: float) -> None:
    """Let time pass, by no clock that a fault can change; a run that is told to end does so."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        _never.wait(min(left, GLANCE))
        run.check()


def write_guarded(name: str, fence: int) -> None:
    """Write to a resource that refuses a fence below the highest it has seen, and tell whether it did."""
    with open(f"{LEDGER.resource}-{name}", "a+", encoding="ascii") as resource:
        fcntl.flock(resource, fcntl.LOCK_EX)
        resource.seek(0)
        highest = int(resource.read() or 0)
        accepted = fence >= highest
        if accepted:
            resource.truncate(0)
            resource.write(str(fence))
            resource.flush()
        LEDGER.write("guarded", name=name, fence=fence, accepted=accepted)


def publish(event_name: str, message: Any) -> None:
    """Be the transport: a delivery is a line. The payload tells how many attempts are to fail."""
    fails = int(message.payload or 0)
    if message.attempt <= fails:
        raise Failure(f"attempt {message.attempt} of {fails} that fail")
    LEDGER.write("delivered", message=message.id, run=message.key, attempt=message.attempt)


def process(content: Any) -> None:
    """Process a document of the workload. Its token is its ``sleepUntil`` as it was found."""
    document, token, seconds = of_document(content)
    LEDGER.write("document", id=document, token=token, phase="start")
    _never.wait(seconds)
    LEDGER.write("document", id=document, token=token, phase="end")


def of_document(content: Any) -> tuple[str, float, float]:
    """Return id, token and duration of a document, whatever store it comes from."""
    fields = dict(content)
    sleep_until = fields.get("sleepUntil", fields.get("sleep_until"))
    if hasattr(sleep_until, "timestamp"):
        aware = sleep_until if sleep_until.tzinfo else sleep_until.replace(tzinfo=timezone.utc)
        sleep_until = aware.timestamp()
    return str(fields.get("_id", fields.get("id"))), float(sleep_until), float(fields["seconds"])
