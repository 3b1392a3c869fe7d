"""What every executor does, whichever it is."""

from __future__ import annotations

import copy
import logging
from datetime import timedelta

import pytest

from goscheduler.executors.asyncio import AsyncIOExecutor
from goscheduler.executors.base import stop
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from goscheduler.runs.model import OutcomeKind

pytestmark = pytest.mark.serial

MAKERS = {
    "threads": lambda: ThreadPoolExecutor(3),
    "processes": lambda: ProcessPoolExecutor(1),
    "asyncio": AsyncIOExecutor,
    "debug": DebugExecutor,
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


def test_the_log_tells_of_start_and_success(perform, jobs, log):
    run_at = perform(jobs.add, 1).started_at

    running, done = log()
    assert running.startswith('INFO Running job "a job" (scheduled at ')
    assert str(run_at.date()) in running
    assert done == 'INFO Job "a job" executed successfully'


def test_the_log_tells_of_a_failure_with_its_frames(perform, jobs, log, caplog):
    perform(jobs.fail, "on purpose")

    assert log()[1].startswith('ERROR Job "a job" raised an exception')
    assert "in fail\n" in caplog.text
    assert "ValueError: on purpose" in caplog.text


def test_the_log_tells_of_a_missed_run(perform, new_job, jobs, log, loop_host):
    perform(None, job=new_job(jobs.add, (1,), misfire_grace_time=1), at=loop_host.clock.now() - timedelta(hours=1))

    assert log()[-1].startswith('WARNING Run time of job "a job" was missed by 1:00:00')


def test_a_log_handler_that_raises_costs_no_run(perform, jobs, capsys):
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
