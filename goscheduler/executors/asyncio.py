"""An executor on the event loop of an AsyncIOScheduler."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors._workers import ABORT_SECONDS, SHUT_DOWN, ThreadWorker, WorkerPool
from goscheduler.executors.base import UNKNOWN_ROOM, BaseExecutor, ExecutorHost, run_coroutine_job, run_job
from goscheduler.executors.call import call_coroutine, cancelled, failed, snoozed
from goscheduler.executors.context import (
    attempt_key,
    clear_cancel,
    id_of_current_run,
    mark_given_up,
    tell_to_end,
    unmark_given_up,
)
from goscheduler.tasks import PassJob

if TYPE_CHECKING:
    from goscheduler.runs.model import Outcome, Run

#: How often a shutdown that waits for tasks looks whether their loop still turns.
LOOK_SECONDS = 0.25


__all__ = ["AsyncIOExecutor", "BaseExecutor", "run_coroutine_job", "run_job"]


class _Handed:
    """A run that was handed to the loop and has not been reported."""

    __slots__ = ("ended", "run", "task")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.task: asyncio.Task[Outcome] | None = None
        self.ended = False

    def cancel(self) -> None:
        """Cancel the task, if there is one yet. Called on the loop."""
        if self.task is not None:
            self.task.cancel()


class AsyncIOExecutor(BaseExecutor):
    """Runs coroutine functions as tasks on the scheduler's event loop, and all others in threads of its own.

    ``shutdown(wait=True)`` waits for the tasks, unless it is called on the loop itself, which it must not block;
    ``wait=False``, or a wait that runs out of time, cancels them. A run that is cancelled sees it in
    ``current_run().cancelled``; a task gets a ``CancelledError`` as well.
    """

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        """Get ready.

        :raises TypeError: if the scheduler has no event loop
        """
        loop = getattr(scheduler, "_eventloop", None)
        if loop is None:
            raise TypeError(
                f"AsyncIOExecutor needs the event loop of an AsyncIOScheduler; {type(scheduler).__name__} has none"
            )
        super().start(scheduler, alias)
        self._loop: asyncio.AbstractEventLoop = loop
        self._loop_has_run = loop.is_running()
        self._stopped = False
        self._changed = threading.Condition()
        self._handed: set[_Handed] = set()
        self._given_up: set[_Handed] = set()
        """Kept because the loop itself has only weak references to tasks."""
        size = min(32, (os.cpu_count() or 1) + 4)
        self._threads = WorkerPool(size, self._new_worker, self._report, self._put_back, f"goscheduler-{alias}")

    def submit(self, run: Run) -> None:
        try:
            on_loop = is_coroutine_function(run.job.func)
        except Exception as error:
            self._refuse(run, error)
            return
        if on_loop:
            self._submit_to_loop(run)
        else:
            self._threads.submit(run)

    def room(self) -> int:
        return max(0, UNKNOWN_ROOM - len(self._handed) - self._threads.live())

    def live(self) -> int | None:
        return None if self._scheduler is None else len(self._handed) + self._threads.live()

    def cancel(self, run: Run, reason: str) -> bool:
        handed = self._handed_for(run)
        if handed is None:
            return self._scheduler is not None and self._threads.cancel(run, reason)
        tell_to_end(run.id, reason)
        # Asked for on the loop, where a task either exists or has yet to pass _begin().
        with suppress(RuntimeError):  # closed in this very moment
            self._loop.call_soon_threadsafe(handed.cancel)
        if handed.ended:
            clear_cancel(run.id)  # over by now, and may have been forgotten already
        return True

    def give_up(self, run: Run) -> None:
        handed = self._handed_for(run)
        if handed is not None:
            self._strike_off(handed)
        elif self._scheduler is not None:
            self._threads.give_up(run)

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        if self._scheduler is None:
            return
        self._stopped = True
        deadline = None if timeout is None else SYSTEM_CLOCK.monotonic() + timeout
        if running_loop() is self._loop:
            self._threads.close(False, None)
            if not wait:
                self._cancel_tasks()
            return
        done = wait and self._wait_for_tasks(deadline)
        if not done:
            self._cancel_tasks()
            self._wait_for_tasks(SYSTEM_CLOCK.monotonic() + ABORT_SECONDS)
        if not self._loop.is_running():
            self._give_up_tasks()
        left = None if deadline is None else max(0.0, deadline - SYSTEM_CLOCK.monotonic())
        self._threads.close(wait, left)

    def _submit_to_loop(self, run: Run) -> None:
        problem = self._why_not()
        if problem:
            self._put_back(run, problem)
            return
        handed = _Handed(run)
        with self._changed:
            self._handed.add(handed)
        try:
            self._loop.call_soon_threadsafe(self._start_task, handed)
        except RuntimeError as error:  # closed in this very moment
            self._end(handed, snoozed(f"the event loop does not take it: {error}"))

    def _why_not(self) -> str:
        """Return why the loop cannot take a run, or nothing.

        A loop that has not run yet is given runs: ``scheduler.start()`` may well come before ``loop.run_forever()``.
        """
        if self._stopped:
            return SHUT_DOWN
        if self._loop.is_closed():
            return "the event loop is closed"
        running = self._loop.is_running()
        if self._loop_has_run and not running:
            return "the event loop has stopped"
        self._loop_has_run = running
        return ""

    def _start_task(self, handed: _Handed) -> None:
        if handed not in self._handed:
            # Given up before the loop came round to it, and maybe reported by a shutdown.
            self._end(handed, cancelled("the run was given up before it was started"))
            return
        if self._stopped:
            self._end(handed, snoozed(SHUT_DOWN))
            return
        not_started = self._begin(handed.run)
        if not_started is not None:
            self._end(handed, not_started)
            return
        handed.task = self._loop.create_task(call_coroutine(handed.run, self._host.clock, self._arounds()))
        handed.task.add_done_callback(partial(self._task_done, handed))

    def _task_done(self, handed: _Handed, task: asyncio.Task[Outcome]) -> None:
        self._end(handed, outcome_of_task(task))

    def _end(self, handed: _Handed, outcome: Outcome) -> None:
        """Report a run, unless somebody else was quicker, and only then strike it off: a shutdown waits for that."""
        with self._changed:
            given_up = handed in self._given_up
            if handed.ended and not given_up:
                return
            handed.ended = True
            if given_up:
                self._given_up.discard(handed)
                unmark_given_up(handed.run)
        self._report(handed.run, outcome)
        with self._changed:
            self._handed.discard(handed)
            self._changed.notify_all()

    def _handed_for(self, run: Run) -> _Handed | None:
        if self._scheduler is None:
            return None
        key = attempt_key(run)
        with self._changed:
            return next((handed for handed in self._handed if attempt_key(handed.run) == key), None)

    def _strike_off(self, handed: _Handed) -> None:
        """Go on without a run that was given up; its task may end one day or never."""
        with self._changed:
            if handed.ended:
                return
            handed.ended = True
            mark_given_up(handed.run)
            self._given_up.add(handed)
            self._handed.discard(handed)
            self._changed.notify_all()

    def _wait_for_tasks(self, deadline: float | None) -> bool:
        """Wait until the loop has nothing of ours left; False if time ran out or the loop stopped.

        A job that shuts the scheduler down, from a thread that it awaits, is not waited for by itself.
        """
        own = id_of_current_run()
        with self._changed:
            while any(handed.run.id != own for handed in self._handed):
                left = LOOK_SECONDS if deadline is None else deadline - SYSTEM_CLOCK.monotonic()
                if left <= 0 or not self._loop.is_running():
                    return False
                self._changed.wait(min(left, LOOK_SECONDS))
        return True

    def _cancel_tasks(self) -> None:
        with self._changed:
            tasks = [handed.task for handed in self._handed if handed.task is not None]
        for task in tasks:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(task.cancel)

    def _give_up_tasks(self) -> None:
        """Report what the loop, which does not turn any more, will never report."""
        with self._changed:
            left = list(self._handed)
        for handed in left:
            started = handed.task is not None
            self._end(handed, cancelled("the event loop stopped while the job ran") if started else snoozed(SHUT_DOWN))

    def _new_worker(self) -> ThreadWorker:
        return ThreadWorker(self._execute)


def is_coroutine_function(func: object) -> bool:
    """Tell whether calling ``func`` gives a coroutine, also through ``partial`` and an async ``__call__``."""
    while isinstance(func, (partial, PassJob)):
        func = func.func
    if isinstance(func, type):
        return False  # calling a class makes an object, whatever the object's own __call__ is
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(type(func).__call__)


def outcome_of_task(task: asyncio.Task[Outcome]) -> Outcome:
    """Return how a finished task ended; one that was cancelled before its first step never made an outcome."""
    if task.cancelled():
        return cancelled("the task was cancelled before it started")
    error = task.exception()
    return task.result() if error is None else failed(error)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs on this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
