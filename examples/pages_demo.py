"""Fill a SQLite file with an hour and a half of lively history, and keep a worker on it: something for pages to show.

``python examples/pages_demo.py jobs.db`` works until Enter is pressed; look at it with ``goscheduler web --store
sqlite:///jobs.db``. Needs the extra ``sqlalchemy``. ``--check`` makes a short history alone, in a temporary folder.
"""

from __future__ import annotations

import logging
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from goscheduler import BackgroundScheduler, Limit, current_run
from goscheduler.messages import Message, MessageScheduler
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.testing import ManualClock, ManualScheduler

HISTORY, SHORT_HISTORY = timedelta(minutes=95), timedelta(minutes=11)
chance = random.Random(7)


class Pretence:
    """How a job spends its time: while history is made it moves the clock, later it waits."""

    clock: ManualClock | None = None

    def spend(self, seconds: float) -> None:
        if self.clock is not None:
            self.clock.advance(seconds)
        else:
            threading.Event().wait(seconds)


pretence = Pretence()


def heartbeat() -> str:
    pretence.spend(0.004)
    return "alive"


def warm_cache(region: str) -> str:
    pretence.spend(chance.uniform(0.05, 0.4))
    return f"{chance.randrange(200, 900)} pages of {region}"


def sync_orders(shop: str, token: str) -> str:
    pretence.spend(chance.uniform(0.3, 1.5))
    if chance.random() < 0.06:
        raise TimeoutError(f"shop {shop} did not answer within 30 s")
    return f"{chance.randrange(40)} orders of {shop}"


def export_invoices(bucket: str) -> str:
    pretence.spend(chance.uniform(0.5, 2.0))
    raise ConnectionError(f"bucket {bucket}: upload part {chance.randrange(1, 9000)} timed out")


def charge(order: int) -> str:
    pretence.spend(0.2)
    if order % 3:
        raise ValueError(f"order {order} has no address")
    raise PermissionError(f"card of order {order} was refused")


def send_newsletter(issue: int) -> str:
    for row in range(20):
        current_run().progress(row / 20, f"row {row * 50:,} of 1,000")
        pretence.spend(0.1 if pretence.clock is not None else 3.0)
    return f"issue {issue} sent to 1,000 readers"


def report(kind: str) -> str:
    pretence.spend(chance.uniform(1, 6))
    return f"{kind} report, {chance.randrange(3, 40)} pages"


TASKS: dict[str, Callable[..., str]] = {
    "system.heartbeat": heartbeat, "cache.warm": warm_cache, "orders.sync": sync_orders,
    "billing.export": export_invoices, "billing.charge": charge, "mail.newsletter": send_newsletter,
    "reports.write": report,
}  # fmt: skip


def add_jobs(scheduler: BaseScheduler) -> None:
    """Add jobs of every kind."""
    mail = Limit("mail", concurrency=2)
    api = Limit("shop-api", concurrency=3, rate="60/1m")
    add = scheduler.add_job
    add("system.heartbeat", "interval", seconds=10, id="heartbeat", tags=["system"])
    for region in ("eu-1", "eu-2", "us-1"):
        add("cache.warm", "cron", minute="*", args=[region], id=f"cache.warm-{region}", tags=["cache", region])
    for shop in ("anvil", "bakery", "cobbler", "dairy", "elm"):
        add(
            "orders.sync", "interval", minutes=3, args=[shop], kwargs={"token": "t0p"}, id=f"orders.sync-{shop}",
            tags=["orders", "tenant-7"], limits=[api], retry=3, description="Fetches new orders of one shop.",
        )  # fmt: skip
    add("billing.export", "cron", minute="*/10", args=["eu-1"], id="billing.invoice-export", tags=["billing"],
        dead_letter=True, retry=2, timeout=600)  # fmt: skip
    add("mail.newsletter", "cron", hour="*/2", args=[12], id="newsletter", tags=["mail"], limits=[mail])
    add("reports.write", "cron", hour=2, minute=30, args=["nightly"], id="reports.nightly", tags=["reports"],
        timezone="Europe/Berlin", metadata={"team": "numbers"})  # fmt: skip
    add("reports.write", "cron", day_of_week="mon-fri", hour=18, args=["closing"], id="reports.closing",
        tags=["reports"])  # fmt: skip
    add("reports.write", "interval", minutes=15, args=["quarter-hour"], id="reports.quarter-hour", tags=["reports"])
    for tenant in range(1, 61):
        add("reports.write", "cron", hour=6, minute=tenant % 60, args=["tenant"], id=f"tenant-{tenant:03d}.digest",
            tags=["digest", f"tenant-{tenant % 7}"])  # fmt: skip


def charge_orders(scheduler: BaseScheduler) -> None:
    """Add jobs that fail for good and become dead letters."""
    for order in range(4711, 4748):
        scheduler.add_job(
            "billing.charge", "date", args=[order], id=f"charge-{order}", tags=["billing"], dead_letter=True,
            run_date=scheduler.clock.now() + timedelta(seconds=(order - 4711) * 90),
        )  # fmt: skip


def schedule_messages(scheduler: BaseScheduler) -> None:
    """Add messages that wait to be delivered."""
    front = MessageScheduler(scheduler=scheduler, transport=print, workers=0)
    for hour in range(1, 9):
        due = scheduler.clock.now() + timedelta(hours=hour)
        front.schedule(Message(event_name="reminder.due", payload=b'{"invoice": 4711}', scheduled_at=due))


def make_history(url: str, length: timedelta = HISTORY) -> int:
    """Live through the last hour and a half, and return how many runs that had."""
    pretence.clock = ManualClock(datetime.now(timezone.utc) - length)
    with ManualScheduler(jobstores={"default": url}, clock=pretence.clock) as scheduler:
        for name, task in TASKS.items():
            scheduler.register(name, task)
        add_jobs(scheduler)
        charge_orders(scheduler)
        while scheduler.clock.now() < datetime.now(timezone.utc):
            scheduler.advance(timedelta(seconds=5))  # the jobs move the clock too
        for job_id, reason in (("reports.closing", "the numbers are audited"), ("cache.warm-eu-2", "region moves")):
            scheduler.pause_job(job_id, by="ann", reason=reason)
        runs = len(scheduler.runs(limit=100_000))
    pretence.clock = None
    return runs


def work(url: str) -> None:
    """Run a worker until Enter is pressed."""
    scheduler = BackgroundScheduler(jobstores={"default": url}, timezone="UTC")
    for name, task in TASKS.items():
        scheduler.register(name, task)
    scheduler.start()
    schedule_messages(scheduler)
    soon = datetime.now(timezone.utc) + timedelta(seconds=2)
    scheduler.add_job("reports.write", "date", run_date=soon, args=["video"], id="render.video", executor="gpu")
    for issue in range(13, 18):
        scheduler.add_job("mail.newsletter", "date", run_date=soon, args=[issue], id=f"newsletter-{issue}",
                          tags=["mail"], limits=[Limit("mail", concurrency=2)])  # fmt: skip
    sys.stdin.read(1)
    scheduler.shutdown(wait=False)


def serve(url: str) -> None:
    """Run a worker in a process of its own, and the pages in this one, until Ctrl-C."""
    worker = subprocess.Popen([sys.executable, __file__, "--work", url], stdin=subprocess.PIPE)
    try:
        subprocess.run([sys.executable, "-m", "goscheduler", "web", "--store", url, *sys.argv[2:]], check=False)
    except KeyboardInterrupt:
        print()
    finally:
        worker.communicate(b"\n")


def main() -> None:
    logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # failures are shown by the pages
    if sys.argv[1:2] == ["--work"]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that serves the pages
        work(sys.argv[2])
        return
    if "--serve" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/jobs.db"
            print("Making the history of an hour and a half ...", flush=True)
            make_history(url)
            serve(url)
        return
    if "--check" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            print(f"history: {make_history(f'sqlite:///{folder}/jobs.db', SHORT_HISTORY)} runs")
        return
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "jobs.db")
    is_new = not path.exists()
    if is_new:
        print(f"history: {make_history(f'sqlite:///{path}')} runs", flush=True)
    print("The worker runs. Press Enter to stop it.", flush=True)
    work(f"sqlite:///{path}")


if __name__ == "__main__":
    main()
