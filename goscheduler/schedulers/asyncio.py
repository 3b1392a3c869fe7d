"""A scheduler for asyncio programs.

It fires on a thread of its own, so no store is ever waited for on the event loop; coroutine functions run on the loop.
Methods that go to a store, such as ``start`` and ``add_job``, do so on the caller's thread: with a store that does I/O,
call them through :attr:`AsyncIOScheduler.aio`, ``await scheduler.aio.add_job(...)``. Otherwise the loop stands still
meanwhile; the first time that this takes long, a warning says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from goscheduler.config import SchedulerConfig
from goscheduler.errors import SchedulerNotRunningError
from goscheduler.executors.asyncio import AsyncIOExecutor, running_loop
from goscheduler.executors.base import BaseExecutor
from goscheduler.references import maybe_ref
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

__all__ = ["AsyncIOScheduler", "BaseScheduler", "SchedulerNotRunningError"]

if TYPE_CHECKING:
    from goscheduler._typed import AddJob, ModifyJob, RescheduleJob
    from goscheduler.job import Job

#: Seconds for which a call may keep the event loop waiting without a word.
UNNOTICED = 0.05

P = ParamSpec("P")
R = TypeVar("R")


def _watched(method: Callable[P, R]) -> Callable[P, R]:
    """Have a method of a scheduler say when it has kept the event loop waiting for long."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        scheduler: Any = args[0]
        if not scheduler._may_block_the_loop():
            return method(*args, **kwargs)
        scheduler._is_watched = True
        begun = scheduler.clock.monotonic()
        try:
            return method(*args, **kwargs)
        finally:
            scheduler._is_watched = False
            scheduler._tell_of_blocking(method.__name__, scheduler.clock.monotonic() - begun)

    return call


class AsyncIOScheduler(BackgroundScheduler):
    """Runs coroutine functions on an event loop: the one given as ``event_loop``, else that running at ``start()``."""

    extra_options = (*BackgroundScheduler.extra_options, "event_loop")
    _eventloop: asyncio.AbstractEventLoop | None = None
    _callers_loop: asyncio.AbstractEventLoop | None = None
    """The loop on which ``aio.start()`` was called."""
    _is_watched = False
    """Whether a call that is going on is being timed, and those below it need not be."""
    _told_of_blocking = False

    def _apply(self, config: SchedulerConfig) -> None:
        super()._apply(config)
        self.given_loop: asyncio.AbstractEventLoop | None = maybe_ref(config.extra.get("event_loop"))
        self.engine.bus.run_coroutine = self._run_listener

    @property
    def aio(self) -> OffLoop:
        """This scheduler's methods, run on another thread and awaited."""
        return OffLoop(self)

    @_watched
    def start(self, paused: bool = False, *, only_adds: bool = False) -> None:
        """Start on the running event loop, unless another one was given.

        A store that cannot be reached is waited for here, and nothing else happens on the loop meanwhile; ``await
        scheduler.aio.start()`` leaves it free. With ``only_adds`` no loop is needed.

        :raises RuntimeError: if no loop is running and none was given
        """
        if not self.running:
            self._eventloop = self._loop_to_use(needed=not only_adds)
        super().start(paused, only_adds=only_adds)

    def _loop_to_use(self, needed: bool) -> asyncio.AbstractEventLoop | None:
        given = self.given_loop or self._callers_loop
        if given is not None and not given.is_closed():
            return given
        return asyncio.get_running_loop() if needed else running_loop()

    def _shut_down(self, finish: Callable[[], None]) -> Awaitable[None]:
        """Shut down; on the event loop without blocking it, and then the result can be awaited."""
        loop = running_loop()
        if loop is not None and loop is self._eventloop and not self._is_called_from_inside():
            return loop.run_in_executor(None, finish)
        super()._shut_down(finish)
        return _Done()

    def _await_shutdown(self) -> None:
        if running_loop() is not None and not self.engine.stopped.is_set():
            raise RuntimeError("The scheduler is still shutting down; await scheduler.shutdown() before start()")
        super()._await_shutdown()

    def _hint_while_waiting(self) -> str:
        if running_loop() is None:
            return ""
        self._told_of_blocking = True
        return ", and the event loop is blocked meanwhile (it would not be with: await scheduler.aio.start())"

    def _may_block_the_loop(self) -> bool:
        """Tell whether a call that goes to the stores is to be timed."""
        if self._told_of_blocking or self._is_watched or running_loop() is None:
            return False
        return any(store.shared for store in self.engine.known_stores.values())

    def _tell_of_blocking(self, name: str, seconds: float) -> None:
        if seconds > UNNOTICED and not self._told_of_blocking:
            self._told_of_blocking = True
            self._logger.warning(
                "%s() blocked the event loop for %.2f seconds; call it as: await scheduler.aio.%s(...). This holds for "
                "the other methods too; it is logged once",
                name, seconds, name,
            )

    def _create_default_executor(self) -> BaseExecutor:
        return AsyncIOExecutor()

    def _run_listener(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run a coroutine listener on the loop. With sync dispatch it is only started: the loop may wait for us."""
        loop = self._eventloop
        if loop is None or loop.is_closed():
            coroutine.close()
            raise RuntimeError("the event loop is closed; the coroutine listener was not called")
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        return None if self.engine.bus.dispatch == "sync" else future.result()


class _Awaited(Generic[P, R]):
    """A method of the scheduler as :class:`OffLoop` has it: with the same arguments, to be awaited."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self.name = method.__name__
        self.__doc__ = method.__doc__

    def __get__(self, off_loop: OffLoop, owner: object = None) -> Callable[P, Coroutine[Any, Any, R]]:
        return off_loop._on_a_thread(self.name)


class OffLoop:
    """Calls methods of a scheduler on another thread: ``job = await scheduler.aio.add_job(...)``.

    The thread is one of the loop's default executor, and sees the context variables of the caller. When the caller is
    cancelled the call goes on, and what it does is done; only a start that waits is given up.
    """

    def __init__(self, scheduler: AsyncIOScheduler) -> None:
        self._scheduler = scheduler

    async def start(self, paused: bool = False, *, only_adds: bool = False) -> None:
        """Start the scheduler, for the loop that is running here. Cancelled while a store is waited for, give it up."""
        scheduler = self._scheduler
        scheduler._callers_loop = asyncio.get_running_loop()
        try:
            await asyncio.to_thread(scheduler.start, paused, only_adds=only_adds)
        except asyncio.CancelledError:
            if scheduler._starting is not None:
                scheduler._starting.give_up()
            raise

    shutdown = _Awaited(BaseScheduler.shutdown)
    add_executor = _Awaited(BaseScheduler.add_executor)
    remove_executor = _Awaited(BaseScheduler.remove_executor)
    add_jobstore = _Awaited(BaseScheduler.add_jobstore)
    remove_jobstore = _Awaited(BaseScheduler.remove_jobstore)
    add_job = cast("AddJob[Coroutine[Any, Any, Job]]", _Awaited(BaseScheduler.add_job))
    add_jobs = _Awaited(BaseScheduler.add_jobs)
    add_request = _Awaited(BaseScheduler.add_request)
    modify_job = cast("ModifyJob[Coroutine[Any, Any, Job]]", _Awaited(BaseScheduler.modify_job))
    reschedule_job = cast("RescheduleJob[Coroutine[Any, Any, Job]]", _Awaited(BaseScheduler.reschedule_job))
    pause_job = _Awaited(BaseScheduler.pause_job)
    resume_job = _Awaited(BaseScheduler.resume_job)
    get_jobs = _Awaited(BaseScheduler.get_jobs)
    find_jobs = _Awaited(BaseScheduler.find_jobs)
    count_jobs = _Awaited(BaseScheduler.count_jobs)
    job_states = _Awaited(BaseScheduler.job_states)
    pause_jobs = _Awaited(BaseScheduler.pause_jobs)
    resume_jobs = _Awaited(BaseScheduler.resume_jobs)
    remove_jobs = _Awaited(BaseScheduler.remove_jobs)
    run_jobs = _Awaited(BaseScheduler.run_jobs)
    stop_bulk = _Awaited(BaseScheduler.stop_bulk)
    processes = _Awaited(BaseScheduler.processes)
    ask_process = _Awaited(BaseScheduler.ask_process)
    limit_usage = _Awaited(BaseScheduler.limit_usage)
    stats = _Awaited(BaseScheduler.stats)
    get_job = _Awaited(BaseScheduler.get_job)
    remove_job = _Awaited(BaseScheduler.remove_job)
    remove_all_jobs = _Awaited(BaseScheduler.remove_all_jobs)
    job_state = _Awaited(BaseScheduler.job_state)
    why = _Awaited(BaseScheduler.why)
    health = _Awaited(BaseScheduler.health)
    readiness = _Awaited(BaseScheduler.readiness)
    add_calendar = _Awaited(BaseScheduler.add_calendar)
    remove_calendar = _Awaited(BaseScheduler.remove_calendar)
    calendars = _Awaited(BaseScheduler.calendars)
    skip_next = _Awaited(BaseScheduler.skip_next)
    postpone = _Awaited(BaseScheduler.postpone)
    import_ics = _Awaited(BaseScheduler.import_ics)
    add_blackout = _Awaited(BaseScheduler.add_blackout)
    remove_blackout = _Awaited(BaseScheduler.remove_blackout)
    blackouts = _Awaited(BaseScheduler.blackouts)
    backfill = _Awaited(BaseScheduler.backfill)
    cancel_backfill = _Awaited(BaseScheduler.cancel_backfill)
    backfills = _Awaited(BaseScheduler.backfills)
    run_now = _Awaited(BaseScheduler.run_now)
    cancel_run = _Awaited(BaseScheduler.cancel_run)
    runs = _Awaited(BaseScheduler.runs)
    live_runs = _Awaited(BaseScheduler.live_runs)
    dead_letters = _Awaited(BaseScheduler.dead_letters)
    redrive = _Awaited(BaseScheduler.redrive)
    redrive_all = _Awaited(BaseScheduler.redrive_all)
    discard_dead_letter = _Awaited(BaseScheduler.discard_dead_letter)
    sync = _Awaited(BaseScheduler.sync)
    schedule_state = _Awaited(BaseScheduler.schedule_state)
    print_jobs = _Awaited(BaseScheduler.print_jobs)
    export_jobs = _Awaited(BaseScheduler.export_jobs)
    import_jobs = _Awaited(BaseScheduler.import_jobs)

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return any other method in the same manner, one of a subclass for instance."""
        return self._on_a_thread(name)

    def _on_a_thread(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = None if name.startswith("_") else getattr(self._scheduler, name)
        if not callable(method):
            raise AttributeError(f"{name!r} is not a method of the scheduler")
        return partial(asyncio.to_thread, method)


class _Done:
    """An awaitable that is done already."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


# On the event loop's thread the plain forms of the same methods are timed; a shutdown never blocks there.
for _name, _form in list(vars(OffLoop).items()):
    if isinstance(_form, _Awaited) and _name != "shutdown":
        setattr(AsyncIOScheduler, _name, _watched(getattr(AsyncIOScheduler, _name)))
