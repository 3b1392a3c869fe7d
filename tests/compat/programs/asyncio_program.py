"""Coroutine functions on AsyncIOScheduler."""

from __future__ import annotations

import asyncio

from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers.asyncio import AsyncIOScheduler


async def tick(results, finished, name):
    await asyncio.sleep(0)
    results.append(name)
    if len(results) == 3:
        finished.set()
    return name


async def run(show):
    loop, finished, results, heard = asyncio.get_running_loop(), asyncio.Event(), [], []
    all_heard = asyncio.Event()

    def listener(event):
        heard.append((event.job_id, event.retval))
        if len(heard) == 3:
            loop.call_soon_threadsafe(all_heard.set)

    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.add_listener(listener, EVENT_JOB_EXECUTED)
    scheduler.add_job(tick, args=[results, finished, "pending"], id="1", misfire_grace_time=60)
    scheduler.start()
    scheduler.add_job(tick, args=[results, finished, "first"], id="2", misfire_grace_time=60)
    scheduler.add_job(tick, args=[results, finished, "second"], id="3", misfire_grace_time=60)
    await asyncio.wait_for(finished.wait(), 60)
    await asyncio.wait_for(all_heard.wait(), 60)
    show(sorted(results), sorted(heard), scheduler.running)
    result = scheduler.shutdown(wait=False)
    if result is not None:
        await result
    await asyncio.sleep(0)
    show(scheduler.running)


def main(show):
    asyncio.run(run(show))
