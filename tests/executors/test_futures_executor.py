"""Pools of concurrent.futures: what they are given, and what becomes of runs when they break."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures import ThreadPoolExecutor as Threads
from functools import partial

import pytest

from goscheduler import BackgroundScheduler
from goscheduler.errors import InvalidArgument
from goscheduler.events import EVENT_JOB_DEAD_LETTERED, EVENT_JOB_EXECUTED, EVENT_LEASE_LOST, EVENT_WORKER_LOST
from goscheduler.executors import _remote
from goscheduler.executors.futures import FuturesExecutor
from goscheduler.executors.pool import WorkerDied
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import EventRecorder

pytestmark = pytest.mark.serial


def processes(workers):
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def loky(workers):
    from loky import get_reusable_executor

    return get_reusable_executor(max_workers=workers)


@pytest.fixture(params=[processes, loky])
def make_pool(request):
    yield partial(request.param, 2)
    if request.param is loky:
        request.param(2).shutdown(kill_workers=True)


def pid_of_running(host, executor, new_run, jobs, fifo):
    run = new_run(jobs.tell_pid_and_wait, path := fifo("pid"))
    executor.submit(run)
    with open(path) as file:
        return run, int(file.read())


def test_a_killed_child_loses_what_its_pool_had_and_the_next_pool_goes_on(
    make_pool, started, host, new_run, jobs, fifo
):
    executor = started(FuturesExecutor(make_pool))
    lost, pid = pid_of_running(host, executor, new_run, jobs, fifo)
    assert executor.room() == 1

    os.kill(pid, signal.SIGKILL)

    outcome = host.outcome_of(lost)
    assert outcome.kind is OutcomeKind.LOST
    assert isinstance(outcome.error, WorkerDied)
    assert "the pool broke" in outcome.reason
    assert outcome.started_at is not None
    while (answer := attempt(host, executor, new_run(jobs.add, 41))).kind is OutcomeKind.SNOOZED:
        pass  # not taken by the broken pool, before the thread of the executor has heard of it
    assert answer.result == 42
    told = attempt(host, executor, new_run(jobs.return_a_lock))
    assert (told.kind, "lock" in str(told.result)) == (OutcomeKind.SUCCEEDED, True)
    assert executor.live() == 0


def attempt(host, executor, run):
    executor.submit(run)
    return host.outcome_of(run)


def test_a_pool_without_a_function_that_makes_it_is_not_replaced_and_its_runs_go_back(
    started, host, new_run, jobs, fifo, caplog
):
    pool = processes(1)
    executor = started(FuturesExecutor(pool))
    lost, pid = pid_of_running(host, executor, new_run, jobs, fifo)

    os.kill(pid, signal.SIGKILL)

    assert host.outcome_of(lost).kind is OutcomeKind.LOST
    put_back = attempt(host, executor, new_run(jobs.add, 1))
    assert put_back.kind is OutcomeKind.SNOOZED
    assert put_back.error.seconds == 1.0
    assert executor.room() == 0
    assert "give a function that makes the pool" in attempt(host, executor, new_run(jobs.add, 1)).reason
    assert 'Executor "pool" takes no runs: its pool is broken' in caplog.text
    pool.shutdown()


def test_a_run_that_cannot_be_packed_fails_and_says_why(started, host, new_run):
    executor = started(FuturesExecutor(partial(Threads, 1), in_process=False))

    outcome = attempt(host, executor, new_run(lambda: None))

    assert outcome.kind is OutcomeKind.FAILED
    assert isinstance(outcome.error, TypeError)
    assert "does not pickle" in str(outcome.error)


class Sizeless(Executor):
    def submit(self, fn, /, *args, **kwargs):
        raise AssertionError("nobody submits")


def test_what_is_no_pool_or_does_not_tell_its_size_is_refused_at_once():
    with pytest.raises(TypeError, match=r"concurrent\.futures pool or a function that makes one, got int"):
        FuturesExecutor(3)
    with pytest.raises(InvalidArgument, match="slots must be given: Sizeless"):
        FuturesExecutor(Sizeless())
    with pytest.raises(InvalidArgument, match="slots must be a positive integer"):
        FuturesExecutor(Sizeless(), slots=0)
    scheduler = BackgroundScheduler(executors={"default": FuturesExecutor(Sizeless)})
    with pytest.raises(InvalidArgument, match="slots must be given: Sizeless"):
        scheduler.start()


def test_a_shutdown_leaves_a_given_pool_alone_and_ends_one_that_was_made(host, new_run):
    given, made = Threads(1), []
    for pool in (given, lambda: made.append(Threads(1)) or made[-1]):
        executor = FuturesExecutor(pool)
        executor.start(host, "pool")
        executor.shutdown()

    assert given.submit(pow, 2, 5).result() == 32
    given.shutdown()
    with pytest.raises(RuntimeError):
        made[0].submit(pow, 2, 5)


@pytest.mark.parametrize("in_process", [True, False])
def test_a_shutdown_that_waits_returns_after_the_last_report(
    host, new_run, jobs, fifo, monkeypatch, in_process
):
    executor = FuturesExecutor(partial(Threads, 1), in_process=in_process)
    executor.start(host, "pool")
    stopping, returned_early, report = threading.Thread(target=executor.shutdown), [], host.report

    def report_late(run, outcome):
        stopping.join(0.3)
        returned_early.append(not stopping.is_alive())
        report(run, outcome)

    monkeypatch.setattr(host, "report", report_late)
    executor.submit(run := new_run(jobs.tell_and_wait_for_answer, told := fifo("told"), answer := fifo("answer")))
    with open(told) as file:
        file.read()
    stopping.start()
    while not executor._closing:
        pass
    jobs.tell(answer)
    stopping.join(60)

    assert returned_early == [False]
    assert host.outcome_of(run).kind is OutcomeKind.SUCCEEDED


def test_a_run_that_is_submitted_during_a_shutdown_is_reported(host, new_run, monkeypatch):
    executor = FuturesExecutor(partial(Threads, 1))
    executor.start(host, "pool")
    stopping = threading.Thread(target=executor.shutdown)

    class Flight(_remote.Flight):
        def __init__(self, run):
            stopping.start()
            stopping.join(0.3)
            super().__init__(run)

    monkeypatch.setattr(_remote, "Flight", Flight)
    executor.submit(run := new_run(pow, 2, 5))
    stopping.join(60)

    assert len(host.wait_for(1)) == 1
    assert host.reports[0][0] is run


@pytest.mark.parametrize("on_crash", ["rerun", "dead"])
def test_the_job_says_what_follows_the_loss_of_a_worker(tmp_path, jobs, on_crash):
    scheduler = BackgroundScheduler(executors={"far": {"type": "futures", "pool": partial(processes, 1)}})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    try:
        scheduler.add_job(
            jobs.crash_once, args=[str(tmp_path / "marker")], id="job", executor="far", on_crash=on_crash
        )

        lost = recorder.wait_for(EVENT_WORKER_LOST, "job")
        assert isinstance(lost.exception, WorkerDied)
        assert lost.attempt == 1
        if on_crash == "rerun":
            assert recorder.wait_for(EVENT_JOB_EXECUTED, "job").retval == "the second time"
        else:
            recorder.wait_for(EVENT_JOB_DEAD_LETTERED, "job")
            assert "crashed: the pool broke" in scheduler.dead_letters()[0].reason
        kinds = [record.outcome.value for record in scheduler.runs()]
    finally:
        scheduler.shutdown()
    assert sorted(kinds) == (["lost", "succeeded"] if on_crash == "rerun" else ["lost"])
    assert recorder.of(EVENT_LEASE_LOST) == []


def test_what_is_put_around_runs_goes_to_other_processes_by_its_name_or_is_refused(jobs):
    far = FuturesExecutor(partial(Threads, 1), in_process=False)
    scheduler = BackgroundScheduler(executors={"far": far}, around=["childjobs:enclosed"])
    recorder = EventRecorder(scheduler)
    scheduler.start()
    try:
        scheduler.add_job(jobs.what_encloses, id="job", executor="far")
        assert recorder.wait_for(EVENT_JOB_EXECUTED, "job").retval == "job"
    finally:
        scheduler.shutdown()
    unnamed = BackgroundScheduler(executors={"far": FuturesExecutor(partial(processes, 1))}, around=[lambda run: None])
    with pytest.raises(InvalidArgument, match='cannot go to other processes, in which executor "far" runs jobs'):
        unnamed.start()
