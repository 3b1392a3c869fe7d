"""Coroutines as jobs on the IOLoop of a Tornado program, one native and one of ``tornado.gen``."""

from __future__ import annotations

import asyncio
from typing import Any

from tornado import gen

from goscheduler import TornadoScheduler


async def main() -> None:
    done: asyncio.Queue[str] = asyncio.Queue()

    async def fetch() -> None:
        await asyncio.sleep(0)  # where an HTTP client would wait
        await done.put("native")

    @gen.coroutine
    def fetch_as_before() -> Any:
        yield gen.moment
        done.put_nowait("of tornado.gen")

    scheduler = TornadoScheduler()
    scheduler.start()
    for job in (fetch, fetch_as_before):
        scheduler.add_job(job)
        print(f"A coroutine, {await asyncio.wait_for(done.get(), timeout=60)}, ran on the IOLoop")
    await scheduler.shutdown()
    print(f"Running: {scheduler.running}")


asyncio.run(main())
