"""Threads that do not end: given up without losing count of anything."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from goscheduler.executors import context
from goscheduler.executors.context import current_run, forget_run, progress_of
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.runs.model import OutcomeKind

PATIENCE = 60


class Stubborn:
    """A job that goes on until it is let, and returns what it saw of itself then."""

    def __init__(self):
        self.started = threading.Event()
        self.opened = threading.Event()
        self.seen = []
        self.thread = None

    def __call__(self):
        self.thread = threading.current_thread()
        self.started.set()
        assert self.opened.wait(PATIENCE)
        current_run().progress(0.9)
        self.seen.append((current_run().cancelled, current_run().cancel_reason))


def await_the_end_of_what_was_given_up():
    while context._given_up:
        pass


@pytest.fixture
def stubborn():
    job = Stubborn()
    yield job
    job.opened.set()
    await_the_end_of_what_was_given_up()
    context._progress.clear()


@pytest.fixture
def executor(started):
    return started(ThreadPoolExecutor(1))


@pytest.fixture
def stuck(executor, stubborn, new_run):
    """A run that the only worker is stuck with."""
    run = new_run(stubborn, fence=1)
    executor.submit(run)
    assert stubborn.started.wait(PATIENCE)
    return run


@pytest.fixture
def hectic():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def give_up(executor, run):
    executor.cancel(run, "out of time")
    executor.give_up(run)
    forget_run(run.id)


def test_a_queued_run_is_started_at_once_when_the_one_before_it_is_given_up(executor, host, stuck, stubborn, new_run):
    queued = new_run(threading.current_thread)
    executor.submit(queued)

    give_up(executor, stuck)

    assert host.outcome_of(queued).result is not stubborn.thread


def test_what_is_given_up_counts_as_ended_and_is_reported_when_it_ends(executor, host, stuck, stubborn):
    assert (executor._pool.live(), executor.room()) == (1, 0)

    give_up(executor, stuck)

    assert (executor._pool.live(), executor.room()) == (0, 1)
    assert executor._pool.busy() == []
    assert host.reports == []
    stubborn.opened.set()
    stubborn.thread.join(PATIENCE)
    assert not stubborn.thread.is_alive()
    assert (executor._pool.live(), executor.room()) == (0, 1)
    assert host.outcome_of(stuck).kind is OutcomeKind.SUCCEEDED


def test_the_thread_of_a_given_up_run_takes_no_other_run(executor, host, stuck, stubborn, new_run):
    give_up(executor, stuck)
    stubborn.opened.set()
    stubborn.thread.join(PATIENCE)
    runs = [new_run(threading.current_thread) for _ in range(20)]
    for run in runs:
        executor.submit(run)

    threads = {host.outcome_of(run).result for run in runs}
    assert len(threads) == 1
    assert stubborn.thread not in threads


def test_a_given_up_run_still_sees_that_it_is_to_end_and_a_retry_with_the_same_id_does_not(
    executor, host, stuck, stubborn, new_run
):
    give_up(executor, stuck)
    retry = stuck._replace(fence=2, job=new_run(lambda: current_run().cancelled).job)
    executor.submit(retry)

    assert host.outcome_of(retry).result is False
    stubborn.opened.set()
    stubborn.thread.join(PATIENCE)
    assert stubborn.seen == [(True, "out of time")]
    assert progress_of(stuck.id) is None


def test_a_run_that_waits_in_the_queue_is_left_there(executor, host, stuck, stubborn, new_run):
    queued = new_run(int)
    executor.submit(queued)

    assert not executor.cancel(queued, "not now")
    executor.give_up(queued)

    assert executor._pool.live() == 2
    stubborn.opened.set()
    assert host.outcome_of(queued).kind is OutcomeKind.SUCCEEDED


def test_a_run_that_is_refused_tells_the_reason_that_it_was_given(executor, host, stuck, stubborn, new_run):
    queued = new_run(int)
    executor.submit(queued)
    host.removed.add(queued.id)
    context.tell_to_end(queued.id, "displaced by a newer run")
    stubborn.opened.set()

    outcome = host.outcome_of(queued)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "displaced by a newer run")
    forget_run(queued.id)


def test_a_shutdown_that_waits_stops_waiting_for_a_run_that_is_given_up(executor, host, stuck, new_run):
    queued = new_run(int)
    executor.submit(queued)
    ender = threading.Thread(target=executor.shutdown)
    ender.start()
    while not executor._pool._closing.locked():
        pass

    give_up(executor, stuck)

    ender.join(PATIENCE)
    assert not ender.is_alive()
    assert [(run.id, outcome.kind.value) for run, outcome in host.reports] == [(queued.id, "succeeded")]


def test_a_shutdown_says_nothing_of_runs_that_were_given_up(executor, stuck, caplog):
    caplog.set_level(logging.INFO)
    give_up(executor, stuck)
    executor.shutdown(wait=False)

    assert "still running" not in caplog.text


def test_when_no_thread_can_be_started_in_its_place_queued_runs_are_put_back(
    executor, host, stuck, new_run, monkeypatch
):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    queued = new_run(int)
    executor.submit(queued)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        give_up(executor, stuck)

    assert host.outcome_of(queued).kind is OutcomeKind.SNOOZED
    assert executor._pool.live() == 0
    later = new_run(int)
    executor.submit(later)
    assert host.outcome_of(later).kind is OutcomeKind.SUCCEEDED


def test_a_hung_initializer_can_be_given_up(started, host, new_run, stubborn):
    hang = [stubborn]
    executor = started(ThreadPoolExecutor(1, {"initializer": lambda: hang.pop().opened.wait(PATIENCE) if hang else 0}))
    stuck, queued = new_run(int), new_run(int)
    executor.submit(stuck)
    executor.submit(queued)
    while hang:
        pass

    executor.give_up(stuck)

    assert host.outcome_of(queued).kind is OutcomeKind.SUCCEEDED
    stubborn.opened.set()
    host.wait_for(2)
    assert host.reports[1][0] is stuck


def test_the_pace_is_not_taken_from_runs_that_were_given_up(executor, stuck):
    before = executor._pool._pace.average_seconds
    give_up(executor, stuck)
    executor.room()

    assert executor._pool._pace.average_seconds == pytest.approx(before)


def test_runs_that_end_in_the_moment_in_which_they_are_given_up_are_counted_once(started, host, new_run, hectic):
    rounds, workers = 1500, 3
    executor = started(ThreadPoolExecutor(workers))
    pool = executor._pool
    for number in range(rounds):
        both = threading.Barrier(2)
        run = new_run(both.wait)
        executor.submit(run)
        while not pool._slot_of(run):
            pass
        executor.cancel(run, "out of time")
        both.wait()
        for _ in range(number * 3 % 2000):  # so that now the one wins and now the other
            pass
        executor.give_up(run)
        forget_run(run.id)
        assert pool.live() <= workers

    host.wait_for(rounds)
    executor.shutdown()
    assert len({run.id for run, _ in host.reports}) == len(host.reports) == rounds
    assert pool._hired > workers, "none was given up"
    assert pool._workers.finished + sum(slot.finished for slot in pool._workers.slots) == rounds
    assert pool._submitted == rounds
    assert len(pool._workers.slots) <= workers
    await_the_end_of_what_was_given_up()
    assert context._told == {}


def test_runs_given_up_by_one_thread_while_another_submits_are_all_accounted_for(started, host, new_run, hectic):
    executor = started(ThreadPoolExecutor(4))
    pool = executor._pool
    end = threading.Event()

    def give_up_whatever_runs():
        while not end.is_set():
            for run in pool.busy():
                give_up(executor, run)

    giver = threading.Thread(target=give_up_whatever_runs)
    giver.start()
    for _ in range(5000):
        executor.submit(new_run(int))
    last = new_run(int)
    end.set()
    giver.join(PATIENCE)
    executor.submit(last)
    executor.shutdown()

    assert host.outcome_of(last).kind is OutcomeKind.SUCCEEDED
    assert pool.live() == 0
    assert len(pool._workers.slots) <= 4
    host.wait_for(5001)
    assert len({run.id for run, _ in host.reports}) == len(host.reports) == 5001
    assert pool.busy() == []


SCRIPT = """
    import threading
    from types import SimpleNamespace

    from goscheduler.clock import SYSTEM_CLOCK
    from goscheduler.executors.pool import ThreadPoolExecutor
    from goscheduler.runs.model import Run

    class Host:
        clock = SYSTEM_CLOCK
        _create_lock = threading.RLock

        def may_start(self, run):
            return True

        def report(self, run, outcome):
            print("reported")

    begun = threading.Event()

    def hang():
        begun.set()
        threading.Event().wait()

    executor = ThreadPoolExecutor(1)
    executor.start(Host(), "default")
    now = SYSTEM_CLOCK.now()
    fields = dict(id="j", name="j", func=hang, args=(), kwargs={}, misfire_grace_time=None)
    run = Run("r", SimpleNamespace(**fields), now, now)
    executor.submit(run)
    begun.wait()
"""


@pytest.mark.serial
@pytest.mark.parametrize(
    "ending",
    [
        "executor.give_up(run); executor.shutdown(wait=False)",
        "executor.shutdown(wait=False); executor.give_up(run)",
        "executor.give_up(run); executor.shutdown(wait=True)",
        "executor.shutdown(wait=False); import atexit; atexit.register(executor.give_up, run)",
    ],
)
def test_the_interpreter_ends_although_a_given_up_thread_does_not(tmp_path, ending):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT) + ending + "\nprint('the end')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    done = subprocess.run(
        [sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )

    assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr
