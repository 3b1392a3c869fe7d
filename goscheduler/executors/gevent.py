"""An executor on the hub of a GeventScheduler: each run is a greenlet.

The scheduler that hands the runs over fires on a thread of its own, or on a greenlet of the same hub in a program that
gevent has patched. What is done here works for both: nothing waits in the hub itself, and a run ends in a greenlet that
nobody can kill.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goscheduler.executors._foreign_loop import ForeignLoopExecutor, Handed
from goscheduler.executors.asyncio import is_coroutine_function
from goscheduler.executors.base import BaseExecutor, ExecutorHost, run_job
from goscheduler.executors.call import call, cancelled, failed
from goscheduler.executors.context import RunCancelled, cancel_reason
from goscheduler.executors.pool import positive_int
from goscheduler.runs.model import Outcome

try:
    from gevent import Greenlet, GreenletExit, monkey
    from gevent.hub import get_hub
except ImportError as error:
    raise ImportError(
        'GeventExecutor needs gevent; install it with: pip install "goscheduler[gevent]"', name=error.name
    ) from error

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

__all__ = ["BaseExecutor", "GeventExecutor", "run_job"]


class _Killable:
    """The greenlet of a run, to be cancelled."""

    def __init__(self, greenlet: Any, handed: Handed) -> None:
        self._greenlet = greenlet
        self._handed = handed

    def cancel(self) -> None:
        reason = cancel_reason(self._handed.run.id) or "the executor was shut down"
        # gevent prints what kills a greenlet that has not begun, unless it is this.
        error = RunCancelled(reason) if self._handed.begun else GreenletExit()
        self._greenlet.kill(error, block=False)


class GeventExecutor(ForeignLoopExecutor):
    """Runs up to ``size`` jobs at a time as greenlets, on the hub of the thread on which the scheduler was started.

    A run that is cancelled is killed: ``RunCancelled`` is raised where it waits, and it sees the reason in
    ``current_run()``. A coroutine function gets an event loop of its own, on a thread of the hub's pool, because a
    thread can run only one; such a run can only be told to end.
    """

    loop_name = "the hub of gevent"

    def __init__(self, size: int | str = 1000) -> None:
        self._capacity = self.size = positive_int("size", size)

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        super().start(scheduler, alias)
        self._hub: Any = getattr(scheduler, "_hub", None) or get_hub()

    def _call_on_loop(self, callback: Callable[..., object], *args: object) -> None:
        loop = self._hub.loop
        if loop is None:
            raise RuntimeError("the hub was destroyed")
        loop.run_callback_threadsafe(callback, *args)

    def _why_not(self) -> str:
        return "" if self._turns() else "the hub of gevent was destroyed"

    def _turns(self) -> bool:
        return not self._hub.dead and self._hub.loop is not None

    def _is_on_loop(self) -> bool:
        return waiting_stops(self._hub)

    def _launch(self, handed: Handed) -> None:
        greenlet = Greenlet(self._perform, handed)
        handed.task = _Killable(greenlet, handed)
        # In a greenlet of its own: to report may mean to wait, and whoever kills the run must not meet that.
        greenlet.link(lambda ended: self._end(handed, outcome_of_greenlet(ended)))
        greenlet.start()

    def _perform(self, handed: Handed) -> Outcome:
        refusal = self._refusal(handed)
        if refusal is not None:
            return refusal
        run = handed.run
        if not is_coroutine_function(run.job.func):
            return self._call(run)
        handed.task = None  # to kill the greenlet that waits would end nothing
        outcome: Outcome = self._hub.threadpool.apply(self._call, (run,))
        return outcome

    def _call(self, run: Run) -> Outcome:
        return call(run, self._host.clock, None, self._arounds())

    def give_up(self, run: Run) -> None:
        handed = self._handed_for(run)
        if handed is not None:
            self._strike_off(handed)
            self._call_on_loop(handed.cancel)  # once more: it may have caught the first


def outcome_of_greenlet(greenlet: Any) -> Outcome:
    """Return how a greenlet ended; one that was killed before or after the user's function never made an outcome."""
    if isinstance(greenlet.value, Outcome):
        return greenlet.value
    if greenlet.exception is None:
        return cancelled("the greenlet was killed before it started the job")
    return failed(greenlet.exception)


def is_on_thread_of(hub: Any) -> bool:
    """Tell whether the caller is on the thread of a hub, without giving this thread one of its own."""
    return bool(monkey.get_original("_thread", "get_ident")() == hub.thread_ident)


def waiting_stops(hub: Any) -> bool:
    """Tell whether a hub stands still while the caller waits for a lock or an event of ``threading``."""
    return is_on_thread_of(hub) and not monkey.is_module_patched("threading")
