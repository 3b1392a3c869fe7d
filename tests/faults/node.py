"""One process of a run: a scheduler of jobs, of messages and of documents on one store. SIGTERM ends it in good order.

Its wall clock is wrong by as many seconds as the first eight bytes of a control file say, which a fault may change at
any moment.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import mmap
import os
import signal
import struct
import threading
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from jobs import LEDGER, process, publish
from places import Documents
from pulse import feel

from goscheduler import BackgroundScheduler, ThreadPoolExecutor, fixed
from goscheduler.clock import SystemClock
from goscheduler.documents import DocumentScheduler
from goscheduler.events import (
    EVENT_JOB_DEAD_LETTERED,
    EVENT_LEASE_LOST,
    EVENT_SCHEDULER_DEGRADED,
    EVENT_SCHEDULER_RECOVERED,
    EventCode,
)
from goscheduler.messages import MessageScheduler

EVENTS = EVENT_JOB_DEAD_LETTERED | EVENT_LEASE_LOST | EVENT_SCHEDULER_DEGRADED | EVENT_SCHEDULER_RECOVERED
WORKERS = 12
URGENCY = "-5"
#: How often the heart of a process beats, and from what pause on the process says that it stood still; in seconds.
BEAT, STALL = 0.1, 0.5

_never = threading.Event()


class ControlledClock(SystemClock):
    """A clock that is wrong by what a control file says."""

    __slots__ = ("_control",)

    def __init__(self, path: str) -> None:
        with open(path, "rb") as control:
            self._control = mmap.mmap(control.fileno(), 8, access=mmap.ACCESS_READ)

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=struct.unpack("d", self._control[:8])[0])


def main() -> None:
    options = arguments()
    have_share()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    with open(Path(options.ledger).with_suffix(".log"), "a", encoding="utf-8") as log:
        logging.basicConfig(stream=log, level=logging.INFO, format="%(asctime)s.%(msecs)03d %(threadName)s %(message)s")
        faulthandler.register(signal.SIGUSR1, log)
        LEDGER.open(options.ledger, options.name, options.life)
        LEDGER.place, LEDGER.resource = options.url, options.resource
        threading.Thread(target=beat, name="heart", daemon=True).start()
        if options.pulse:
            pulse = (options.store, options.url, options.lease)
            threading.Thread(target=feel, args=pulse, name="pulse", daemon=True).start()
        if options.mutant:
            from mutants import apply

            apply(options.mutant, options.store)
        serve(options, ended)
        LEDGER.write("stopped")


def have_share() -> None:
    """Have a share of the processor of its own, as a machine of its own has it, where the system lends one."""
    os.setsid()
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(URGENCY, encoding="ascii")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--store", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--life", type=int, required=True)
    parser.add_argument("--ledger", required=True)
    parser.add_argument("--resource", required=True)
    parser.add_argument("--clock", required=True)
    parser.add_argument("--lease", type=float, default=3.0)
    parser.add_argument("--documents", action="store_true")
    parser.add_argument("--pulse", action="store_true")
    parser.add_argument("--mutant")
    return parser.parse_args()


def serve(options: argparse.Namespace, ended: threading.Event) -> None:
    """Fire until the process is told to end."""
    scheduler = BackgroundScheduler(
        jobstores={"default": options.url},
        executors={"default": ThreadPoolExecutor(WORKERS)},
        clock=ControlledClock(options.clock),
        lease=options.lease,
        timezone="UTC",
    )
    scheduler.add_listener(tell, EVENTS)
    outbox = MessageScheduler(scheduler=scheduler, transport=publish, max_retries=4, backoff=fixed(0.5), workers=4)
    outbox.start()
    # A start waits for its server, and has to end when it is told to.
    starting = threading.Thread(target=scheduler.start, name="start")
    starting.start()
    while starting.is_alive() and not ended.is_set():
        starting.join(BEAT)
    documents = None
    if not ended.is_set():
        documents = start_documents(options)
        LEDGER.write("ready", owner=scheduler.engine.leases.owner_of("default"), pid=os.getpid())
        ended.wait()
    LEDGER.write("stopping")
    if documents is not None:
        documents.stop(timeout=10)
    outbox.stop()
    scheduler.shutdown()
    starting.join()


def start_documents(options: argparse.Namespace) -> DocumentScheduler | None:
    if not options.documents:
        return None
    scheduler = DocumentScheduler(
        Documents(options.store, options.url).store(), process, lock_duration=options.lease, idle_delay=0.5,
        on_error=lambda error: logging.getLogger("documents").warning("%r", error),
    )  # fmt: skip
    threading.Thread(target=scheduler.start, name="documents", daemon=True).start()
    return scheduler


def tell(event: Any) -> None:
    facts = {"job": getattr(event, "job_id", None), "run": getattr(event, "run_id", None)}
    facts["attempt"] = getattr(event, "attempt", None)
    LEDGER.write("event", code=EventCode(event.code).name, **facts)


def beat() -> None:
    """Tell when this process stood still, whether by a fault or because the machine was busy."""
    last = time.monotonic()
    while True:
        _never.wait(BEAT)
        now = time.monotonic()
        if now - last > STALL:
            LEDGER.write("stall", since=last, seconds=now - last)
        last = now


if __name__ == "__main__":
    main()
