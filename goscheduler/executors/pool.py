"""Executors on pools of threads and of processes."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument, UnknownOption, shown
from goscheduler.executors._failures import RemoteError, WorkerDied
from goscheduler.executors._workers import ThreadWorker, Worker, WorkerPool
from goscheduler.executors.base import BaseExecutor, ExecutorHost, run_job
from goscheduler.executors.context import id_of_current_run

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Run

__all__ = ["BasePoolExecutor", "ProcessPoolExecutor", "RemoteError", "ThreadPoolExecutor", "WorkerDied"]


class _WorkersExecutor(BaseExecutor):
    """Queues runs for worker threads; a subclass says what a worker does."""

    _workers: WorkerPool | None = None

    def __init__(self, max_workers: int | str, pool_kwargs: Mapping[str, Any] | None, known: Sequence[str]) -> None:
        self.max_workers = positive_int("max_workers", max_workers)
        self._options = _known_options(pool_kwargs, known, type(self).__name__)

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        super().start(scheduler, alias)
        prefix = self._options.get("thread_name_prefix") or f"goscheduler-{alias}"
        self._workers = WorkerPool(
            self.max_workers, self._new_worker, self._report, self._put_back, prefix, scheduler.clock
        )

    def submit(self, run: Run) -> None:
        self._pool.submit(run)

    def room(self) -> int:
        return max(0, self._pool.room())

    def live(self) -> int | None:
        return None if self._workers is None else self._workers.live()

    def cancel(self, run: Run, reason: str) -> bool:
        return self._workers is not None and self._workers.cancel(run, reason)

    def give_up(self, run: Run) -> None:
        if self._workers is not None:
            self._workers.give_up(run)

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        if self._workers is not None:
            self._workers.close(wait, timeout)
            level = logging.WARNING if wait else logging.INFO  # who does not wait knows that jobs go on
            for run in self._workers.busy():
                if run.id != id_of_current_run():
                    text = "Job %s is still running; its outcome is not recorded"
                    self._logger.log(level, text, run.job.id, extra={"job_id": run.job.id, "run_id": run.id})

    def _new_worker(self) -> Worker:
        raise NotImplementedError

    @property
    def _pool(self) -> WorkerPool:
        if self._workers is None:
            raise RuntimeError(f"{type(self).__name__} has not been started")
        return self._workers


class ThreadPoolExecutor(_WorkersExecutor):
    """Runs jobs in up to ``max_workers`` threads of this process; a coroutine function gets an event loop of its own.

    ``pool_kwargs``: ``thread_name_prefix``, and ``initializer`` with ``initargs``, called once in each thread. When the
    interpreter ends, running jobs are waited for, unless a shutdown with a limit has given them up.

    A run that is cancelled sees it in ``current_run().cancelled``. If it goes on for more than ``grace_seconds``, its
    thread is left to itself and another one takes its place.
    """

    def __init__(self, max_workers: int | str = 10, pool_kwargs: Mapping[str, Any] | None = None) -> None:
        super().__init__(max_workers, pool_kwargs, ("thread_name_prefix", "initializer", "initargs"))

    def _new_worker(self) -> Worker:
        options = self._options
        return ThreadWorker(self._execute, options.get("initializer"), options.get("initargs", ()))


class ProcessPoolExecutor(_WorkersExecutor):
    """Runs jobs in up to ``max_workers`` child processes, which are started when they are needed.

    The function, its arguments and its return value must pickle. A job that brings its process down fails alone.
    ``pool_kwargs``: ``mp_context`` (a multiprocessing context or its name, ``"spawn"`` if not given),
    ``max_tasks_per_child``, and ``initializer`` with ``initargs``, called once in each child.

    ``shutdown(wait=False)`` lets running jobs finish; one that runs out of time kills them, and they are reported
    as cancelled. Children do not outlive this process. A run that is cancelled gets SIGTERM, and after
    ``grace_seconds`` SIGKILL.
    """

    in_other_processes = True

    def __init__(self, max_workers: int | str = 10, pool_kwargs: Mapping[str, Any] | None = None) -> None:
        known = ("mp_context", "max_tasks_per_child", "initializer", "initargs")
        super().__init__(max_workers, pool_kwargs, known)
        limit = self._options.get("max_tasks_per_child")
        self._max_tasks = None if limit is None else positive_int("max_tasks_per_child", limit)
        self._context = _context(self._options.get("mp_context", "spawn"))

    def _new_worker(self) -> Worker:
        from goscheduler.executors._process import ChildOptions, ProcessWorker

        given = self._options
        options = ChildOptions(self._context, given.get("initializer"), given.get("initargs", ()), self._max_tasks)
        return ProcessWorker(options, self._host.clock, self._begin, self._arounds)


class BasePoolExecutor(BaseExecutor):
    """Runs jobs in a ``concurrent.futures`` pool of the user's own; meant to be subclassed, as in APScheduler 3."""

    def __init__(self, pool: concurrent.futures.Executor) -> None:
        self._pool = pool

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        """Shut the pool down; with ``wait``, wait for what it runs, for at most ``timeout`` seconds."""
        if not wait or timeout is None:
            self._pool.shutdown(wait)
            return
        self._pool.shutdown(False)
        concurrent.futures.wait(self._futures, timeout)

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        super().start(scheduler, alias)
        self._futures: set[concurrent.futures.Future[Any]] = set()

    def _do_submit_job(self, job: Job, run_times: Sequence[datetime]) -> None:
        future = self._pool.submit(run_job, job, job._jobstore_alias, run_times, self._logger.name)
        self._futures.add(future)
        future.add_done_callback(partial(self._done, job.id))

    def _done(self, job_id: str, future: concurrent.futures.Future[Any]) -> None:
        self._futures.discard(future)
        error = concurrent.futures.CancelledError() if future.cancelled() else future.exception()
        if error is None:
            self._run_job_success(job_id, future.result())
        else:
            self._run_job_error(job_id, error, error.__traceback__)


def positive_int(field: str, value: int | str) -> int:
    """Return ``value`` as an int above zero; text, as configuration files give it, is read as a number."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{field} must be a positive integer, got {type(value).__name__}")
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidArgument(f"{field} must be a positive integer, got {shown(value)}", field=field, value=value)
    return number


def _known_options(given: Mapping[str, Any] | None, known: Sequence[str], where: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"pool_kwargs must be a mapping, got {type(given).__name__}")
    for name in given:
        if name not in known:
            raise UnknownOption(str(name), known, where=f"pool_kwargs of {where}")
    return dict(given)


def _context(value: Any) -> Any:
    import multiprocessing  # imported late: it takes as long as the rest of this package, and few use it

    if not isinstance(value, str):
        if not hasattr(value, "Process"):
            raise TypeError(f"mp_context must be a multiprocessing context or its name, got {type(value).__name__}")
        return value
    if value not in multiprocessing.get_all_start_methods():
        known = ", ".join(multiprocessing.get_all_start_methods())
        raise InvalidArgument(f"mp_context must be one of {known}, got {shown(value)}", field="mp_context", value=value)
    return multiprocessing.get_context(value)
