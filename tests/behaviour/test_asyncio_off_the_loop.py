"""What an event loop has to wait for, what it has not, and that it is told."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import io
import threading

import pytest
from behaviour_doubles import LIMIT, in_event_loop, note, run, within
from lease_doubles import SharedStore

from goscheduler.errors import StoreUnavailable
from goscheduler.events import EVENT_SCHEDULER_DEGRADED
from goscheduler.schedulers.asyncio import AsyncIOScheduler, OffLoop
from goscheduler.testing import ManualClock


class SlowStore(SharedStore):
    """Lets the clock go on by a while whenever it is asked for jobs."""

    def __init__(self, clock, seconds):
        super().__init__()
        self._clock = clock
        self._seconds = seconds

    def get_all_jobs(self):
        self._clock.advance(self._seconds)
        return super().get_all_jobs()


class SlowLocalStore(SlowStore):
    shared = False


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if "event loop" in record.getMessage()]


@pytest.mark.parametrize(
    ("kind", "seconds", "told"), [(SlowStore, 0.06, 1), (SlowStore, 0.04, 0), (SlowLocalStore, 9, 0)]
)
@in_event_loop
async def test_a_call_that_blocks_the_loop_for_long_says_so_once_and_names_the_remedy(caplog, kind, seconds, told):
    clock = ManualClock()
    scheduler = AsyncIOScheduler(clock=clock, jobstores={"default": kind(clock, seconds)})
    await scheduler.aio.start(paused=True)
    await scheduler.aio.get_jobs()
    assert warnings_of(caplog) == [], "the loop was not blocked"
    scheduler.get_jobs()
    scheduler.export_jobs(io.StringIO())
    assert len(warnings_of(caplog)) == told
    assert all("await scheduler.aio.get_jobs(...)" in words for words in warnings_of(caplog))
    await scheduler.shutdown()


@in_event_loop
async def test_of_a_call_that_makes_others_the_one_is_named_that_the_user_made(caplog):
    clock = ManualClock()
    scheduler = AsyncIOScheduler(clock=clock, jobstores={"default": SlowStore(clock, 0.06)})
    await scheduler.aio.start(paused=True)
    scheduler.export_jobs(io.StringIO())
    assert "await scheduler.aio.export_jobs(...)" in "".join(warnings_of(caplog))
    await scheduler.shutdown()


class Unreachable(SharedStore):
    """Is down until a test says otherwise."""

    def __init__(self):
        super().__init__()
        self.down = True

    def start(self, scheduler, alias):
        if self.down:
            raise StoreUnavailable("nobody answers")
        super().start(scheduler, alias)


@in_event_loop
async def test_a_plain_start_that_waits_on_the_loop_says_that_the_loop_stands_still(caplog):
    scheduler = AsyncIOScheduler(jobstores={"default": Unreachable()}, start_timeout=0.05)
    with pytest.raises(StoreUnavailable):
        scheduler.start()
    (words,) = warnings_of(caplog)
    assert "cannot be reached" in words
    assert "await scheduler.aio.start()" in words


@in_event_loop
async def test_an_awaited_start_leaves_the_loop_free_while_it_waits_for_a_store(caplog):
    store = Unreachable()
    scheduler = AsyncIOScheduler(jobstores={"default": store})
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()
    scheduler.add_listener(lambda _: loop.call_soon_threadsafe(waits.set), EVENT_SCHEDULER_DEGRADED)
    starting = asyncio.create_task(scheduler.aio.start())
    await asyncio.wait_for(waits.wait(), LIMIT)
    assert not starting.done()
    assert warnings_of(caplog) == []
    store.down = False
    await asyncio.wait_for(starting, LIMIT)
    assert scheduler.running
    await scheduler.shutdown()


@pytest.mark.parametrize("ended_by", ["cancel", "shutdown", "aio.shutdown"])
@in_event_loop
async def test_an_awaited_start_that_waits_ends_when_it_is_cancelled_or_shut_down(ended_by):
    scheduler = AsyncIOScheduler(jobstores={"default": Unreachable()})
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()
    scheduler.add_listener(lambda _: loop.call_soon_threadsafe(waits.set), EVENT_SCHEDULER_DEGRADED)
    starting = asyncio.create_task(scheduler.aio.start())
    await asyncio.wait_for(waits.wait(), LIMIT)
    patience = scheduler._starting
    if ended_by == "cancel":
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    else:
        await (scheduler.shutdown() if ended_by == "shutdown" else scheduler.aio.shutdown())
        await asyncio.wait_for(starting, LIMIT)
    await asyncio.to_thread(patience.wait_for_end, LIMIT)
    assert not scheduler.running
    assert scheduler._starting is None


def test_aio_has_every_method_that_goes_to_a_store_and_sees_the_context_of_the_caller():
    variable = contextvars.ContextVar("variable", default="unset")

    class Own(AsyncIOScheduler):
        def seen(self):
            return variable.get(), threading.current_thread()

    async def main():
        scheduler = Own()
        variable.set("set")
        value, thread = await scheduler.aio.seen()
        assert value == "set"
        assert thread is not threading.current_thread()
        local = {"add_listener", "remove_listener", "add_around", "remove_around", "configure", "pause", "resume",
                 "wakeup", "may_start", "report",
                 "register", "scheduled_job", "every", "start", "ensure_default_executor", "liveness"}  # fmt: skip
        public = {name for name, method in inspect.getmembers(AsyncIOScheduler, callable) if not name.startswith("_")}
        assert public - local <= set(vars(OffLoop))

    run(main)


@pytest.mark.serial
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper"])
def test_the_loop_turns_while_a_frozen_server_keeps_awaited_calls_waiting(private_server, kind):
    server = private_server(kind)
    url = f"{server.url}/frozen" if kind in ("etcd", "zookeeper") else server.url

    async def main():
        scheduler = AsyncIOScheduler(jobstores={"default": url}, timezone="UTC")
        await scheduler.aio.start()
        await asyncio.to_thread(server.freeze)
        calls = [
            asyncio.create_task(scheduler.aio.get_jobs()),
            asyncio.create_task(scheduler.aio.add_job(note, "interval", hours=1)),
            asyncio.create_task(AsyncIOScheduler(jobstores={"default": url}).aio.start()),
        ]
        turns = 0
        while turns < 200 and not any(call.done() for call in calls):
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 10, "a call that keeps the loop waiting is done after its first turn"
        calls[2].cancel()
        await asyncio.to_thread(server.thaw)
        await asyncio.wait(calls)
        await scheduler.shutdown()

    within(100, lambda: asyncio.run(main()))
