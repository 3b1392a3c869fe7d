"""One process of a soak: ``python soak_node.py URL FILE [RATE]``. It ends when its standard input is closed.

With RATE it adds the jobs. Into FILE it writes a line every ten seconds: what it began, how late, and by how much its
own pause was too long, which tells how busy the machine is.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import soak_jobs

from goscheduler import BackgroundScheduler, Retry, ThreadPoolExecutor, fixed
from goscheduler.events import EVENT_LEASE_LOST, EVENT_SCHEDULER_DEGRADED
from goscheduler.messages import MessageScheduler

SECONDS = 10.0
#: So short that the tables have their final size within minutes.
RETENTION = {"succeeded": 60, "succeeded_per_job": 1000, "others": 60}
#: Which share of the firings is what; the rest are jobs that fire every second.
FLAKY, ONCE, MESSAGES = 0.1, 0.1, 0.1


def main(url: str, file: str, rate: str = "") -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger().handlers[0].addFilter(is_unexpected)
    scheduler = BackgroundScheduler(
        jobstores={"default": url},
        executors={"default": ThreadPoolExecutor(20)},
        retention=RETENTION,
        timezone="UTC",
    )
    soak_jobs.scheduler = scheduler
    soak_jobs.outbox = MessageScheduler(scheduler=scheduler, transport=soak_jobs.deliver)
    for event in (EVENT_LEASE_LOST, EVENT_SCHEDULER_DEGRADED):
        scheduler.add_listener(lambda told: soak_jobs.window.note(told.code.name, None), event)
    soak_jobs.outbox.start()
    scheduler.start()
    if rate:
        scheduler.add_jobs(jobs_of(int(rate)))
    ended = threading.Event()
    teller = threading.Thread(target=tell, args=(Path(file), ended))
    teller.start()
    sys.stdin.read()
    ended.set()
    teller.join()
    soak_jobs.outbox.stop()
    scheduler.shutdown()


def jobs_of(rate: int) -> list[dict[str, Any]]:
    """Return jobs that fire so often a second in all, with those that ``feed`` adds."""
    flaky, fed, messages = (round(rate * share) for share in (FLAKY, ONCE, MESSAGES))
    steady = rate - flaky - fed - messages
    whole = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=2)

    def every_second(name: str, number: int, count: int) -> dict[str, Any]:
        start = whole + timedelta(seconds=number / count)
        return {"func": f"soak_jobs:{name}", "trigger": "interval", "seconds": 1, "start_date": start,
                "id": f"{name}-{number}", "misfire_grace_time": None, "max_instances": 4}  # fmt: skip

    jobs = [every_second("steady", number, steady) for number in range(steady)]
    retry = Retry(3, fixed(0.5))
    jobs += [{**every_second("flaky", number, flaky), "retry": retry} for number in range(flaky)]
    return [*jobs, {**every_second("feed", 0, 1), "args": [fed, messages]}]


def is_unexpected(record: logging.LogRecord) -> bool:
    """Tell whether something is worth a line: not that a job failed which is to fail."""
    return not (record.exc_info and isinstance(record.exc_info[1], soak_jobs.Wobble))


def tell(file: Path, ended: threading.Event) -> None:
    due = time.monotonic()
    while not ended.is_set():
        due += SECONDS
        ended.wait(max(0.0, due - time.monotonic()))
        pause = time.monotonic() - due
        with file.open("a") as lines:
            lines.write(json.dumps({"t": time.time(), "pause_ms": round(1000 * pause, 1), **soak_jobs.window.take()}))
            lines.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
