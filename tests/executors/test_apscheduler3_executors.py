"""Executors that users wrote for APScheduler 3 go on working."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import sys
import threading
from datetime import timedelta

import pytest

from goscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED
from goscheduler.executors import context
from goscheduler.executors.base import BaseExecutor, MaxInstancesReachedError, run_coroutine_job, run_job, stop
from goscheduler.executors.context import current_run, forget_run
from goscheduler.executors.pool import BasePoolExecutor
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.runs.retry import Snooze


class OwnPoolExecutor(BaseExecutor):
    """As users write it: a pool of their own, and the two callbacks."""

    def __init__(self, workers):
        super().__init__()
        self._workers = workers

    def start(self, scheduler, alias):
        super().start(scheduler, alias)
        self._own_pool = concurrent.futures.ThreadPoolExecutor(self._workers)

    def shutdown(self, wait=True):
        self._own_pool.shutdown(wait)

    def _do_submit_job(self, job, run_times):
        def done(future):
            if future.exception():
                self._run_job_error(job.id, future.exception(), future.exception().__traceback__)
            else:
                self._run_job_success(job.id, future.result())

        future = self._own_pool.submit(run_job, job, job._jobstore_alias, run_times, self._logger.name)
        future.add_done_callback(done)


class InlineExecutor(BaseExecutor):
    def _do_submit_job(self, job, run_times):
        try:
            events = run_job(job, job._jobstore_alias, run_times, self._logger.name)
        except BaseException:
            self._run_job_error(job.id, *sys.exc_info()[1:])
        else:
            self._run_job_success(job.id, events)


class KeepingExecutor(BaseExecutor):
    """Does nothing by itself; the test plays its part."""

    def _do_submit_job(self, job, run_times):
        self.last = (job, run_times)


@pytest.fixture
def keeping(host):
    executor = KeepingExecutor()
    executor.start(host, "own")
    return executor


@pytest.mark.parametrize("make", [lambda: OwnPoolExecutor(3), InlineExecutor], ids=["pool", "inline"])
def test_success_failure_and_miss_are_reported_as_outcomes(make, host, new_run, new_job):
    executor = make()
    executor.start(host, "own")
    now = host.clock.now()

    def fail():
        raise ValueError("on purpose")

    good, bad = new_run(lambda: 42), new_run(fail)
    late = new_run(None, job=new_job(int, misfire_grace_time=1, id="late"), at=now - timedelta(hours=1))
    for run in (good, bad, late):
        executor.submit(run)
        host.outcome_of(run)
    stop(executor)

    assert host.outcome_of(good).result == 42
    assert host.outcome_of(good).started_at >= now
    assert str(host.outcome_of(bad).error) == "on purpose"
    assert "in fail" in host.outcome_of(bad).traceback
    assert host.outcome_of(late).kind is OutcomeKind.MISSED
    assert host.outcome_of(late).reason.startswith("missed by 1:00:0")


def test_many_runs_of_one_job_through_a_pool_are_each_reported_once(host, new_run, new_job):
    executor = OwnPoolExecutor(4)
    executor.start(host, "own")
    start = host.clock.now()
    job = new_job(int)
    runs = [new_run(None, job=job, at=start + timedelta(microseconds=number)) for number in range(500)]
    for run in runs:
        executor.submit(run)

    host.wait_for(len(runs))
    stop(executor)
    assert sorted(run.id for run, _ in host.reports) == sorted(run.id for run in runs)


def test_an_exception_from_submitting_is_a_failed_outcome(host, new_run, caplog):
    class Refusing(BaseExecutor):
        def _do_submit_job(self, job, run_times):
            raise RuntimeError("the pool is dead")

    executor = Refusing()
    executor.start(host, "own")
    run = new_run(int)
    executor.submit(run)

    outcome = host.outcome_of(run)
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.reason == 'could not be submitted to executor "own"'
    assert str(outcome.error) == "the pool is dead"
    assert outcome.started_at is None


def test_an_exception_after_the_report_does_not_report_again(host, new_run):
    class Confused(InlineExecutor):
        def _do_submit_job(self, job, run_times):
            super()._do_submit_job(job, run_times)
            raise RuntimeError("too late")

    executor = Confused()
    executor.start(host, "own")
    executor.submit(new_run(lambda: 42))

    assert [outcome.result for _, outcome in host.reports] == [42]


def test_an_executor_that_implements_nothing_fails_its_runs(host, new_run):
    executor = BaseExecutor()
    executor.start(host, "own")
    run = new_run(int)
    executor.submit(run)

    assert "neither submit() nor _do_submit_job()" in str(host.outcome_of(run).error)


def test_the_executor_gets_the_job_and_its_one_fire_time(keeping, new_run):
    run = new_run(int)
    keeping.submit(run)

    assert keeping.last == (run.job, [run.scheduled_at])


def test_a_retry_is_judged_by_its_own_due_time_and_not_by_the_fire_time(keeping, host, new_run):
    fired = host.clock.now() - timedelta(hours=1)
    due = host.clock.now()
    keeping.submit(new_run(int, at=fired, due_at=due, source=Source.RETRY, attempt=2))

    assert keeping.last[1] == [due]


def test_events_find_the_run_of_their_fire_time(keeping, host, new_run, new_job):
    job, now = new_job(int), host.clock.now()
    first, second = (new_run(None, job=job, at=now + timedelta(seconds=number)) for number in range(2))
    keeping.submit(first)
    keeping.submit(second)

    keeping._run_job_success(job.id, run_job(job, "default", [second.scheduled_at], "x"))

    assert [run for run, _ in host.reports] == [second]


def test_success_without_events_ends_the_oldest_run(keeping, host, new_run):
    first, second = new_run(int), new_run(int)
    keeping.submit(first)
    keeping.submit(second)

    keeping._run_job_success(first.job.id, [])

    assert [(run, outcome.kind) for run, outcome in host.reports] == [(first, OutcomeKind.SUCCEEDED)]


def test_an_error_without_a_traceback_is_reported_and_one_too_many_only_logged(keeping, host, new_run, caplog):
    run = new_run(int)
    keeping.submit(run)

    keeping._run_job_error(run.job.id, ValueError("lost"))
    keeping._run_job_error(run.job.id, ValueError("lost"))

    assert [str(outcome.error) for _, outcome in host.reports] == ["lost"]
    assert 'Executor "own" reported job "job-1" more often than it was given runs of it' in caplog.text


def test_run_job_returns_an_event_for_each_time(new_job, host, caplog):
    caplog.set_level(logging.INFO, "some.logger")
    now = host.clock.now()
    job = new_job(lambda: 42, misfire_grace_time=60)

    executed, missed = run_job(job, "store", [now, now - timedelta(hours=1)], "some.logger")
    (failed,) = run_job(new_job(int, ("x",)), "store", [now], "some.logger")

    assert (executed.code, executed.retval, executed.job_id, executed.jobstore) == (
        EVENT_JOB_EXECUTED,
        42,
        "job-1",
        "store",
    )
    assert executed.scheduled_run_time == now
    assert (missed.code, missed.scheduled_run_time) == (EVENT_JOB_MISSED, now - timedelta(hours=1))
    assert failed.code == EVENT_JOB_ERROR
    assert isinstance(failed.exception, ValueError)
    assert isinstance(failed.traceback, str)
    assert 'of job "job-1"' in caplog.text


def test_run_job_turns_an_exit_into_an_error(new_job, host):
    (event,) = run_job(new_job(sys.exit, (3,)), "store", [host.clock.now()], "some.logger")

    assert event.code == EVENT_JOB_ERROR
    assert isinstance(event.exception, SystemExit)


def test_run_coroutine_job_awaits_the_function(new_job, host):
    async def work():
        await asyncio.sleep(0)
        return 42

    async def cancelled():
        raise asyncio.CancelledError

    (event,) = asyncio.run(run_coroutine_job(new_job(work), "store", [host.clock.now()], "some.logger"))
    (error,) = asyncio.run(run_coroutine_job(new_job(cancelled), "store", [host.clock.now()], "some.logger"))

    assert (event.code, event.retval) == (EVENT_JOB_EXECUTED, 42)
    assert error.code == EVENT_JOB_ERROR
    assert "cancelled" in str(error.exception)


def test_a_pool_of_ones_own_can_be_given_to_the_base_class(host, new_run):
    executor = BasePoolExecutor(concurrent.futures.ThreadPoolExecutor(2))
    executor.start(host, "own")
    runs = [new_run(lambda: 42) for _ in range(5)]
    for run in runs:
        executor.submit(run)
    executor.shutdown(wait=True)

    assert [outcome.result for _, outcome in host.reports] == [42] * 5
    after = new_run(int)
    executor.submit(after)
    assert host.outcome_of(after).kind is OutcomeKind.FAILED


def test_a_cancelled_future_and_a_limited_wait_are_borne(host, new_run):
    gate, reached = threading.Event(), threading.Event()

    def wait_at_gate():
        reached.set()
        assert gate.wait(60)

    pool = concurrent.futures.ThreadPoolExecutor(1)
    executor = BasePoolExecutor(pool)
    executor.start(host, "own")
    running, queued = new_run(wait_at_gate), new_run(int)
    executor.submit(running)
    assert reached.wait(60)
    executor.submit(queued)

    executor.shutdown(wait=True, timeout=0.01)
    pool.shutdown(wait=False, cancel_futures=True)
    assert host.outcome_of(queued).kind is OutcomeKind.FAILED
    gate.set()
    assert host.outcome_of(running).kind is OutcomeKind.SUCCEEDED


class Recording(BaseExecutor):
    def __init__(self):
        self.calls = []


class KnowsTimeout(Recording):
    def shutdown(self, wait=True, timeout=None):
        self.calls.append((wait, timeout))


class TakesAnything(Recording):
    def shutdown(self, wait=True, **options):
        self.calls.append((wait, options["timeout"]))


class KnowsOnlyWait(Recording):
    def shutdown(self, wait=True):
        self.calls.append((wait, None))


@pytest.mark.parametrize(
    ("make", "wait", "timeout", "call"),
    [
        (KnowsTimeout, True, 5.0, (True, 5.0)),
        (KnowsTimeout, False, None, (False, None)),
        (TakesAnything, True, 5.0, (True, 5.0)),
        (KnowsOnlyWait, True, None, (True, None)),
        (KnowsOnlyWait, False, 5.0, (False, None)),
        (KnowsOnlyWait, True, 5.0, (True, None)),
    ],
)
def test_stop_gives_a_limit_only_to_who_knows_it(make, wait, timeout, call):
    executor = make()

    stop(executor, wait, timeout)

    assert executor.calls == [call]


def test_stop_keeps_to_its_limit_with_an_executor_that_knows_none():
    gate, entered = threading.Event(), threading.Event()

    class Endless(BaseExecutor):
        def shutdown(self, wait=True):
            entered.set()
            assert gate.wait(60)

    stop(Endless(), wait=True, timeout=0.01)

    assert entered.wait(60)
    gate.set()


def test_stop_raises_what_the_executor_raises():
    class Broken(BaseExecutor):
        def shutdown(self, wait=True):
            raise OSError("cannot stop")

    with pytest.raises(OSError, match="cannot stop"):
        stop(Broken(), wait=True)
    with pytest.raises(OSError, match="cannot stop"):
        stop(Broken(), wait=True, timeout=30)


def test_the_error_of_too_many_instances_can_still_be_imported_from_here(new_job):
    job = new_job(int)
    job.max_instances = 3

    assert str(MaxInstancesReachedError(job)) == ('Job "job-1" has already reached its maximum number of instances (3)')


def go_on_until_told(begun):
    begun.set()
    while True:
        current_run().check()


@pytest.mark.parametrize(
    "make",
    [lambda: OwnPoolExecutor(1), lambda: BasePoolExecutor(concurrent.futures.ThreadPoolExecutor(1))],
    ids=["own", "base class"],
)
def test_a_run_is_told_to_end_and_then_cancelled(make, host, new_run):
    executor = make()
    executor.start(host, "own")
    begun = threading.Event()
    run = new_run(go_on_until_told, begun)
    executor.submit(run)
    assert begun.wait(60)

    assert executor.cancel(run, "out of time")

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "out of time")
    assert not executor.cancel(run, "again")
    assert context._told == {}
    executor.shutdown()


def test_a_snooze_in_such_an_executor_is_no_failure(host, new_run):
    def work():
        raise Snooze(5, "not now")

    executor = InlineExecutor()
    executor.start(host, "own")
    run = new_run(work)
    executor.submit(run)

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason, outcome.error.seconds) == (OutcomeKind.SNOOZED, "not now", 5)


def test_the_late_end_of_a_run_that_was_given_up_is_not_taken_for_the_end_of_another(keeping, host, new_run, new_job):
    job = new_job(int)
    first = new_run(None, job=job)
    second = new_run(None, job=job, at=first.scheduled_at + timedelta(seconds=60))
    keeping.submit(first)
    keeping.submit(second)

    keeping.cancel(first, "out of time")
    keeping.give_up(first)
    forget_run(first.id)
    keeping._run_job_success(job.id, run_job(job, "default", [first.scheduled_at], "log"))

    assert [run.id for run, _ in host.reports] == [first.id]  # which the scheduler ignores
    keeping._run_job_success(job.id, run_job(job, "default", [second.scheduled_at], "log"))
    assert host.outcome_of(second).kind is OutcomeKind.SUCCEEDED
    assert context._given_up == {}
    assert context._told == {}


def test_a_run_that_ends_while_it_is_told_leaves_nothing_behind(host, new_run, monkeypatch):
    executor = KeepingExecutor()
    executor.start(host, "own")
    run = new_run(int)
    executor._running[run.id] = run
    tell = context.tell_to_end

    def end_and_tell(run_id, reason):
        executor._running.clear()
        tell(run_id, reason)

    monkeypatch.setattr("goscheduler.executors.base.tell_to_end", end_and_tell)

    assert executor.cancel(run, "out of time")
    assert context._told == {}
    executor.give_up(run)
    assert context._given_up == {}
