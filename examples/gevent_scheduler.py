"""Jobs as greenlets: two that wait for each other, and one that runs out of time and is killed where it waits."""

from __future__ import annotations

import logging

import gevent
from gevent.event import Event

from goscheduler import GeventScheduler, RunCancelled

logging.getLogger("goscheduler").setLevel(logging.CRITICAL)  # what is killed is logged as an error
ping, pong, cleaned = Event(), Event(), Event()
scheduler = GeventScheduler()


def serve() -> None:
    ping.set()
    pong.wait()


def answer() -> None:
    ping.wait()
    print("Two jobs have met on one hub")
    pong.set()


def hang() -> None:
    try:
        Event().wait()
    except RunCancelled as reason:
        print(f"Killed: {reason}")
        cleaned.set()
        raise


for job in (serve, answer):
    scheduler.add_job(job)
scheduler.add_job(hang, timeout=0.2)
staying = scheduler.start()
with gevent.Timeout(60):
    pong.wait()
    cleaned.wait()
    scheduler.shutdown()
    staying.join()  # a program without more to do waits here, and not for events
print(f"Running: {scheduler.running}")
