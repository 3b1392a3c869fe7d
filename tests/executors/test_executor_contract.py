"""What every executor does, whichever it is."""

from __future__ import annotations

import copy
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor as Threads
from datetime import timedelta
from functools import partial

import pytest

from goscheduler.executors import context
from goscheduler.executors.asyncio import AsyncIOExecutor
from goscheduler.executors.base import BaseExecutor, stop
from goscheduler.executors.context import forget_run, progress_of
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.futures import FuturesExecutor
from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from goscheduler.runs.model import OutcomeKind
from goscheduler.tasks import PassJob

pytestmark = pytest.mark.serial
needs_named_pipes = pytest.mark.skipif(sys.platform == "win32", reason="uses named pipes")

MAKERS = {
    "threads": lambda: ThreadPoolExecutor(3),
    "processes": lambda: ProcessPoolExecutor(1),
    "asyncio": AsyncIOExecutor,
    "debug": DebugExecutor,
    "futures": lambda: FuturesExecutor(partial(Threads, 3)),
    "futures, packed": lambda: FuturesExecutor(partial(Threads, 3), in_process=False),
}


@pytest.fixture(params=MAKERS)
def executor(request, started, loop_host):
    return started(MAKERS[request.param](), loop_host)


@pytest.fixture
def perform(executor, loop_host, new_run):
    """A function that runs ``func(*args)`` and returns its only outcome."""

    def perform(func, *args, **facts):
        run = new_run(func, *args, **facts)
        executor.submit(run)
        return loop_host.outcome_of(run)

    return perform


def test_functions_and_coroutine_functions_of_all_kinds_are_run_to_their_end(perform, jobs):
    assert perform(jobs.add, 41).result == 42
    assert perform(jobs.add_later, 41).result == 42
    assert perform(jobs.add_to_forty_later, 2).result == 42
    assert perform(jobs.AsyncAdder(), 41).result == 42


def test_a_failure_is_reported_with_its_exception_and_its_frames(perform, jobs):
    for func in (jobs.fail, jobs.fail_later):
        outcome = perform(func, "on purpose")

        assert outcome.kind is OutcomeKind.FAILED
        assert isinstance(outcome.error, ValueError)
        assert str(outcome.error) == "on purpose"
        assert f"in {func.__name__}" in outcome.traceback
        assert outcome.started_at is not None


def test_exit_interrupt_and_odd_exceptions_fail_the_run_and_the_executor_lives_on(perform, jobs):
    assert isinstance(perform(jobs.leave, 3).error, SystemExit)
    assert isinstance(perform(jobs.interrupt).error, KeyboardInterrupt)
    assert perform(jobs.cancel).kind is OutcomeKind.FAILED
    assert type(perform(jobs.fail_speechlessly).error).__name__ == "Speechless"
    assert perform(jobs.add, 41).result == 42


def test_a_running_job_sees_its_run(perform, new_run, new_job, jobs, loop_host, executor):
    for func in (jobs.facts, jobs.facts_later):
        run = new_run(func, attempt=2, fence=5)
        executor.submit(run)

        facts = loop_host.outcome_of(run).result

        assert facts == ("job-1", run.id, 2, run.scheduled_at, run.fire_id, 5, True)


def test_a_handler_gets_the_job_beside_its_payload(executor, new_run, new_job, jobs, loop_host):
    for func in (jobs.handle, jobs.handle_later):
        job = new_job(PassJob(func), ({"to": "a@b.c"},), func_ref="sendEmail", tags=("mail",))
        run = new_run(None, job=job)
        executor.submit(run)

        payload, seen = loop_host.outcome_of(run).result

        assert payload == {"to": "a@b.c"}
        assert seen == ("job-1", "a job", "sendEmail", ("mail",), (payload,), {})


def test_a_run_later_than_its_grace_is_missed(executor, loop_host, new_run, new_job, jobs):
    for func in (jobs.add, jobs.add_later):
        job = new_job(func, (1,), misfire_grace_time=60)
        run = new_run(None, job=job, at=loop_host.clock.now() - timedelta(seconds=61))
        executor.submit(run)

        assert loop_host.outcome_of(run).kind is OutcomeKind.MISSED


def test_a_run_whose_job_was_removed_meanwhile_is_cancelled_and_not_called(executor, loop_host, new_run, new_job, jobs):
    for func in (jobs.add, jobs.add_later):
        run = new_run(func, 1)
        loop_host.removed.add(run.id)
        executor.submit(run)

        outcome = loop_host.outcome_of(run)
        assert outcome.kind is OutcomeKind.CANCELLED
        assert outcome.started_at is None
        assert "removed" in outcome.reason


def test_an_executor_that_is_not_started_can_be_copied_and_the_copy_works(request, started, loop_host, new_run, jobs):
    for make in MAKERS.values():
        copied = started(copy.deepcopy(make()), loop_host)
        run = new_run(jobs.add, 41)
        copied.submit(run)

        assert loop_host.outcome_of(run).result == 42


def test_after_a_shutdown_it_can_be_started_again(executor, loop_host, new_run, jobs):
    for _ in range(2):
        stop(executor, wait=True, timeout=30)
        executor.start(loop_host, "pool")
        for func in (jobs.add, jobs.add_later):
            run = new_run(func, 41)
            executor.submit(run)

            assert loop_host.outcome_of(run).result == 42


def test_shutdown_twice_or_without_a_start_is_nothing(executor):
    executor.shutdown()
    executor.shutdown(wait=False)
    for make in MAKERS.values():
        make().shutdown()


def test_what_comes_after_the_shutdown_is_put_back(executor, loop_host, new_run, jobs):
    executor.shutdown()
    if isinstance(executor, DebugExecutor):
        return  # it has no state: it runs what it is given

    for func in (jobs.add, jobs.add_later):
        run = new_run(func, 1)
        executor.submit(run)

        outcome = loop_host.outcome_of(run)
        assert outcome.kind is OutcomeKind.SNOOZED
        assert outcome.reason


def test_a_fresh_executor_has_room(executor):
    assert executor.room() >= 1


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "goscheduler.executors.pool")

    def lines():
        return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]

    return lines


def test_the_log_tells_of_a_start(perform, jobs, log):
    run_at = perform(jobs.add, 1).started_at

    [starts] = log()
    assert starts.startswith("INFO Run ")
    assert f"starts, attempt 1, scheduled at {run_at.date()}" in starts


def test_the_log_tells_of_no_start_of_a_run_that_is_too_late(perform, new_job, jobs, log, loop_host):
    perform(None, job=new_job(jobs.add, (1,), misfire_grace_time=1), at=loop_host.clock.now() - timedelta(hours=1))

    assert log() == []


def test_a_log_handler_that_raises_costs_no_run(perform, jobs, log, capsys):
    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("the log disk is full")

    logger = logging.getLogger("goscheduler.executors.pool")
    handler = Broken()
    logger.addHandler(handler)
    try:
        assert isinstance(perform(jobs.fail, "no").error, ValueError)
        assert perform(jobs.add, 41).result == 42
    finally:
        logger.removeHandler(handler)
    assert "the log disk is full" in capsys.readouterr().err


@pytest.fixture
def running(executor, new_run, fifo):
    """A function that submits a run and returns when its job has told that it goes on."""
    submitters = []

    def start(func, *args, **facts):
        run = new_run(func, fifo(f"told-{len(submitters)}"), *args, **facts)
        submitters.append(threading.Thread(target=executor.submit, args=(run,)))  # the debug executor does not return
        submitters[-1].start()
        with open(run.job.args[0]) as told:
            told.read()
        return run

    yield start
    for submitter in submitters:
        submitter.join(60)
    assert not any(submitter.is_alive() for submitter in submitters)


@needs_named_pipes
def test_a_run_that_is_told_to_end_is_cancelled_for_that_reason_and_the_next_one_works(
    executor, running, perform, loop_host, jobs
):
    for func in (jobs.go_on_until_told_to_end, jobs.go_on_until_told_to_end_later):
        run = running(func)

        assert executor.cancel(run, "enough of it")

        outcome = loop_host.outcome_of(run)
        assert outcome.kind is OutcomeKind.CANCELLED
        assert outcome.reason == "enough of it"
        assert outcome.started_at is not None
        assert outcome.seconds > 0
        forget_run(run.id)
        assert perform(jobs.add, 41).result == 42
        assert perform(jobs.add_later, 41).result == 42


@needs_named_pipes
def test_only_the_attempt_that_is_meant_is_told_to_end(executor, running, loop_host, fifo, jobs, new_run):
    run = running(jobs.tell_and_wait_for_answer, fifo("answer"), fence=2)

    assert not executor.cancel(run._replace(fence=1), "an earlier attempt")
    assert not executor.cancel(new_run(jobs.add), "another run")
    executor.give_up(run._replace(fence=1))

    jobs.tell(run.job.args[1])
    assert loop_host.outcome_of(run).kind is OutcomeKind.SUCCEEDED


def test_a_run_that_is_over_cannot_be_cancelled_or_given_up(executor, loop_host, new_run, jobs, perform):
    for func in (jobs.add, jobs.add_later):
        run = new_run(func, 41)
        executor.submit(run)
        loop_host.outcome_of(run)
        while executor.cancel(run, "too late"):  # asyncio strikes it off a moment after the report
            forget_run(run.id)
        executor.give_up(run)

        assert context._told == {}
        assert context._given_up == {}
        assert perform(func, 41).result == 42


@needs_named_pipes
@pytest.mark.parametrize("name", ["ignore_everything", "ignore_everything_later"])
def test_a_run_that_is_given_up_gives_its_room_back_and_nobody_waits_for_it(
    executor, running, perform, loop_host, fifo, jobs, caplog, name
):
    killed = isinstance(executor, ProcessPoolExecutor)
    room = executor.room()
    run = running(getattr(jobs, name), fifo("answer"))

    executor.cancel(run, "out of time")
    executor.give_up(run)
    forget_run(run.id)
    if killed:
        assert loop_host.outcome_of(run).reason == "out of time"

    assert executor.room() >= (room - 1 if isinstance(executor, FuturesExecutor) else room)  # no thread is replaced
    assert not executor.cancel(run, "again")
    assert perform(jobs.add, 41).result == 42
    executor.shutdown(wait=True)
    assert "still running" not in caplog.text
    if not killed:
        jobs.tell(run.job.args[1])
    loop_host.outcome_of(run)
    assert context._given_up == {}
    assert context._told == {}


def test_the_progress_that_a_job_tells_of_is_seen_and_the_last_of_it_arrives(executor, loop_host, new_run, jobs):
    for func in (jobs.advance, jobs.advance_later):
        run = new_run(func, 50)
        executor.submit(run)
        assert loop_host.outcome_of(run).kind is OutcomeKind.SUCCEEDED

        assert progress_of(run.id) == (1.0, "step 50")
        forget_run(run.id)
        assert progress_of(run.id) is None


def test_a_run_that_tells_nothing_leaves_nothing(perform, jobs):
    perform(jobs.add, 1)

    assert context._progress == {}


def test_a_job_that_cancels_itself_is_cancelled_with_its_reason_and_frames(perform, jobs):
    outcome = perform(jobs.cancel_itself, "nothing to do")

    assert outcome.kind is OutcomeKind.CANCELLED
    assert outcome.reason == "nothing to do"
    assert "in cancel_itself" in outcome.traceback


def test_the_reason_of_a_snooze_is_kept(perform, jobs):
    assert perform(jobs.snooze, "the printer is warming up").reason == "the printer is warming up"


def test_the_time_to_end_can_be_set_on_an_executor():
    executor = ThreadPoolExecutor(1)
    executor.grace_seconds = 0.5

    assert (executor.grace_seconds, BaseExecutor.grace_seconds) == (0.5, 5.0)
