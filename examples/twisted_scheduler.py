"""Jobs on the reactor and in its threads; when the reactor stops, it waits for the scheduler."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import deferLater
from twisted.python.threadable import isInIOThread

from goscheduler import TwistedScheduler

loop: Any = reactor
scheduler = TwistedScheduler()


def compute() -> None:
    print(f"A function ran on the reactor: {isInIOThread()}")
    scheduler.add_job(fetch)


async def fetch() -> None:
    await deferLater(loop, 0, lambda: None)  # where a client would wait
    print(f"A coroutine ran on the reactor: {isInIOThread()}")
    scheduler.add_job(fetch_as_before)


@inlineCallbacks
def fetch_as_before() -> Generator[Any, Any, None]:
    yield deferLater(loop, 0, lambda: None)
    print(f"inlineCallbacks ran on the reactor: {isInIOThread()}")
    loop.stop()


scheduler.add_job(compute)
scheduler.start()
loop.run()
print(f"Running: {scheduler.running}")
