from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress

import pytest

from goscheduler.executors._child import NOTE_SECONDS, Note, Outbox, Reply
from goscheduler.executors._process import describe_end
from goscheduler.executors.context import forget_run, progress_of, record_progress
from goscheduler.executors.pool import ProcessPoolExecutor, RemoteError, WorkerDied
from goscheduler.runs.model import OutcomeKind, Progress

pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(sys.platform == "win32", reason="uses signals and named pipes"),
]


@pytest.fixture
def executor(started):
    return started(ProcessPoolExecutor(1))


@pytest.fixture
def perform(executor, host, new_run):
    def perform(func, *args):
        run = new_run(func, *args)
        executor.submit(run)
        return host.outcome_of(run)

    return perform


def read_pid(path):
    with open(path) as file:
        return int(file.read())


def await_end(pid):
    """Wait until a process, which need not be our child, has ended."""
    descriptor = None
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    assert select.select([descriptor], [], [], 60)[0], f"process {pid} lives on"
    os.close(descriptor)


def test_jobs_run_in_another_process_which_is_used_again(perform, jobs):
    first, second = perform(jobs.pid).result, perform(jobs.pid).result

    assert first == second
    assert first != os.getpid()


def test_the_duration_is_that_of_the_function_and_not_of_the_start_of_the_process(started, host, new_run, jobs):
    executor = started(ProcessPoolExecutor(1, {"initializer": jobs.count_instead_of_time}))
    run = new_run(jobs.add, 1)
    executor.submit(run)

    assert host.outcome_of(run).seconds == 1, "the child looked at its clock before the function and after it"


def test_a_child_killed_in_the_middle_of_a_run_fails_that_run_alone(started, host, new_run, jobs, fifo):
    executor = started(ProcessPoolExecutor(2))
    victim = new_run(jobs.tell_pid_and_wait, fifo("victim"))
    bystander = new_run(jobs.tell_and_wait_for_answer, fifo("told"), fifo("answer"))
    executor.submit(victim)
    executor.submit(bystander)
    read_pid(bystander.job.args[0])

    os.kill(read_pid(victim.job.args[0]), signal.SIGKILL)

    outcome = host.outcome_of(victim)
    assert outcome.kind is OutcomeKind.FAILED
    assert isinstance(outcome.error, WorkerDied)
    assert str(outcome.error) == "the worker process was killed by SIGKILL"
    assert outcome.error.exit_code == -signal.SIGKILL
    assert outcome.reason == "the worker process died"
    with open(bystander.job.args[1], "w") as file:
        file.write("all well")
    assert host.outcome_of(bystander).result == "all well"


def test_after_a_death_the_next_run_gets_a_new_child(perform, jobs):
    before = perform(jobs.pid).result

    assert str(perform(jobs.end_at_once, 7).error) == "the worker process ended with exit code 7"
    assert str(perform(jobs.crash).error) == "the worker process was killed by SIGSEGV"

    assert perform(jobs.pid).result != before


def test_a_run_whose_child_was_killed_while_it_was_idle_gets_a_new_child(perform, jobs):
    idle = perform(jobs.pid).result
    os.kill(idle, signal.SIGKILL)
    await_end(idle)

    outcome = perform(jobs.pid)

    assert outcome.error is None
    assert outcome.result != idle


def test_a_run_whose_child_is_killed_just_before_it_is_sent_there_gets_a_new_child(perform, jobs):
    idle = perform(jobs.pid).result

    assert perform(jobs.add, KillsWhenPickled(idle)).result == 42


class KillsWhenPickled:
    """Ends a process the first time that it is pickled; becomes the number 41."""

    def __init__(self, pid):
        self._pid = pid

    def __reduce__(self):
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
            await_end(self._pid)
        return int, (41,)


def test_a_job_that_closes_the_connection_fails_and_the_child_is_replaced(perform, jobs):
    outcome = perform(jobs.close_every_file)

    assert isinstance(outcome.error, WorkerDied)
    assert perform(jobs.add, 41).result == 42


def test_a_death_is_seen_although_a_grandchild_holds_the_pipe_open(perform, jobs, tmp_path):
    path = tmp_path / "survivor"
    try:
        outcome = perform(jobs.die_while_a_forked_child_holds_the_pipe, str(path))
        assert str(outcome.error) == "the worker process ended with exit code 3"
    finally:
        os.kill(read_pid(path), signal.SIGKILL)


def test_a_job_that_forks_and_returns_twice_is_answered_once(perform, jobs):
    assert perform(jobs.fork_and_return).result == perform(jobs.pid).result
    assert perform(jobs.add, 41).result == 42


def test_a_job_may_start_processes_of_its_own(perform, jobs):
    assert perform(jobs.start_a_process_of_its_own).result == 0


def test_children_ignore_ctrl_c(perform, jobs):
    assert perform(jobs.interrupt_itself).result == "still here"


def test_what_does_not_pickle_fails_with_the_name_of_the_job(perform, jobs):
    for outcome in (perform(lambda: None), perform(jobs.add, threading.Lock())):
        assert outcome.kind is OutcomeKind.FAILED
        assert isinstance(outcome.error, TypeError)
        assert "job 'job-1' cannot be sent to a worker process" in str(outcome.error)
        assert "ickle" in str(outcome.error)
    assert perform(jobs.add, 41).result == 42


def test_an_argument_that_the_child_cannot_read_fails_the_run(perform, jobs):
    outcome = perform(jobs.add, jobs.Unreadable())

    assert outcome.kind is OutcomeKind.FAILED
    assert str(outcome.error) == "cannot be read"
    assert perform(jobs.add, 41).result == 42


def test_a_return_value_that_does_not_pickle_comes_back_as_text(perform, jobs):
    outcome = perform(jobs.return_a_lock)

    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert "lock object" in outcome.result
    assert "could not be brought over" in outcome.reason


def test_a_return_value_that_cannot_be_unpickled_comes_back_as_text(perform, jobs):
    outcome = perform(jobs.return_something_unreadable)

    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert outcome.result == "<Unreadable object>"
    assert "ValueError: cannot be read" in outcome.reason


def test_an_exception_that_does_not_pickle_comes_back_as_text(perform, jobs):
    outcome = perform(jobs.fail_with_a_lock)

    assert isinstance(outcome.error, RemoteError)
    assert (outcome.error.type_name, outcome.error.message) == ("ValueError", "holds a lock")
    assert "in fail_with_a_lock" in outcome.traceback


def test_an_exception_that_cannot_be_unpickled_comes_back_as_text(perform, jobs):
    outcome = perform(jobs.fail_with_two_arguments)

    assert isinstance(outcome.error, RemoteError)
    assert str(outcome.error) == "TwoArguments: 42: cannot be rebuilt"


def test_a_child_is_replaced_after_its_number_of_tasks(started, host, new_run, jobs):
    executor = started(ProcessPoolExecutor(1, {"max_tasks_per_child": "2"}))
    runs = [new_run(jobs.pid) for _ in range(5)]
    for run in runs:
        executor.submit(run)

    pids = [host.outcome_of(run).result for run in runs]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


def test_the_initializer_runs_in_the_child(started, host, new_run, jobs):
    executor = started(ProcessPoolExecutor(1, {"initializer": jobs.initialise, "initargs": ("a value",)}))
    run = new_run(jobs.initialised_with)
    executor.submit(run)

    assert host.outcome_of(run).result == "a value"
    assert jobs.initialised_with() is None


@pytest.mark.parametrize(("name", "argument"), [("fail", "no service"), ("leave", 3), ("end_at_once", 3)])
def test_an_initializer_that_does_not_return_fails_the_run(started, host, new_run, jobs, name, argument):
    executor = started(ProcessPoolExecutor(1, {"initializer": getattr(jobs, name), "initargs": (argument,)}))
    run = new_run(jobs.add, 1)
    executor.submit(run)

    outcome = host.outcome_of(run)
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.reason == "the worker process could not be started"
    assert str(argument) in str(outcome.error)


def test_an_initializer_that_does_not_pickle_fails_the_run(started, host, new_run, jobs):
    executor = started(ProcessPoolExecutor(1, {"initializer": lambda: None}))
    run = new_run(jobs.add, 1)
    executor.submit(run)

    assert host.outcome_of(run).reason == "the worker process could not be started"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="forking beside threads warns")
def test_another_start_method_can_be_chosen(started, host, new_run, jobs):
    executor = started(ProcessPoolExecutor(2, {"mp_context": "fork"}))
    run = new_run(jobs.add, 41)
    executor.submit(run)

    assert host.outcome_of(run).result == 42


def test_many_runs_through_several_children_are_each_reported_once(started, host, new_run, jobs):
    executor = started(ProcessPoolExecutor(3))
    runs = [new_run(jobs.add, number) for number in range(500)]
    for run in runs:
        executor.submit(run)

    host.wait_for(len(runs))
    executor.shutdown()
    assert sorted(run.id for run, _ in host.reports) == sorted(run.id for run in runs)
    assert sum(outcome.result for _, outcome in host.reports) == sum(range(1, 501))


def test_shutdown_waits_for_the_running_job_and_ends_the_child(executor, host, new_run, jobs, fifo):
    run = new_run(jobs.tell_and_wait_for_answer, fifo("told"), fifo("answer"))
    executor.submit(run)
    child = read_pid(run.job.args[0])

    def answer():
        with open(run.job.args[1], "w") as file:
            file.write("done")

    answerer = threading.Thread(target=answer)
    answerer.start()
    executor.shutdown(wait=True)
    answerer.join()

    assert [outcome.result for _, outcome in host.reports] == ["done"]
    await_end(child)


def test_shutdown_that_runs_out_of_time_kills_the_child_and_cancels_its_run(executor, host, new_run, jobs, fifo):
    running, queued = new_run(jobs.tell_pid_and_wait, fifo("told")), new_run(jobs.add, 1)
    executor.submit(running)
    executor.submit(queued)
    child = read_pid(running.job.args[0])

    executor.shutdown(wait=True, timeout=0.01)

    assert {outcome.kind for _, outcome in host.reports} == {OutcomeKind.CANCELLED, OutcomeKind.SNOOZED}
    assert "shutdown" in host.outcome_of(running).reason
    await_end(child)


def test_shutdown_without_waiting_lets_the_running_job_finish(executor, host, new_run, jobs, fifo):
    run = new_run(jobs.tell_and_wait_for_answer, fifo("told"), fifo("answer"))
    executor.submit(run)
    child = read_pid(run.job.args[0])

    executor.shutdown(wait=False)
    with open(run.job.args[1], "w") as file:
        file.write("done")

    assert host.outcome_of(run).result == "done"
    await_end(child)


@pytest.fixture
def running(executor, new_run, fifo):
    """A function that submits a run and returns it and the pid of its process, as the job tells it."""

    def start(func, *args):
        run = new_run(func, fifo(f"told-{func.__name__}"), *args)
        executor.submit(run)
        return run, read_pid(run.job.args[0])

    return start


def test_a_cancelled_run_ends_with_its_process_and_the_next_gets_another(running, perform, executor, host, jobs):
    run, child = running(jobs.tell_pid_and_wait)

    assert executor.cancel(run, "out of time")

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "out of time")
    await_end(child)
    assert perform(jobs.pid).result != child


def test_a_run_that_ignores_the_signal_is_killed_when_it_is_given_up(running, perform, executor, host, jobs, fifo):
    run, child = running(jobs.ignore_everything, fifo("answer"))
    executor.cancel(run, "out of time")
    os.kill(child, 0)

    executor.give_up(run)

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "out of time")
    await_end(child)
    assert perform(jobs.add, 41).result == 42


def test_a_run_that_leaves_when_it_is_asked_to_is_cancelled_and_has_not_failed(running, perform, executor, host, jobs):
    run, child = running(jobs.leave_when_terminated)

    executor.cancel(run, "out of time")

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "out of time")
    assert perform(jobs.pid).result != child


def test_a_run_can_be_cancelled_while_its_process_starts(started, host, new_run, jobs, fifo):
    path = fifo("told")
    executor = started(ProcessPoolExecutor(1, {"initializer": jobs.wait_in_initializer, "initargs": (path,)}))
    run = new_run(jobs.add, 1)
    executor.submit(run)
    read_pid(path)

    assert executor.cancel(run, "out of time")

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "out of time")
    assert outcome.started_at is None


def test_a_run_that_is_cancelled_before_there_is_a_process_is_never_sent_to_one(started, new_host, new_run, jobs):
    class Cancelling(new_host):
        def may_start(self, run):
            assert executor.cancel(run, "displaced")
            return True

    host = Cancelling()
    executor = started(ProcessPoolExecutor(1), host)
    run = new_run(jobs.add, 1)
    executor.submit(run)

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason, outcome.started_at) == (OutcomeKind.CANCELLED, "displaced", None)


def test_a_signal_never_hits_another_run(started, host, new_run, jobs):
    executor = started(ProcessPoolExecutor(1))
    run = new_run(jobs.add, 41)
    executor.submit(run)
    host.outcome_of(run)
    for number in range(25):
        meant, other = new_run(jobs.add, 41), new_run(jobs.add, 41)
        executor.submit(meant)
        executor.submit(other)
        while not executor._pool._slot_of(meant) and len(host.reports) == 1 + 2 * number:
            pass
        for _ in range(number * 250):  # so that the signal comes at another moment each time
            pass
        executor.cancel(meant, "out of time")

        assert host.outcome_of(other).result == 42
        assert host.outcome_of(meant).kind in (OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED)


def test_children_can_be_cancelled_although_their_parent_ignores_the_signal(started, host, new_run, jobs, fifo):
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        executor = started(ProcessPoolExecutor(1))
        run = new_run(jobs.tell_pid_and_wait, fifo("told"))
        executor.submit(run)
        read_pid(run.job.args[0])
        executor.cancel(run, "out of time")

        assert host.outcome_of(run).kind is OutcomeKind.CANCELLED
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_progress_is_seen_while_the_job_goes_on_also_what_had_to_wait_for_its_turn(running, host, jobs, fifo):
    run, _ = running(jobs.advance_and_wait, fifo("answer"))

    while progress_of(run.id) != (0.5, "half"):
        pass

    jobs.tell(run.job.args[1])
    assert host.outcome_of(run).kind is OutcomeKind.SUCCEEDED
    forget_run(run.id)


def test_progress_of_a_run_that_dies_is_kept(running, executor, host, jobs, fifo):
    run, _ = running(jobs.advance_and_wait, fifo("answer"))
    while progress_of(run.id) is None:
        pass
    executor.give_up(run)
    host.outcome_of(run)

    assert progress_of(run.id).share in (0.1, 0.5)
    forget_run(run.id)


class Wire:
    """A pipe that keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send_bytes(self, message):
        self.sent.append(pickle.loads(message))


REPLY = Reply(OutcomeKind.SUCCEEDED, None, None, "", 0.0)


def test_a_flood_of_notes_becomes_a_few_and_the_last_one_goes_before_the_answer(monkeypatch, clock):
    monkeypatch.setattr("goscheduler.executors._child.SYSTEM_CLOCK", clock)
    wire = Wire()
    outbox = Outbox(wire)
    outbox.open_for("r")

    for number in range(1001):
        outbox.note("r", Progress(number / 1000, ""))
        clock.move(NOTE_SECONDS / 100)
    outbox.answer(REPLY)

    *notes, answer = wire.sent
    assert answer == REPLY
    assert notes[-1] == Note("r", Progress(1.0, ""))
    assert 10 <= len(notes) <= 30


def test_notes_on_runs_that_are_over_are_not_sent():
    wire = Wire()
    outbox = Outbox(wire)
    outbox.note("earlier", Progress(1.0, ""))
    outbox.open_for("r")
    outbox.note("earlier", Progress(1.0, ""))
    outbox.answer(REPLY)
    outbox.note("r", Progress(1.0, ""))

    assert wire.sent == [REPLY]


def test_a_note_that_cannot_be_sent_costs_the_job_nothing():
    class Broken:
        def send_bytes(self, message):
            raise BrokenPipeError

    outbox = Outbox(Broken())
    outbox.open_for("r")

    assert outbox.note("r", Progress(0.5, "")) is None


def test_a_process_that_the_job_has_forked_sends_no_notes(monkeypatch):
    wire = Wire()
    outbox = Outbox(wire)
    outbox.open_for("r")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    outbox.note("r", Progress(0.5, ""))

    assert wire.sent == []


def test_what_was_told_of_another_run_does_not_count_for_this_one(perform, jobs):
    record_progress("another", Progress(0.3, ""))
    perform(jobs.advance, 3)

    assert progress_of("another") == (0.3, "")
    forget_run("another")
    forget_run("run-1")


SCRIPT = """
    import os, signal, sys, threading
    from datetime import datetime, timezone
    from types import SimpleNamespace

    from goscheduler.clock import SYSTEM_CLOCK
    from goscheduler.executors.pool import ProcessPoolExecutor
    from goscheduler.runs.model import Run

    def answer():
        return f"{__name__}:{os.getpid()}"

    def tell_and_stay():
        print(os.getpid(), flush=True)
        while True:
            signal.pause()

    class Host:
        clock = SYSTEM_CLOCK
        done = threading.Event()
        outcome = None
        _create_lock = threading.RLock

        def may_start(self, run):
            return True

        def report(self, run, outcome):
            self.outcome = outcome
            self.done.set()

    def start(func):
        host = Host()
        executor = ProcessPoolExecutor(1)
        executor.start(host, "default")
        now = datetime.now(timezone.utc)
        fields = dict(id="j", name="j", func=func, args=(), kwargs={}, func_ref="j", tags=(), misfire_grace_time=None)
        executor.submit(Run("r", SimpleNamespace(**fields), now, now))
        return host
"""


def script(tmp_path, ending):
    path = tmp_path / "main_script.py"
    path.write_text(textwrap.dedent(SCRIPT) + textwrap.dedent(ending))
    return [sys.executable, str(path)]


@pytest.fixture
def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_functions_of_the_main_script_work(tmp_path, environment):
    ending = """
        if __name__ == "__main__":
            host = start(answer)
            host.done.wait(60)
            print(host.outcome.result, host.outcome.error)
    """
    output = subprocess.run(
        script(tmp_path, ending), env=environment, capture_output=True, text=True, timeout=120, check=True
    )

    assert output.stdout.startswith("__mp_main__:")
    assert output.stdout.rstrip().endswith("None")


def test_a_script_without_the_main_guard_does_not_hang(tmp_path, environment):
    ending = """
        host = start(answer)
        host.done.wait(60)
        print(type(host.outcome.error).__name__, host.outcome.reason)
    """
    output = subprocess.run(
        script(tmp_path, ending), env=environment, capture_output=True, text=True, timeout=120, check=True
    )

    in_child, in_parent = output.stdout.splitlines()
    assert in_child == "RuntimeError the worker process could not be started"
    assert in_parent.strip() == "NoneType"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_busy_child_does_not_outlive_its_parent(tmp_path, environment, name):
    ending = """
        if __name__ == "__main__":
            start(tell_and_stay).done.wait(60)
    """
    with subprocess.Popen(script(tmp_path, ending), env=environment, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.send_signal(getattr(signal, name))

    await_end(child)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
        (None, "closed its connection without ending"),
    ],
)
def test_the_end_of_a_process_is_told_in_words(code, words):
    assert describe_end(code) == words
