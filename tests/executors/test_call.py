from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref

import pytest

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors.call import MAX_TRACEBACK, execute, execute_coroutine, missed, shortened
from goscheduler.executors.context import current_run
from goscheduler.runs.model import OutcomeKind, Source


def test_a_function_that_returns_succeeds_with_its_result_start_and_duration(new_run, clock):
    def work(left, right):
        clock.move(2.5)
        return left + right

    started_at = clock.now()
    outcome = execute(new_run(work, 20, 22), clock)

    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert (outcome.result, outcome.error, outcome.traceback) == (42, None, "")
    assert (outcome.started_at, outcome.seconds) == (started_at, 2.5)


@pytest.mark.parametrize(
    ("late", "grace", "source", "is_missed"),
    [
        (0, 1, Source.SCHEDULE, False),
        (1, 1, Source.SCHEDULE, False),
        (1.001, 1, Source.SCHEDULE, True),
        (3600, None, Source.SCHEDULE, False),
        (-5, 1, Source.SCHEDULE, False),
        (3600, 1, Source.MANUAL, False),
        (3600, 1, Source.RETRY, False),
        (3600, 1, Source.REDRIVE, False),
        (3600, 1, Source.RECOVERED, False),
    ],
)
def test_only_a_scheduled_run_later_than_its_grace_is_missed(late, grace, source, is_missed, new_run, new_job, clock):
    job = new_job(print, misfire_grace_time=grace)
    run = new_run(None, job=job, at=clock.now(), source=source)
    clock.move(late)

    outcome = missed(run, clock)

    assert (outcome is not None) == is_missed


def test_a_missed_run_is_not_called_and_says_by_how_much(new_run, new_job, clock):
    called = []
    run = new_run(None, job=new_job(called.append, (1,), misfire_grace_time=5), at=clock.now())
    clock.move(61)

    outcome = execute(run, clock)

    assert outcome.kind is OutcomeKind.MISSED
    assert outcome.reason == "missed by 0:01:01"
    assert outcome.started_at is None
    assert called == []


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        MemoryError(),
        Speechless(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_function_raises_becomes_a_failed_outcome(error, new_run):
    def work():
        raise error

    outcome = execute(new_run(work), SYSTEM_CLOCK)

    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.error is error
    assert "in work" in outcome.traceback
    assert outcome.started_at is not None


def test_the_traceback_has_the_users_frames_and_not_ours_nor_the_exception_line(new_run):
    def work():
        raise ValueError("a text to look for")

    outcome = execute(new_run(work), SYSTEM_CLOCK)

    assert outcome.traceback.startswith('  File "')
    assert "executors/call.py" not in outcome.traceback
    assert "ValueError: a text" not in outcome.traceback


def test_wrong_arguments_fail_without_frames(new_run):
    outcome = execute(new_run(lambda: None, 1, 2), SYSTEM_CLOCK)

    assert isinstance(outcome.error, TypeError)
    assert outcome.traceback == ""


def test_a_function_that_cannot_be_had_fails(new_run):
    class BrokenJob:
        id = "broken"
        misfire_grace_time = None

        @property
        def func(self):
            raise LookupError("gone")

    outcome = execute(new_run(None, job=BrokenJob()), SYSTEM_CLOCK)

    assert isinstance(outcome.error, LookupError)


def test_a_deep_recursion_gives_a_short_traceback(new_run):
    def ping(depth):
        return pong(depth + 1)

    def pong(depth):
        return ping(depth + 1)

    outcome = execute(new_run(ping, 0), SYSTEM_CLOCK)

    assert isinstance(outcome.error, RecursionError)
    assert len(outcome.traceback) < MAX_TRACEBACK + 100
    assert "characters left out" in outcome.traceback


@pytest.mark.parametrize(("length", "is_cut"), [(0, False), (100, False), (101, True), (10_000, True)])
def test_a_text_is_cut_in_the_middle_only_above_the_limit(length, is_cut):
    text = "a" * (length // 2) + "z" * (length - length // 2)

    short = shortened(text, 100)

    assert ("left out" in short) == is_cut
    assert len(short) < 160
    assert short[:1] == text[:1]
    assert short[-1:] == text[-1:]


def test_a_failed_outcome_does_not_keep_alive_what_the_job_had_in_its_hands(new_run):
    class Heavy:
        pass

    references = []

    def dig():
        heavy = Heavy()
        references.append(weakref.ref(heavy))
        raise KeyError("inner")

    def work():
        heavy = Heavy()
        references.append(weakref.ref(heavy))
        try:
            dig()
        except KeyError as error:
            raise ValueError("outer") from error

    gc.disable()
    try:
        outcome = execute(new_run(work), SYSTEM_CLOCK)
        alive = [reference() for reference in references]
    finally:
        gc.enable()

    assert isinstance(outcome.error, ValueError)
    assert alive == [None, None]


def test_a_coroutine_function_is_run_to_its_end(new_run):
    async def work(number):
        await asyncio.sleep(0)
        return number + 1, current_run().attempt

    outcome = execute(new_run(work, 41, attempt=3), SYSTEM_CLOCK)

    assert outcome.result == (42, 3)


def test_a_plain_function_that_returns_a_coroutine_is_run_to_its_end(new_run):
    async def work():
        return "done"

    assert execute(new_run(lambda: work()), SYSTEM_CLOCK).result == "done"


def test_a_generator_is_a_result_like_any_other(new_run):
    def work():
        yield 1

    assert list(execute(new_run(work), SYSTEM_CLOCK).result) == [1]


def test_a_coroutine_where_a_loop_runs_already_fails_and_is_closed(new_run):
    async def work():
        return "never"

    async def on_a_loop():
        return execute(new_run(work), SYSTEM_CLOCK)

    outcome = asyncio.run(on_a_loop())

    assert isinstance(outcome.error, RuntimeError)


def test_context_variables_set_by_one_job_are_not_seen_by_the_next(new_run):
    variable = contextvars.ContextVar("variable", default="clean")

    execute(new_run(variable.set, "dirty"), SYSTEM_CLOCK)

    assert execute(new_run(variable.get), SYSTEM_CLOCK).result == "clean"


def test_execute_coroutine_awaits_on_the_running_loop(new_run):
    async def work():
        return asyncio.get_running_loop()

    async def main():
        return await execute_coroutine(new_run(work), SYSTEM_CLOCK), asyncio.get_running_loop()

    outcome, loop = asyncio.run(main())

    assert outcome.result is loop


def test_execute_coroutine_of_a_plain_function_gives_its_result(new_run):
    assert asyncio.run(execute_coroutine(new_run(lambda: 42), SYSTEM_CLOCK)).result == 42


def test_execute_coroutine_misses_fails_and_is_cancelled_like_execute(new_run, new_job, clock):
    async def fail():
        raise ValueError("no")

    async def hang():
        await asyncio.get_running_loop().create_future()

    async def cancelled():
        task = asyncio.create_task(execute_coroutine(new_run(hang), SYSTEM_CLOCK))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    late = new_run(None, job=new_job(fail, misfire_grace_time=1), at=clock.now())
    clock.move(2)

    assert asyncio.run(execute_coroutine(late, clock)).kind is OutcomeKind.MISSED
    assert asyncio.run(execute_coroutine(new_run(fail), clock)).kind is OutcomeKind.FAILED
    assert asyncio.run(cancelled()).kind is OutcomeKind.CANCELLED
