"""Functions that the tests run in child processes, which have to be able to import them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import itertools
import multiprocessing
import os
import signal
import sys
import threading

from goscheduler.clock import SystemClock
from goscheduler.executors import _child
from goscheduler.executors.context import RunCancelled, current_run
from goscheduler.runs.retry import Snooze


def add(left, right=1):
    return left + right


async def add_later(left, right=1):
    await asyncio.sleep(0)
    return left + right


add_to_forty_later = functools.partial(add_later, 40)


class AsyncAdder:
    async def __call__(self, left, right=1):
        return await add_later(left, right)


def fail(message):
    raise ValueError(message)


async def fail_later(message):
    await asyncio.sleep(0)
    raise ValueError(message)


def leave(code):
    sys.exit(code)


def interrupt():
    raise KeyboardInterrupt


def cancel():
    raise asyncio.CancelledError


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def fail_speechlessly():
    raise Speechless


class TwoArguments(Exception):
    """Pickles, and cannot be unpickled."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")


def fail_with_two_arguments():
    raise TwoArguments(42, "cannot be rebuilt")


def fail_with_a_lock():
    error = ValueError("holds a lock")
    error.lock = threading.Lock()
    raise error


def return_a_lock():
    return threading.Lock()


def crash_once(path):
    """Kill its process the first time."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "the second time"
    return os.kill(os.getpid(), signal.SIGKILL)


def note_pid_and_wait(path):
    """Append the own pid to a file, then stay until killed or told to end."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        current_run().check()
        threading.Event().wait(0.05)


def note_and_work(folder, number, seconds):
    """Leave a file that names the attempt, and work for a while."""
    run = current_run()
    name = os.path.join(folder, f"job-{number}.{run.fence}.{os.getpid()}")
    os.close(os.open(name, os.O_CREAT | os.O_EXCL))
    threading.Event().wait(seconds)
    return number


def never_end(path):
    """Write the own pid to a file, and hear nothing."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    threading.Event().wait()


enclosing = contextvars.ContextVar("enclosing", default=None)


@contextlib.contextmanager
def enclosed(run):
    token = enclosing.set(run.job_id)
    yield
    enclosing.reset(token)


def what_encloses():
    return enclosing.get()


class Unreadable:
    def __reduce__(self):
        return (fail, ("cannot be read",))


def return_something_unreadable():
    return Unreadable()


def facts():
    run = current_run()
    return run.job_id, run.run_id, run.attempt, run.scheduled_at, run.fire_id, run.fence, run.lateness >= 0


def handle(payload, job):
    return payload, (job.job_id, job.job_name, job.task, job.tags, job.args, job.kwargs)


async def handle_later(payload, job):
    await asyncio.sleep(0)
    return handle(payload, job)


async def facts_later():
    await asyncio.sleep(0)
    return facts()


def pid():
    return os.getpid()


def end_at_once(code):
    os._exit(code)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def close_every_file():
    os.closerange(3, 256)


def start_a_process_of_its_own():
    child = multiprocessing.get_context("spawn").Process(target=pid)
    child.start()
    child.join()
    return child.exitcode


def fork_and_return():
    """Come back twice, from the parent and from the child."""
    os.fork()
    return os.getpid()


def die_while_a_forked_child_holds_the_pipe(path):
    """End abruptly, leaving behind a process that keeps every descriptor open until it is killed."""
    survivor = os.fork()
    if survivor == 0:
        signal.pause()
    with open(path, "w") as file:
        file.write(str(survivor))
    os._exit(3)


def tell_pid_and_wait(path):
    """Write the own pid to a named pipe, then stay until killed."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    while True:
        signal.pause()


def wait_and_note_the_end(told, seen):
    """Stay until ended, and write why into a file."""
    try:
        tell_pid_and_wait(told)
    finally:
        with open(seen, "w") as file:
            file.write(current_run().cancel_reason)


def tell_and_wait_for_answer(told, answer):
    """Write the own pid to one named pipe, and return what comes through another."""
    with open(told, "w") as file:
        file.write(str(os.getpid()))
    with open(answer) as file:
        return file.read()


def interrupt_itself():
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


_initialised_with = None


def initialise(value):
    global _initialised_with
    _initialised_with = value


def initialised_with():
    return _initialised_with


class Counting(SystemClock):
    """A clock that is a second later each time somebody looks at it."""

    __slots__ = ("_looks",)

    def __init__(self):
        self._looks = itertools.count()

    def monotonic(self):
        return float(next(self._looks))


def count_instead_of_time():
    _child.SYSTEM_CLOCK = Counting()


def tell(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))


def go_on_until_told_to_end(path):
    tell(path)
    while True:
        current_run().check()


def tell_of_the_end(told, seen):
    """Write the own pid to one file, go on until told to end, and write why to another one."""
    tell(told)
    while not current_run().cancelled:
        threading.Event().wait(0.02)
    with open(f"{seen}.new", "w") as file:
        file.write(current_run().cancel_reason)
    os.replace(f"{seen}.new", seen)
    return "told"


async def go_on_until_told_to_end_later(path):
    tell(path)
    while True:
        current_run().check()
        await asyncio.sleep(0)


def ignore_everything(told, answer):
    """Write the own pid to one named pipe, and go on until something comes through another."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return tell_and_wait_for_answer(told, answer)


async def ignore_everything_later(told, answer):
    waiting = asyncio.get_running_loop().run_in_executor(None, ignore_everything, told, answer)
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
    return waiting.result()


def leave_when_terminated(path):
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    tell_pid_and_wait(path)


def wait_in_initializer(path):
    tell(path)
    while True:
        signal.pause()


def cancel_itself(reason):
    raise RunCancelled(reason)


def snooze(reason):
    raise Snooze(1, reason)


def advance(times):
    for number in range(1, times + 1):
        current_run().progress(number / times, f"step {number}")


async def advance_later(times):
    await asyncio.sleep(0)
    advance(times)


def advance_and_wait(told, answer):
    current_run().progress(0.1)
    current_run().progress(0.5, "half")
    return tell_and_wait_for_answer(told, answer)
