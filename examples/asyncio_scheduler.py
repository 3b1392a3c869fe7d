"""Coroutines as jobs, on the event loop of an asyncio program; ``shutdown`` can be awaited."""

from __future__ import annotations

import asyncio

from goscheduler import AsyncIOScheduler


async def main() -> None:
    twice = asyncio.Event()
    fetched: list[int] = []

    async def fetch() -> None:
        await asyncio.sleep(0)  # where an HTTP client would wait
        fetched.append(len(fetched) + 1)
        print(f"Fetched page {fetched[-1]} on the event loop")
        if len(fetched) == 2:
            twice.set()

    scheduler = AsyncIOScheduler()
    scheduler.add_job(fetch, "interval", seconds=0.1, id="fetch", overlap="queue")
    scheduler.start()
    await asyncio.wait_for(twice.wait(), timeout=60)
    await scheduler.shutdown()
    print(f"Running: {scheduler.running}")


asyncio.run(main())
