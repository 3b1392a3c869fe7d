"""An executor on the reactor of a TwistedScheduler and on the threads of that reactor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from goscheduler.executors._foreign_loop import ForeignLoopExecutor, Handed
from goscheduler.executors.asyncio import is_coroutine_function
from goscheduler.executors.base import BaseExecutor, ExecutorHost, run_job
from goscheduler.executors.call import call, call_coroutine, cancelled, failed
from goscheduler.executors.context import cancel_reason
from goscheduler.runs.model import Outcome, OutcomeKind
from goscheduler.tasks import PassJob

try:
    from twisted.internet.defer import CancelledError, Deferred
    from twisted.internet.threads import deferToThreadPool
    from twisted.python.threadable import isInIOThread
except ImportError as error:
    raise ImportError(
        'TwistedExecutor needs Twisted; install it with: pip install "goscheduler[twisted]"', name=error.name
    ) from error

if TYPE_CHECKING:
    pass

__all__ = ["BaseExecutor", "TwistedExecutor", "run_job"]

SHUT_DOWN_MEANWHILE = "the executor was shut down while the job ran"


class TwistedExecutor(ForeignLoopExecutor):
    """Runs coroutine functions and functions that give a Deferred on the reactor, and all others in its thread pool.

    A function is known to give a Deferred if ``inlineCallbacks`` has decorated it or its annotation says so. A Deferred
    that any other function returns is waited for too. A run that is cancelled has its Deferred cancelled; a thread
    sees it in ``current_run().cancelled``.
    """

    loop_name = "the reactor"

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        """Get ready.

        :raises TypeError: if the scheduler has no reactor
        """
        reactor = getattr(scheduler, "_reactor", None)
        if reactor is None:
            raise TypeError(
                f"TwistedExecutor needs the reactor of a TwistedScheduler; {type(scheduler).__name__} has none"
            )
        super().start(scheduler, alias)
        self._reactor: Any = reactor
        self._reactor_has_run: bool = reactor.running

    def _call_on_loop(self, callback: Callable[..., object], *args: object) -> None:
        self._reactor.callFromThread(callback, *args)

    def _why_not(self) -> str:
        running = self._reactor.running
        if self._reactor_has_run and not running:
            return "the reactor has stopped"
        self._reactor_has_run = running
        return ""

    def _turns(self) -> bool:
        return bool(self._reactor.running)

    def _is_on_loop(self) -> bool:
        return self._turns() and bool(isInIOThread())  # type: ignore[no-untyped-call]

    def _launch(self, handed: Handed) -> None:
        try:
            on_reactor = gives_deferred(handed.run.job.func)
        except Exception as error:
            self._end(handed, failed(error, reason=f'could not be submitted to executor "{self._alias}"'))
            return
        if on_reactor:
            ending = self._begin_on_reactor(handed)
        else:
            ending = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self._perform, handed)
        ending.addCallback(self._settled, handed)
        ending.addCallbacks(partial(self._end, handed), lambda failure: self._end(handed, failed(failure.value)))

    def _begin_on_reactor(self, handed: Handed) -> Deferred[Outcome]:
        refusal = self._refusal(handed)
        ending: Deferred[Outcome] = Deferred()
        if refusal is not None:
            ending.callback(refusal)
            return ending
        ending = Deferred.fromCoroutine(call_coroutine(handed.run, self._host.clock, self._arounds()))
        handed.task = ending
        return ending

    def _perform(self, handed: Handed) -> Outcome:
        return self._refusal(handed) or call(handed.run, self._host.clock, None, self._arounds())

    def _settled(self, outcome: Outcome, handed: Handed) -> Outcome | Deferred[Outcome]:
        """Return the outcome of a run, in the end, whose function may have returned a Deferred."""
        told = cancel_reason(handed.run.id) or (SHUT_DOWN_MEANWHILE if self._begins_no_more else "")
        if told and isinstance(outcome.error, CancelledError):
            return cancelled(told, outcome.started_at, outcome.seconds)
        result = outcome.result
        if outcome.kind is not OutcomeKind.SUCCEEDED or not isinstance(result, Deferred):
            return outcome
        handed.task = result
        begun = self._host.clock.monotonic() - outcome.seconds
        later = Deferred.fromCoroutine(self._awaited(outcome, result, begun))
        return later.addCallback(self._settled, handed)

    async def _awaited(self, outcome: Outcome, result: Deferred[Any], begun: float) -> Outcome:
        clock = self._host.clock
        try:
            return outcome._replace(result=await result, seconds=clock.monotonic() - begun)
        except BaseException as error:
            return failed(error, outcome.started_at, clock.monotonic() - begun)


def gives_deferred(func: Any) -> bool:
    """Tell whether a function is to be called on the reactor: it is a coroutine function or gives a Deferred."""
    if is_coroutine_function(func):
        return True
    while isinstance(func, (partial, PassJob)):
        func = func.func
    told = getattr(func, "__annotations__", {}).get("return")
    if "Deferred" in (told if isinstance(told, str) else getattr(told, "__qualname__", str(told))):
        return True
    return inspect.isgeneratorfunction(inspect.unwrap(func)) and not inspect.isgeneratorfunction(func)
