"""An executor on the event loop of an AsyncIOScheduler."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.executors._foreign_loop import ForeignLoopExecutor, Handed
from goscheduler.executors._workers import ThreadWorker, WorkerPool
from goscheduler.executors.base import BaseExecutor, ExecutorHost, run_coroutine_job, run_job
from goscheduler.executors.call import call_coroutine, cancelled, failed
from goscheduler.tasks import PassJob

if TYPE_CHECKING:
    from goscheduler.runs.model import Outcome, Run

__all__ = ["AsyncIOExecutor", "BaseExecutor", "run_coroutine_job", "run_job"]


class AsyncIOExecutor(ForeignLoopExecutor):
    """Runs coroutine functions as tasks on the scheduler's event loop, and all others in threads of its own.

    ``shutdown(wait=True)`` waits for the tasks, unless it is called on the loop itself, which it must not block;
    ``wait=False``, or a wait that runs out of time, cancels them. A run that is cancelled sees it in
    ``current_run().cancelled``; a task gets a ``CancelledError`` as well.
    """

    _scheduler_class = "an AsyncIOScheduler"

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        """Get ready.

        :raises TypeError: if the scheduler has no event loop
        """
        loop = getattr(scheduler, "_eventloop", None)
        if loop is None:
            raise TypeError(
                f"{type(self).__name__} needs the event loop of {self._scheduler_class}; "
                f"{type(scheduler).__name__} has none"
            )
        super().start(scheduler, alias)
        self._loop: asyncio.AbstractEventLoop = loop
        self._loop_has_run = loop.is_running()
        self._threads = WorkerPool(
            self._thread_count(), self._new_worker, self._report, self._put_back, f"goscheduler-{alias}"
        )

    def submit(self, run: Run) -> None:
        try:
            on_loop = self._runs_on_loop(run.job.func)
        except Exception as error:
            self._refuse(run, error)
            return
        if on_loop:
            self._submit_to_loop(run)
        else:
            self._threads.submit(run)

    def room(self) -> int:
        return max(0, super().room() - self._threads.live())

    def live(self) -> int | None:
        return None if self._scheduler is None else len(self._handed) + self._threads.live()

    def cancel(self, run: Run, reason: str) -> bool:
        if super().cancel(run, reason):
            return True
        return self._scheduler is not None and self._threads.cancel(run, reason)

    def give_up(self, run: Run) -> None:
        handed = self._handed_for(run)
        if handed is not None:
            self._strike_off(handed)
        elif self._scheduler is not None:
            self._threads.give_up(run)

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        if self._scheduler is None:
            return
        deadline = Deadline(SYSTEM_CLOCK, timeout)
        super().shutdown(wait, timeout)
        if self._is_on_loop():
            self._threads.close(False, None)
        else:
            self._threads.close(wait, deadline.left())

    def _thread_count(self) -> int:
        return min(32, (os.cpu_count() or 1) + 4)

    def _runs_on_loop(self, func: object) -> bool:
        return is_coroutine_function(func)

    def _call_on_loop(self, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_soon_threadsafe(callback, *args)

    def _why_not(self) -> str:
        """Return why the loop cannot take a run, or nothing.

        A loop that has not run yet is given runs: ``scheduler.start()`` may well come before ``loop.run_forever()``.
        """
        if self._loop.is_closed():
            return "the event loop is closed"
        running = self._loop.is_running()
        if self._loop_has_run and not running:
            return "the event loop has stopped"
        self._loop_has_run = running
        return ""

    def _turns(self) -> bool:
        return self._loop.is_running()

    def _is_on_loop(self) -> bool:
        return running_loop() is self._loop

    def _launch(self, handed: Handed) -> None:
        refusal = self._refusal(handed)
        if refusal is not None:
            self._end(handed, refusal)
            return
        task = self._loop.create_task(call_coroutine(handed.run, self._host.clock, self._arounds()))
        handed.task = task
        task.add_done_callback(partial(self._task_done, handed))

    def _task_done(self, handed: Handed, task: asyncio.Task[Outcome]) -> None:
        self._end(handed, outcome_of_task(task))

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
