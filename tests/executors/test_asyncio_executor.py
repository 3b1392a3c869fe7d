from __future__ import annotations

import asyncio
import functools
import threading

import pytest

from goscheduler.executors import context
from goscheduler.executors.asyncio import AsyncIOExecutor, is_coroutine_function
from goscheduler.executors.context import current_run, forget_run
from goscheduler.runs.model import OutcomeKind

PATIENCE = 60


@pytest.fixture
def executor(started, loop_host):
    return started(AsyncIOExecutor(), loop_host)


class Gate:
    """A coroutine job that tells when it has started and goes on when it is let."""

    def __init__(self, loop):
        self._loop = loop
        self._event = asyncio.Event()
        self.started = threading.Event()

    async def __call__(self):
        self.started.set()
        await self._event.wait()
        return "through"

    def open(self):
        self._loop.call_soon_threadsafe(self._event.set)


@pytest.fixture
def gate(loop_host):
    return loop_host.call(Gate, loop_host._eventloop)


@pytest.fixture
def running(executor, gate, new_run):
    """A run that waits at the gate."""
    run = new_run(gate)
    executor.submit(run)
    assert gate.started.wait(PATIENCE)
    return run


async def coroutine_function():
    return asyncio.get_running_loop()


class AsyncCallable:
    async def __call__(self):
        return None

    async def method(self):
        return None

    def plain(self):
        return None


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (coroutine_function, True),
        (functools.partial(coroutine_function), True),
        (functools.partial(functools.partial(coroutine_function)), True),
        (AsyncCallable(), True),
        (functools.partial(AsyncCallable()), True),
        (AsyncCallable().method, True),
        (AsyncCallable().plain, False),
        (AsyncCallable, False),
        (print, False),
        (functools.partial(print), False),
        (lambda: None, False),
    ],
)
def test_coroutine_functions_are_known_in_all_their_forms(func, expected):
    assert is_coroutine_function(func) is expected


def test_coroutine_functions_run_on_the_schedulers_loop(executor, loop_host, new_run):
    run = new_run(coroutine_function)
    executor.submit(run)

    assert loop_host.outcome_of(run).result is loop_host._eventloop


def test_plain_functions_run_in_threads_of_the_executor(executor, loop_host, new_run):
    run = new_run(threading.current_thread)
    executor.submit(run)

    assert loop_host.outcome_of(run).result.name == "goscheduler-pool_0"


def test_a_coroutine_that_exits_fails_and_the_loop_goes_on(executor, loop_host, new_run):
    async def leave():
        raise SystemExit(3)

    runs = [new_run(leave), new_run(coroutine_function)]
    for run in runs:
        executor.submit(run)

    assert isinstance(loop_host.outcome_of(runs[0]).error, SystemExit)
    assert loop_host.outcome_of(runs[1]).kind is OutcomeKind.SUCCEEDED


def test_a_job_whose_function_cannot_be_had_fails(executor, loop_host, new_run):
    class BrokenJob:
        id = name = "broken"

        @property
        def func(self):
            raise LookupError("gone")

    run = new_run(None, job=BrokenJob())
    executor.submit(run)

    outcome = loop_host.outcome_of(run)
    assert isinstance(outcome.error, LookupError)
    assert outcome.reason == 'could not be submitted to executor "pool"'


def test_a_scheduler_without_a_loop_is_refused(host):
    with pytest.raises(TypeError, match="needs the event loop of an AsyncIOScheduler; RecordingHost has none"):
        AsyncIOExecutor().start(host, "pool")


def test_shutdown_waits_for_tasks(executor, running, loop_host, gate):
    opener = threading.Timer(0.0, gate.open)
    opener.start()

    executor.shutdown(wait=True)

    assert [outcome.result for _, outcome in loop_host.reports] == ["through"]
    opener.join()


def test_shutdown_without_waiting_cancels_tasks(executor, running, loop_host):
    executor.shutdown(wait=False)

    assert loop_host.outcome_of(running).kind is OutcomeKind.CANCELLED


def test_shutdown_that_runs_out_of_time_cancels_tasks(executor, running, loop_host):
    executor.shutdown(wait=True, timeout=0.01)

    assert loop_host.outcome_of(running).kind is OutcomeKind.CANCELLED


def test_a_task_cancelled_from_outside_is_reported_as_cancelled(executor, running, loop_host):
    def cancel_all():
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()

    loop_host.call(cancel_all)

    assert loop_host.outcome_of(running).kind is OutcomeKind.CANCELLED


def test_a_task_cancelled_before_its_first_step_is_reported_as_cancelled(executor, loop_host, new_run):
    run = new_run(coroutine_function)

    def start_and_cancel():
        before = asyncio.all_tasks()
        executor.submit(run)
        asyncio.get_running_loop().call_soon(lambda: [task.cancel() for task in asyncio.all_tasks() - before])

    loop_host.call(start_and_cancel)

    assert loop_host.outcome_of(run).kind is OutcomeKind.CANCELLED


def test_shutdown_on_the_loop_does_not_block_it_and_tasks_finish(executor, running, loop_host, gate):
    loop_host.call(executor.shutdown, True)
    assert loop_host.reports == []

    gate.open()

    assert loop_host.outcome_of(running).result == "through"


def test_shutdown_on_the_loop_without_waiting_cancels(executor, running, loop_host):
    loop_host.call(executor.shutdown, False)

    assert loop_host.outcome_of(running).kind is OutcomeKind.CANCELLED


def test_a_coroutine_job_can_shut_its_executor_down_and_wait_for_the_others(
    executor, running, loop_host, gate, new_run
):
    async def work():
        shutting_down = asyncio.create_task(asyncio.to_thread(executor.shutdown, True))
        await asyncio.sleep(0)
        gate.open()
        await shutting_down
        return "shut down"

    run = new_run(work)
    executor.submit(run)

    assert loop_host.outcome_of(run).result == "shut down"
    assert loop_host.outcome_of(running).result == "through"


def test_a_plain_job_can_shut_its_executor_down(executor, loop_host, new_run):
    run = new_run(executor.shutdown, True)
    executor.submit(run)

    assert loop_host.outcome_of(run).kind is OutcomeKind.SUCCEEDED


def test_runs_wait_for_a_loop_that_has_not_been_run_yet(started, new_host, new_run):
    loop = asyncio.new_event_loop()
    host = new_host()
    host._eventloop = loop
    executor = started(AsyncIOExecutor(), host)
    run = new_run(coroutine_function)
    executor.submit(run)
    assert host.reports == []

    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))

    assert host.outcome_of(run).result is loop
    executor.shutdown()
    loop.close()


def test_shutdown_with_a_loop_that_never_ran_puts_its_runs_back(started, new_host, new_run):
    loop = asyncio.new_event_loop()
    host = new_host()
    host._eventloop = loop
    executor = started(AsyncIOExecutor(), host)
    calls = []

    async def work():
        calls.append(None)

    run = new_run(work)
    executor.submit(run)

    executor.shutdown(wait=True)

    assert host.outcome_of(run).kind is OutcomeKind.SNOOZED
    executor.start(host, "pool")
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    assert len(host.reports) == 1
    assert calls == []
    executor.shutdown()
    loop.close()


def test_a_stopped_or_closed_loop_puts_runs_back(executor, loop_host, new_run):
    loop_host.stop_loop()
    stopped = new_run(coroutine_function)
    executor.submit(stopped)
    loop_host._eventloop.close()
    closed = new_run(coroutine_function)
    executor.submit(closed)
    executor.shutdown(wait=True)
    loop_host._eventloop = asyncio.new_event_loop()

    for run, text in ((stopped, "stopped"), (closed, "closed")):
        outcome = loop_host.outcome_of(run)
        assert outcome.kind is OutcomeKind.SNOOZED
        assert text in outcome.reason


def test_shutdown_does_not_hang_when_the_loop_stopped_under_a_task(executor, running, loop_host):
    loop_host.stop_loop()

    executor.shutdown(wait=True)

    assert loop_host.outcome_of(running).kind is OutcomeKind.CANCELLED


def test_the_end_of_asyncio_run_cancels_and_reports_what_is_still_going_on(new_host, new_run):
    host = new_host()
    executor = AsyncIOExecutor()

    async def hang():
        await asyncio.get_running_loop().create_future()

    async def main():
        host._eventloop = asyncio.get_running_loop()
        executor.start(host, "pool")
        executor.submit(run)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    run = new_run(hang)
    asyncio.run(main())

    assert host.outcome_of(run).kind is OutcomeKind.CANCELLED
    executor.shutdown()


def test_room_shrinks_with_every_task(executor, running, loop_host, gate):
    assert executor.room() == 999

    gate.open()
    loop_host.outcome_of(running)

    assert executor.room() == 1000


def test_five_thousand_coroutines_are_each_reported_once(executor, loop_host, new_run):
    runs = [new_run(coroutine_function) for _ in range(5000)]
    for run in runs:
        executor.submit(run)

    loop_host.wait_for(len(runs))
    executor.shutdown()
    assert sorted(run.id for run, _ in loop_host.reports) == sorted(run.id for run in runs)


class Swallower(Gate):
    """A coroutine job that goes on when it is cancelled, and keeps what it sees then."""

    seen = None

    async def __call__(self):
        self.started.set()
        while not self._event.is_set():
            try:
                await self._event.wait()
            except asyncio.CancelledError:
                self.seen = current_run().cancel_reason


def test_a_cancelled_task_can_clean_up_and_its_outcome_has_the_reason(executor, loop_host, running, gate):
    assert executor.cancel(running, "out of time")

    outcome = loop_host.outcome_of(running)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "out of time")
    assert outcome.started_at is not None
    forget_run(running.id)


def test_a_function_in_a_thread_is_told_and_not_its_neighbour(executor, loop_host, new_run):
    begun = threading.Semaphore(0)
    opened = threading.Event()

    def go_on():
        begun.release()
        while not current_run().cancelled:
            if opened.is_set():
                return "through"
        return current_run().cancel_reason

    runs = [new_run(go_on), new_run(go_on)]
    for run in runs:
        executor.submit(run)
        assert begun.acquire(timeout=PATIENCE)

    assert executor.cancel(runs[0], "out of time")

    assert loop_host.outcome_of(runs[0]).result == "out of time"
    opened.set()
    assert loop_host.outcome_of(runs[1]).result == "through"
    forget_run(runs[0].id)


def test_a_run_that_is_cancelled_before_the_loop_comes_to_it_is_not_started(executor, loop_host, new_run):
    begun, blocked = threading.Event(), threading.Event()

    def block():
        begun.set()
        assert blocked.wait(PATIENCE)

    loop_host._eventloop.call_soon_threadsafe(block)
    assert begun.wait(PATIENCE)
    run = new_run(coroutine_function)
    executor.submit(run)
    loop_host.removed.add(run.id)

    assert executor.cancel(run, "displaced")
    blocked.set()

    outcome = loop_host.outcome_of(run)
    assert (outcome.kind, outcome.reason, outcome.started_at) == (OutcomeKind.CANCELLED, "displaced", None)
    forget_run(run.id)


def test_a_run_that_is_given_up_before_the_loop_comes_to_it_is_never_started(executor, loop_host, new_run):
    begun, blocked = threading.Event(), threading.Event()

    def block():
        begun.set()
        assert blocked.wait(PATIENCE)

    loop_host._eventloop.call_soon_threadsafe(block)
    assert begun.wait(PATIENCE)
    calls = []

    async def work():
        calls.append(1)

    run = new_run(work)
    executor.submit(run)
    room = executor.room()
    executor.give_up(run)
    assert executor.room() == room + 1
    blocked.set()
    loop_host.call(int)

    assert calls == []
    assert loop_host.outcome_of(run).kind is OutcomeKind.CANCELLED
    assert context._given_up == {}


def test_a_task_that_swallows_its_cancellation_is_given_up_and_reported_when_it_ends(executor, loop_host, new_run):
    job = loop_host.call(Swallower, loop_host._eventloop)
    run = new_run(job)
    room = executor.room()
    executor.submit(run)
    assert job.started.wait(PATIENCE)
    executor.cancel(run, "out of time")

    executor.give_up(run)
    forget_run(run.id)

    assert executor.room() == room
    executor.shutdown(wait=True)
    assert loop_host.reports == []
    job.open()
    assert loop_host.outcome_of(run).kind is OutcomeKind.SUCCEEDED
    assert context._given_up == {}
    assert job.seen == "out of time"


def test_a_shutdown_that_waits_stops_waiting_for_a_task_that_is_given_up(executor, loop_host, running, gate):
    ender = threading.Thread(target=executor.shutdown)
    ender.start()
    while not executor._stopped:
        pass

    executor.give_up(running)

    ender.join(PATIENCE)
    assert not ender.is_alive()
    gate.open()
    while context._given_up:
        pass


def test_before_the_start_nothing_can_be_cancelled_or_given_up(new_run):
    executor = AsyncIOExecutor()

    assert not executor.cancel(new_run(int), "out of time")
    assert executor.give_up(new_run(int)) is None
