"""``around=``: what users put around each run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from goscheduler import (
    AsyncIOScheduler,
    BackgroundScheduler,
    CurrentRun,
    ProcessPoolExecutor,
    RetryLater,
    RunCancelled,
    Snooze,
    current_run,
)
from goscheduler.errors import InvalidArgument
from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import ManualScheduler
from tests.behaviour import arounds

HERE = "tests.behaviour.arounds:noting"


def fail() -> None:
    raise ValueError("from the job")


class Journal:
    """Makes functions for ``around`` that write down what they see."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def layer(self, name: str) -> Callable[[CurrentRun], contextlib.AbstractContextManager[None]]:
        @contextlib.contextmanager
        def layer(run: CurrentRun) -> Iterator[None]:
            self.lines.append(f"{name} in {run.job_id}")
            try:
                yield
            except BaseException as error:
                self.lines.append(f"{name} saw {type(error).__name__}")
                raise
            finally:
                self.lines.append(f"{name} out")

        return layer

    def on_the_loop(self, name: str) -> Callable[[CurrentRun], contextlib.AbstractAsyncContextManager[None]]:
        @contextlib.asynccontextmanager
        async def layer(run: CurrentRun) -> AsyncIterator[None]:
            await asyncio.sleep(0)
            with self.layer(name)(run):
                yield

        return layer


def outcome_of(scheduler: ManualScheduler, func: Callable[..., Any], **options: Any) -> Any:
    scheduler.add_job(func, id="job", auto_remove=False, **options)
    scheduler.run_due()
    return scheduler.runs("job")[0]


def test_the_first_is_outermost_and_all_see_the_run_and_its_exception() -> None:
    journal = Journal()
    with ManualScheduler(around=[journal.layer("a")]) as scheduler:
        scheduler.add_around(journal.layer("b"))
        record = outcome_of(scheduler, fail)
    assert journal.lines == ["a in job", "b in job", "b saw ValueError", "b out", "a saw ValueError", "a out"]
    assert (record.outcome, record.error_type) == (OutcomeKind.FAILED, "ValueError")


def test_the_exception_has_the_frames_of_the_job_with_their_variables_and_the_record_has_none_of_ours() -> None:
    seen: list[Any] = []

    class Reporter:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: object, error: BaseException | None, frames: Any) -> None:
            while frames.tb_next is not None:
                frames = frames.tb_next
            seen.append(frames.tb_frame.f_locals["amount"])

    def bill(amount: int) -> None:
        raise ValueError

    failures: list[JobExecutionEvent] = []
    with ManualScheduler(around=[lambda run: Reporter()]) as scheduler:
        scheduler.add_listener(failures.append, EVENT_JOB_ERROR)
        outcome_of(scheduler, bill, args=[7])
    assert seen == [7]
    assert "executors" not in failures[0].traceback
    assert "in bill" in failures[0].traceback


@pytest.mark.parametrize("where", ["call", "enter", "exit"])
def test_what_it_raises_is_the_failure_of_the_attempt_and_the_job_is_not_called_before_that(where: str) -> None:
    called: list[str] = []

    class Broken:
        def __init__(self, run: CurrentRun) -> None:
            self.fail_in("call")

        def __enter__(self) -> None:
            self.fail_in("enter")

        def __exit__(self, *error: object) -> None:
            self.fail_in("exit")

        def fail_in(self, place: str) -> None:
            if place == where:
                raise OSError(f"in {place}")

    with ManualScheduler(around=[Broken]) as scheduler:
        record = outcome_of(scheduler, lambda: called.append("job"))
    assert (record.outcome, record.error_type, record.error_message) == (OutcomeKind.FAILED, "OSError", f"in {where}")
    assert called == (["job"] if where == "exit" else [])


def test_an_exception_that_it_suppresses_is_the_failure_of_the_attempt_all_the_same() -> None:
    journal = Journal()
    with ManualScheduler(around=[journal.layer("a"), lambda run: contextlib.suppress(ValueError)]) as scheduler:
        record = outcome_of(scheduler, fail)
    assert (record.outcome, record.error_message) == (OutcomeKind.FAILED, "from the job")
    assert "a saw ValueError" in journal.lines


@pytest.mark.parametrize(
    ("error", "outcome"), [(Snooze(60), OutcomeKind.SNOOZED), (RunCancelled("enough"), OutcomeKind.CANCELLED)]
)
def test_snooze_and_cancel_go_through_it_and_it_can_raise_them_itself(error: Any, outcome: OutcomeKind) -> None:
    journal = Journal()

    def give_up() -> None:
        raise error

    @contextlib.contextmanager
    def instead(run: CurrentRun) -> Iterator[None]:
        try:
            yield
        except ValueError as failure:
            raise error from failure

    with ManualScheduler(around=[journal.layer("a")]) as scheduler:
        assert outcome_of(scheduler, give_up).outcome is outcome
    assert f"a saw {type(error).__name__}" in journal.lines
    with ManualScheduler(around=[instead]) as scheduler:
        assert outcome_of(scheduler, fail).outcome is outcome


def test_a_retry_enters_it_again_with_its_attempt() -> None:
    attempts: list[int] = []

    @contextlib.contextmanager
    def counted(run: CurrentRun) -> Iterator[None]:
        attempts.append(run.attempt)
        assert current_run().attempt == run.attempt
        yield

    def later() -> None:
        raise RetryLater(5)

    with ManualScheduler(around=[counted]) as scheduler:
        scheduler.add_job(later, id="job", retry=2)
        scheduler.advance("1m")
        scheduler.remove_around(counted)
        scheduler.add_job(later)
        scheduler.run_due()
    assert attempts == [1, 2]


def test_coroutines_have_async_and_plain_ones_and_functions_on_threads_plain_ones() -> None:
    journal = Journal()
    threads: list[str] = []

    async def on_the_loop() -> None:
        journal.lines.append("job")

    def either(run: CurrentRun) -> Any:
        return journal.on_the_loop("b")(run) if run.job_id == "co" else journal.layer("b")(run)

    async def main() -> None:
        scheduler = AsyncIOScheduler(around=[journal.layer("a"), either])
        ended: asyncio.Queue[None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        scheduler.add_listener(
            lambda event: loop.call_soon_threadsafe(ended.put_nowait, None), EVENT_JOB_EXECUTED | EVENT_JOB_ERROR
        )
        scheduler.start()
        scheduler.add_job(on_the_loop, id="co")
        await ended.get()
        scheduler.add_job(lambda: threads.append(threading.current_thread().name), id="thread")
        await ended.get()
        await scheduler.shutdown()

    asyncio.run(main())
    assert journal.lines == [
        "a in co", "b in co", "job", "b out", "a out", "a in thread", "b in thread", "b out", "a out",
    ]  # fmt: skip
    assert threads[0].startswith("goscheduler-")


def test_a_coroutine_that_is_cancelled_leaves_it_with_that_and_a_coroutine_on_a_thread_is_enclosed_as_a_whole() -> None:
    journal = Journal()

    async def main() -> None:
        scheduler = AsyncIOScheduler(around=[journal.on_the_loop("a")])
        scheduler.start()
        begun = asyncio.Event()

        async def for_ever() -> None:
            begun.set()
            await asyncio.Event().wait()

        scheduler.add_job(for_ever, id="job")
        await begun.wait()
        [run] = scheduler.live_runs()
        scheduler.cancel_run(run.id)
        await scheduler.shutdown()

    asyncio.run(main())
    assert journal.lines == ["a in job", "a saw CancelledError", "a out"]
    seen: list[Any] = []

    async def later() -> None:
        seen.append(await arounds.what_is_here_later())

    with ManualScheduler(around=[HERE]) as scheduler:
        outcome_of(scheduler, later)
    assert seen == [[f"job in {os.getpid()}"]]


@pytest.mark.serial
def test_it_crosses_into_child_processes_by_its_name_and_is_not_entered_in_the_parent() -> None:
    results: list[Any] = []
    ended = threading.Event()

    def take(event: JobExecutionEvent) -> None:
        results.append(event.retval if event.exception is None else event.exception)
        ended.set()

    scheduler = BackgroundScheduler({"goscheduler.around": HERE}, executors={"default": ProcessPoolExecutor(1)})
    scheduler.add_listener(take, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    scheduler.start()
    try:
        with pytest.raises(InvalidArgument, match=r"around: .*<lambda> cannot go to other processes"):
            scheduler.add_around(lambda run: contextlib.nullcontext())
        scheduler.add_job(arounds.what_is_here, id="job")
        assert ended.wait(60)
    finally:
        scheduler.shutdown()
    assert results[0][0].startswith("job in ")
    assert results[0][0] != f"job in {os.getpid()}"


def test_what_has_no_name_is_refused_beside_a_process_pool_before_anything_is_started() -> None:
    journal = Journal()
    scheduler = BackgroundScheduler(around=[journal.layer("a")])
    with pytest.raises(InvalidArgument, match=r"nested function\. Define it at the top of a module"):
        scheduler.add_executor(ProcessPoolExecutor(1), "processes")
    scheduler = BackgroundScheduler(around=[journal.layer("a")], executors={"default": ProcessPoolExecutor(1)})
    with pytest.raises(InvalidArgument, match="cannot go to other processes"):
        scheduler.start()
    assert not scheduler.running


@contextlib.contextmanager
def no_argument() -> Iterator[None]:
    yield


async def coroutine(run: CurrentRun) -> None: ...


def generator(run: CurrentRun) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (7, InvalidArgument, "around must be a list of functions or of references such as 'myapp.tracing:span', got 7"),
        ([7], InvalidArgument, "7 cannot be called; expected a function that takes the run"),
        ([no_argument], InvalidArgument, "is called with one argument, the current run: too many"),
        ([contextlib.nullcontext()], InvalidArgument, "is a context manager; give the function that returns one"),
        ([coroutine], InvalidArgument, "decorate it with contextlib.asynccontextmanager"),
        ([generator], InvalidArgument, "decorate it with contextlib.contextmanager"),
        ("tests.behaviour.arounds:notting", LookupError, "Error resolving reference"),
        ("noting", ValueError, "expected 'module:attribute'"),
    ],
)
def test_what_cannot_enclose_a_run_is_refused_when_it_is_given(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ManualScheduler(around=given)


def test_the_same_one_is_not_added_twice_and_an_unknown_one_can_be_removed() -> None:
    scheduler = ManualScheduler(around=[HERE])
    with pytest.raises(InvalidArgument, match="was added before"):
        scheduler.add_around(HERE)
    scheduler.remove_around(arounds.noting_on_the_loop)
    scheduler.remove_around(HERE)
    scheduler.add_around(HERE)


@pytest.mark.parametrize(
    ("around", "text"),
    [
        (lambda run: None, "must return a context manager, got None"),
        (arounds.noting_on_the_loop, "an async context manager, and the job is not a coroutine function on an event"),
    ],
)
def test_what_returns_no_context_manager_fails_the_attempt_and_the_job_is_not_called(around: Any, text: str) -> None:
    called: list[str] = []
    with ManualScheduler(around=[around]) as scheduler:
        record = outcome_of(scheduler, lambda: called.append("job"))
    assert (record.outcome, record.error_type) == (OutcomeKind.FAILED, "TypeError")
    assert text in record.error_message
    assert called == []
