"""The scheduler of a Tornado program. What it has from AsyncIOScheduler is tested there."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest
from behaviour_doubles import LIMIT, heard, in_event_loop

pytest.importorskip("tornado")

from tornado import gen
from tornado.ioloop import IOLoop

from goscheduler.errors import InvalidArgument
from goscheduler.events import EVENT_JOB_CANCELLED, EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_STARTED
from goscheduler.executors.tornado import TornadoExecutor
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.tornado import TornadoScheduler
from goscheduler.testing import EventRecorder


async def native():
    await asyncio.sleep(0)
    return IOLoop.current()


@gen.coroutine
def decorated():
    yield gen.moment
    return IOLoop.current()


def plain():
    return threading.current_thread().name


@contextmanager
def io_loop():
    loop = IOLoop(make_current=False)
    try:
        yield loop
    finally:
        loop.close(all_fds=True)


@pytest.mark.parametrize("given", [True, False], ids=["given", "current"])
def test_a_scheduler_that_was_started_before_its_loop_runs_jobs_when_that_runs(given):
    with io_loop() as loop:
        asyncio.set_event_loop(loop.asyncio_loop)
        scheduler = TornadoScheduler(timezone="UTC", **({"io_loop": loop} if given else {}))
        recorder = EventRecorder(scheduler)
        for job in (native, decorated, plain):
            scheduler.add_job(job, id=job.__name__)
        scheduler.start()

        async def until_all_have_run():
            names = ("native", "decorated", "plain")
            return [(await heard(recorder, EVENT_JOB_EXECUTED, name)).retval for name in names]

        results = loop.run_sync(until_all_have_run, LIMIT)
        scheduler.shutdown()
        asyncio.set_event_loop(None)

    assert results[0].asyncio_loop is results[1].asyncio_loop is loop.asyncio_loop
    assert results[2] == "goscheduler-default_0"


@in_event_loop
async def test_a_scheduler_runs_on_the_loop_that_is_running_and_not_on_the_one_when_it_was_made():
    scheduler = await asyncio.to_thread(TornadoScheduler, timezone="UTC")  # where there is no loop
    recorder, heard_on, never = EventRecorder(scheduler), [], asyncio.Event()

    async def listen(event):
        heard_on.append(asyncio.get_running_loop())

    scheduler.add_listener(listen, EVENT_JOB_EXECUTED)
    scheduler.start()
    scheduler.add_job(native, id="native")
    assert (await heard(recorder, EVENT_JOB_EXECUTED, "native")).retval is IOLoop.current()

    scheduler.add_job(never.wait, id="cancelled")
    run_id = (await heard(recorder, EVENT_JOB_STARTED, "cancelled")).run_id
    assert scheduler.cancel_run(run_id)
    await heard(recorder, EVENT_JOB_CANCELLED, "cancelled")

    scheduler.add_job(never.wait, id="slow", timeout=0.01)
    assert isinstance((await heard(recorder, EVENT_JOB_ERROR, "slow")).exception, TimeoutError)

    await scheduler.shutdown()
    assert heard_on == [asyncio.get_running_loop()]

    await scheduler.aio.start()
    await scheduler.aio.add_job(native, id="again")
    assert (await heard(recorder, EVENT_JOB_EXECUTED, "again")).retval is IOLoop.current()
    await scheduler.shutdown(wait=False)


def test_what_is_no_loop_of_tornado_is_refused():
    with pytest.raises(InvalidArgument, match="io_loop must be an IOLoop of Tornado, got 5"):
        TornadoScheduler(io_loop=5)
    with pytest.raises(InvalidArgument, match="max_workers must be a positive integer, got 0"):
        TornadoExecutor(max_workers=0)
    scheduler = BackgroundScheduler(executors={"default": TornadoExecutor()})
    with pytest.raises(TypeError, match="TornadoExecutor needs the event loop of a TornadoScheduler; Background"):
        scheduler.start()
