from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.executors._workers import WorkerPool, _Slot, _Staff
from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor

PATIENCE = 60


class Gate:
    """A job that tells when it has started and goes on when it is let."""

    def __init__(self):
        self.started = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self):
        self.started.release()
        assert self.opened.wait(PATIENCE)
        return "through"

    def await_starts(self, number=1):
        for _ in range(number):
            assert self.started.acquire(timeout=PATIENCE)


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.opened.set()


def kinds(host, runs):
    return [host.outcome_of(run).kind.value for run in runs]


def test_ten_thousand_runs_through_ten_threads_are_each_reported_once(started, host, new_run):
    executor = started(ThreadPoolExecutor(10))
    runs = [new_run(int, number) for number in range(10_000)]

    for run in runs:
        executor.submit(run)

    host.wait_for(len(runs))
    executor.shutdown()
    assert sorted(run.id for run, _ in host.reports) == sorted(run.id for run in runs)
    assert sum(outcome.result for _, outcome in host.reports) == sum(range(10_000))


def test_as_many_runs_as_workers_go_on_at_once_and_no_more(started, host, new_run, gate):
    executor = started(ThreadPoolExecutor(3))
    for _ in range(5):
        executor.submit(new_run(gate))

    gate.await_starts(3)

    assert not gate.started.acquire(blocking=False)
    gate.opened.set()
    gate.await_starts(2)
    assert [outcome.result for outcome in host.wait_for(5)] == ["through"] * 5


def test_threads_are_started_only_when_nobody_is_idle(started, host, new_run):
    executor = started(ThreadPoolExecutor(10))
    names = set()
    for number in range(1, 21):
        run = new_run(lambda: names.add(threading.current_thread().name))
        executor.submit(run)
        host.wait_for(number)
        while executor._pool.live():  # the worker counts a moment after it has reported
            pass

    assert names == {"goscheduler-pool_0"}


def test_threads_are_daemons_and_take_their_name_from_the_option(started, host, new_run):
    executor = started(ThreadPoolExecutor(1, {"thread_name_prefix": "crew"}))
    run = new_run(threading.current_thread)
    executor.submit(run)

    thread = host.outcome_of(run).result
    assert thread.daemon
    assert thread.name == "crew_0"


def test_room_shrinks_with_every_run_taken_and_comes_back(started, host, new_run, gate):
    executor = started(ThreadPoolExecutor(4))
    assert executor.room() == 4
    runs = [new_run(gate) for _ in range(6)]
    for run in runs[:3]:
        executor.submit(run)
    assert executor.room() == 1
    for run in runs[3:]:
        executor.submit(run)
    assert executor.room() == 0

    gate.opened.set()
    executor.shutdown()
    assert executor._pool.live() == 0
    assert executor.room() >= 4


def test_room_grows_while_runs_are_short_and_shrinks_when_they_become_long(started, new_host, new_run, clock):
    host = new_host(clock)
    executor = started(ThreadPoolExecutor(1), host)

    def submit_and_wait(number, seconds):
        before = len(host.reports)
        for _ in range(number):
            executor.submit(new_run(clock.move, seconds))
        host.wait_for(before + number)
        while executor._pool.live():
            pass

    submit_and_wait(500, 0.001)
    short = executor.room()
    submit_and_wait(20, 0.5)

    assert 30 <= short <= 100
    assert executor.room() == 1


def test_a_worker_survives_a_report_that_raises(started, new_host, new_run, capsys):
    class Touchy(new_host):
        def report(self, run, outcome):
            super().report(run, outcome)
            raise SystemExit("cannot be")

    host = Touchy()
    executor = started(ThreadPoolExecutor(1), host)
    for _ in range(3):
        executor.submit(new_run(int))

    host.wait_for(3)
    executor.shutdown()
    assert capsys.readouterr().err.count("SystemExit: cannot be") == 3
    assert executor._pool.live() == 0


def test_shutdown_waits_for_what_is_running_and_queued(started, host, new_run, gate):
    executor = started(ThreadPoolExecutor(1))
    runs = [new_run(gate) for _ in range(3)]
    for run in runs:
        executor.submit(run)
    gate.await_starts()
    opener = threading.Timer(0.0, gate.opened.set)
    opener.start()

    executor.shutdown(wait=True)

    assert len(host.reports) == 3
    assert kinds(host, runs) == ["succeeded"] * 3
    opener.join()


def test_shutdown_without_waiting_puts_back_what_is_queued_and_lets_the_running_one_finish(
    started, host, new_run, gate
):
    executor = started(ThreadPoolExecutor(1))
    running, *queued = runs = [new_run(gate) for _ in range(3)]
    for run in runs:
        executor.submit(run)
    gate.await_starts()

    executor.shutdown(wait=False)

    assert kinds(host, queued) == ["snoozed"] * 2
    assert len(host.reports) == 2
    gate.opened.set()
    assert kinds(host, [running]) == ["succeeded"]


def test_shutdown_that_runs_out_of_time_puts_back_what_is_queued(started, host, new_run, gate):
    executor = started(ThreadPoolExecutor(1))
    running, queued = new_run(gate), new_run(gate)
    executor.submit(running)
    executor.submit(queued)
    gate.await_starts()

    executor.shutdown(wait=True, timeout=0.01)

    assert kinds(host, [queued]) == ["snoozed"]
    assert "shut down" in host.outcome_of(queued).reason
    gate.opened.set()
    assert kinds(host, [running]) == ["succeeded"]


def test_a_job_can_shut_its_own_executor_down(started, host, new_run, gate):
    executor = started(ThreadPoolExecutor(1))

    def work():
        gate()
        executor.shutdown(wait=True)
        return "shut down"

    ender, queued = new_run(work), new_run(int)
    executor.submit(ender)
    executor.submit(queued)
    gate.opened.set()

    assert host.outcome_of(ender).result == "shut down"
    assert kinds(host, [queued]) == ["snoozed"]


def test_two_jobs_that_shut_the_executor_down_do_not_wait_for_each_other(started, host, new_run):
    executor = started(ThreadPoolExecutor(2))
    both = threading.Barrier(2)

    def work():
        both.wait(PATIENCE)
        executor.shutdown(wait=True)

    runs = [new_run(work), new_run(work)]
    for run in runs:
        executor.submit(run)

    assert kinds(host, runs) == ["succeeded"] * 2


def test_runs_submitted_while_another_thread_shuts_down_are_all_reported_once(started, host, new_run):
    for _ in range(20):
        executor = started(ThreadPoolExecutor(4))
        before = len(host.reports)
        runs = [new_run(int) for _ in range(300)]
        closer = threading.Thread(target=executor.shutdown, args=(False,))
        for number, run in enumerate(runs):
            if number == 100:
                closer.start()
            executor.submit(run)
        closer.join(PATIENCE)
        host.wait_for(before + len(runs))

        reported = [run.id for run, _ in host.reports[before:]]
        assert sorted(reported) == sorted(run.id for run in runs)


def test_a_run_that_slips_in_behind_the_end_of_the_pool_is_put_back(new_run):
    put_back = []
    pool = WorkerPool(1, lambda: None, lambda run, outcome: None, lambda run, reason: put_back.append(run), "x")
    pool._workers = _Staff((_Slot(None),))
    run = new_run(int)

    pool._closed = True  # the other thread has emptied the queue between our look at the gate and our put
    pool.submit(run)

    assert put_back == [run]


def test_when_no_thread_can_be_started_the_run_is_put_back(started, host, new_run, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    executor = started(ThreadPoolExecutor(2))
    run = new_run(int)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        executor.submit(run)
    later = new_run(int)
    executor.submit(later)

    assert kinds(host, [run, later]) == ["snoozed", "succeeded"]
    assert "can't start new thread" in host.outcome_of(run).reason


def test_the_initializer_runs_once_in_each_thread(started, host, new_run):
    calls = []
    executor = started(ThreadPoolExecutor(1, {"initializer": calls.append, "initargs": ("ready",)}))
    for _ in range(3):
        executor.submit(new_run(int))

    host.wait_for(3)
    assert calls == ["ready"]


def test_an_initializer_that_raises_fails_the_run_and_is_tried_again(started, host, new_run):
    attempts = []

    def initialise():
        attempts.append(None)
        if len(attempts) == 1:
            raise OSError("not yet")

    executor = started(ThreadPoolExecutor(1, {"initializer": initialise}))
    runs = [new_run(int), new_run(int)]
    for run in runs:
        executor.submit(run)

    assert kinds(host, runs) == ["failed", "succeeded"]
    assert "initializer" in host.outcome_of(runs[0]).reason


@pytest.mark.serial
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_start_the_executor_anew(started, new_host, host, new_run, gate):
    executor = started(ThreadPoolExecutor(2))
    executor.submit(new_run(gate))
    gate.await_starts()
    reading, writing = os.pipe()

    pid = os.fork()
    if pid == 0:
        fresh = new_host()
        executor.start(fresh, "pool")
        run = new_run(os.getpid)
        executor.submit(run)
        result = fresh.outcome_of(run).result
        os.write(writing, b"yes" if result == os.getpid() else b"no")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"yes"
    assert os.waitpid(pid, 0)[1] == 0


FORKING = """
import os, sys
from conftest import RecordingHost, StandInJob
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.runs.model import Run

reading, writing = os.pipe()

class Telling(RecordingHost):
    def report(self, run, outcome):
        os.write(writing, b".")
        super().report(run, outcome)

host, executor, now = Telling(), ThreadPoolExecutor(1), SYSTEM_CLOCK.now()
executor.start(host, "pool")
first, forked, queued = (
    Run(f"run-{number}", StandInJob(func, ()), now, due_at=now, owner="me")
    for number, func in enumerate((int, os.fork, int))
)
executor.submit(first)
host.wait_for(1)  # the worker is there: Python 3.11 does not survive a fork while another thread starts one
executor.submit(forked)
executor.submit(queued)
host.wait_for(3)
status = os.waitpid(host.outcome_of(forked).result, 0)[1]
os.close(writing)
print(os.fdopen(reading).read(), os.WIFEXITED(status))
executor.shutdown()
"""


@pytest.mark.serial
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_job_that_forks_and_returns_twice_is_reported_once_and_the_copy_ends():
    # In an interpreter of its own: Python 3.11 cannot end the copy where the libraries of a cluster are loaded.
    here = Path(__file__).resolve().parent
    path = os.pathsep.join([str(here), str(here.parent.parent)])
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert (done.stdout, done.returncode) == ("... True\n", 0), done.stderr


@pytest.mark.parametrize("make", [ThreadPoolExecutor, ProcessPoolExecutor])
@pytest.mark.parametrize(("given", "expected"), [(1, 1), ("7", 7), (" 20 ", 20), (10_000, 10_000)])
def test_max_workers_may_be_a_number_or_its_text(make, given, expected):
    assert make(given).max_workers == expected


@pytest.mark.parametrize("make", [ThreadPoolExecutor, ProcessPoolExecutor])
@pytest.mark.parametrize("given", [0, -1, "0", "many", "", "1.5", "nan", "\x00"])
def test_a_max_workers_that_is_not_positive_is_refused_by_name(make, given):
    with pytest.raises(InvalidArgument, match="max_workers must be a positive integer, got ") as caught:
        make(given)
    assert caught.value.field == "max_workers"


@pytest.mark.parametrize("given", [None, 2.5, [3], True, b"3"])
def test_a_max_workers_of_another_type_is_a_type_error(given):
    with pytest.raises(TypeError, match="max_workers must be a positive integer, got "):
        ThreadPoolExecutor(given)


@pytest.mark.parametrize(
    ("make", "options", "hint"),
    [
        (ThreadPoolExecutor, {"thread_name_prefx": "x"}, "did you mean 'thread_name_prefix'"),
        (ThreadPoolExecutor, {"mp_context": "spawn"}, "known options: initargs, initializer, thread_name_prefix"),
        (ProcessPoolExecutor, {"max_task_per_child": 3}, "did you mean 'max_tasks_per_child'"),
    ],
)
def test_an_unknown_pool_option_is_refused_with_a_hint(make, options, hint):
    with pytest.raises(UnknownOption, match=hint):
        make(2, options)


def test_pool_kwargs_that_are_no_mapping_are_refused_and_the_callers_are_kept_as_they_are():
    with pytest.raises(TypeError, match="pool_kwargs must be a mapping, got list"):
        ThreadPoolExecutor(2, ["initializer"])
    options = {"initargs": (1,)}
    ThreadPoolExecutor(2, options)
    assert options == {"initargs": (1,)}


@pytest.mark.parametrize("value", [0, "-3", "x"])
def test_a_bad_limit_of_tasks_per_child_is_refused(value):
    with pytest.raises(InvalidArgument, match="max_tasks_per_child must be a positive integer"):
        ProcessPoolExecutor(2, {"max_tasks_per_child": value})


def test_a_bad_multiprocessing_context_is_refused():
    with pytest.raises(InvalidArgument, match=r"mp_context must be one of .*spawn.*, got 'threads'"):
        ProcessPoolExecutor(2, {"mp_context": "threads"})
    with pytest.raises(TypeError, match="mp_context must be a multiprocessing context or its name, got int"):
        ProcessPoolExecutor(2, {"mp_context": 3})


def test_an_executor_that_was_not_started_says_so(new_run):
    with pytest.raises(RuntimeError, match="ThreadPoolExecutor has not been started"):
        ThreadPoolExecutor().submit(new_run(int))
