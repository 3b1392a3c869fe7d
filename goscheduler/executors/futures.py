"""An executor on any pool of ``concurrent.futures``: of the standard library, loky, joblib, mpi4py, Dask and others."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument
from goscheduler.executors._packed import run_packed, tell_packed
from goscheduler.executors._remote import EngineRefused, Flight, RemoteExecutor
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.call import cancelled, failed, snoozed
from goscheduler.executors.enclosure import refuse_unnamed
from goscheduler.executors.pool import positive_int
from goscheduler.references import maybe_ref

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

__all__ = ["FuturesExecutor"]

BROKEN = "its pool is broken and cannot be replaced: give a function that makes the pool instead of the pool"


class FuturesExecutor(RemoteExecutor):
    """Runs jobs in a pool: one that is given, or one that a function makes at the start and again when it breaks.

    ``slots`` is how many runs the pool gets at a time; it is asked for its ``max_workers`` if not given. In a pool of
    threads jobs run as in :class:`~goscheduler.executors.pool.ThreadPoolExecutor`; other pools get a packed call, so
    the function, its arguments and its return value must pickle. ``in_process`` says which of the two, where the class
    of the pool does not tell.

    A pool that is given is not shut down; one that a function has made is.
    """

    def __init__(
        self,
        pool: concurrent.futures.Executor | Callable[[], concurrent.futures.Executor] | str,
        slots: int | str | None = None,
        in_process: bool | None = None,
    ) -> None:
        found = maybe_ref(pool)
        is_pool = hasattr(found, "submit") and not isinstance(found, type)
        if not is_pool and not callable(found):
            raise TypeError(
                f"pool must be a concurrent.futures pool or a function that makes one, got {type(found).__name__}"
            )
        self._given: concurrent.futures.Executor | None = found if is_pool else None
        self._factory: Callable[[], concurrent.futures.Executor] | None = None if is_pool else found
        self._size = None if slots is None else positive_int("slots", slots)
        self._declared = in_process
        self.in_other_processes = is_pool and not self._is_in_process(found)  # of a factory it shows at the start
        if is_pool:
            self._slots_of(found)

    def _prepare(self) -> None:
        self._pool: concurrent.futures.Executor | None = self._given or self._made()
        self._slots, self._trouble = self._slots_of(self._pool), ""
        self.in_other_processes = not self._is_in_process(self._pool)
        refuse_unnamed(self._arounds(), {self._alias: self})

    def cancel(self, run: Run, reason: str) -> bool:
        if self._scheduler is None:
            return False
        return BaseExecutor.cancel(self, run, reason) or super().cancel(run, reason)

    def give_up(self, run: Run) -> None:
        if self._scheduler is not None:
            BaseExecutor.give_up(self, run)
            super().give_up(run)

    def _count_slots(self) -> int:
        if self._pool is None:
            self._pool = self._made()
        return self._slots_of(self._pool)

    def _made(self) -> concurrent.futures.Executor:
        if self._factory is None:
            raise EngineRefused(BROKEN)
        pool = self._factory()
        if not hasattr(pool, "submit"):
            raise TypeError(f"the function that makes the pool returned {type(pool).__name__}, which has no submit()")
        self._slots_of(pool)
        return pool

    def _slots_of(self, pool: concurrent.futures.Executor) -> int:
        size = self._size or getattr(pool, "_max_workers", None)
        if not isinstance(size, int) or size < 1:
            raise InvalidArgument(
                f"slots must be given: {type(pool).__name__} does not tell how many runs it can take at a time",
                field="slots",
            )
        return size

    def _hand_over(self, flight: Flight) -> None:
        pool = self._pool
        if pool is None or self._closing or not self._is_in_process(pool):
            super()._hand_over(flight)
            return
        try:
            flight.work = self._submitted(pool, self._run_here, flight)
        except EngineRefused as error:
            self._end(flight, snoozed(str(error), 1.0))
            return
        except Exception as error:
            self._end(flight, failed(error, reason=f'could not be submitted to executor "{self._alias}"'))
            return
        flight.work.add_done_callback(partial(self._left_thread, flight))

    def _send(self, flight: Flight, message: bytes) -> None:
        pool = self._pool
        if pool is None:
            raise EngineRefused(self._trouble or BROKEN)
        flight.work = self._submitted(pool, run_packed, message)
        flight.work.add_done_callback(partial(self._left_process, flight, pool))

    def _submitted(self, pool: concurrent.futures.Executor, function: Callable[..., Any], argument: object) -> Any:
        try:
            return pool.submit(function, argument)
        except RuntimeError as error:
            if isinstance(error, BrokenExecutor) or "shutdown" in str(error):  # by somebody
                self._replace(pool)
            raise EngineRefused(f"the pool does not take it: {error}") from error

    def _run_here(self, flight: Flight) -> None:
        flight.begun = True
        self._end(flight, self._attempt(flight.run))

    def _left_thread(self, flight: Flight, future: Future[None]) -> None:
        """See to a run whose thread has not reported it: it was never begun, or its report has raised."""
        if future.cancelled() or isinstance(error := future.exception(), BrokenExecutor):
            self._end(flight, snoozed("the pool has dropped it"))
        elif error is not None:
            self._end(flight, failed(error))

    def _left_process(self, flight: Flight, pool: concurrent.futures.Executor, future: Future[bytes]) -> None:
        error = CancelledError() if future.cancelled() else future.exception()
        if error is None:
            self._answered(flight, future.result())
        elif isinstance(error, CancelledError):
            dropped = "the pool has dropped it"
            self._end(flight, cancelled(flight.told) if flight.told is not None else snoozed(dropped, 1.0))
        elif isinstance(error, BrokenExecutor):
            self._errands.put(partial(self._replace, pool))
            self._lost(flight, f"the pool broke: {error}")
        else:
            self._end(flight, failed(error, flight.started_at, flight.seconds()))

    def _replace(self, pool: concurrent.futures.Executor) -> None:
        """Have another pool in place of one that is broken."""
        if pool is not self._pool:
            return
        self._pool, self._slots = None, 0
        if self._factory is not None:
            pool.shutdown(wait=False)
            self._logger.warning('Executor "%s": its pool is broken and is replaced by a new one', self._alias)
        self._look()

    def _tell_to_end(self, flight: Flight, reason: str) -> None:
        if flight.work is None or not flight.work.cancel():
            tell_packed(flight.run.id, flight.run.fence, reason)  # heard only where the pool is in this process

    def _end_flights(self) -> None:
        """Drop what has not begun. Runs in threads go on; those in other processes are reported as cancelled."""
        for flight in list(self._flights.values()):
            if not flight.begun and flight.work is not None:
                flight.work.cancel()
        if self._pool is None or not self._is_in_process(self._pool):
            super()._end_flights()
            return
        for flight in list(self._flights.values()):
            if flight.begun:
                self._logger.warning("Job %s is still running; its outcome is not recorded", flight.run.job.id)
            else:
                self._end(flight, snoozed("the executor was shut down before the run was started"))

    def _hang_up(self) -> None:
        if self._factory is not None and self._pool is not None:
            self._pool.shutdown(wait=False)
        self._pool = None

    def _is_in_process(self, pool: concurrent.futures.Executor) -> bool:
        if self._declared is not None:
            return self._declared
        interpreters = getattr(concurrent.futures, "InterpreterPoolExecutor", ())  # derives from the pool of threads
        return isinstance(pool, concurrent.futures.ThreadPoolExecutor) and not isinstance(pool, interpreters)
