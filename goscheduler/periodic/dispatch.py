"""Firings that are handed to a queue in place of being run here.

A dispatcher is a function of one :class:`Dispatch`, plain or coroutine. When it returns, the firing is the queue's
business; what it raises is the error of an attempt, which is recorded and tried again soon.

A firing that waits for another attempt is called off when a newer one of its schedule is handed over: that one stands
for it, unless the schedule has ``coalesce=False``. So a queue that was away gets one task of each schedule.

The id of the run goes along as the id of the task, the same on every attempt. After a crash between handing over and
noting that, the firing is handed over again: RQ drops the second one, other queues deliver both under one id.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.errors import shown
from goscheduler.executors.context import current_run, run_in_hand
from goscheduler.periodic._schedule import NORMAL
from goscheduler.runs.model import OutcomeKind, Source
from goscheduler.runs.retry import Retry, exponential
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from dramatiq import Broker, Message
    from rq import Queue

    from goscheduler.runs.model import Run
    from goscheduler.schedulers.base import BaseScheduler

#: How a firing that could not be handed over is tried again: soon at first, for some eight hours in all, and then it
#: is kept among the dead letters.
PERSISTENT = Retry(max_attempts=100, backoff=exponential(1, factor=2, cap=300), jitter=0.1)
#: How the names of the tasks begin that every Celery application has.
_BUILT_IN = "celery."
#: Why a firing is called off.
STOOD_FOR = "a newer firing of its schedule stands for it"
#: The sources of firings that could not be handed over; nobody has asked for these by hand.
_ATTEMPTED = (Source.RETRY, Source.RECOVERED)


@dataclass(frozen=True)
class Dispatch:
    """One firing on its way to a queue."""

    schedule_id: str
    job: str
    """The name of the task in the queue."""
    payload: Mapping[str, Any] = field(repr=False)
    """Its keyword arguments."""
    priority: int
    """From 0, the most urgent, to 9; 5 is normal."""
    task_id: str
    """The same on every attempt to hand over this firing, and no other."""
    scheduled_at: datetime
    """The fire time."""
    attempt: int
    """1 for the first attempt to hand it over."""

    @property
    def facts(self) -> dict[str, str]:
        """Where the task came from, for headers and the like."""
        return {"schedule_id": self.schedule_id, "scheduled_at": self.scheduled_at.isoformat(), "trigger_type": "cron"}


Dispatcher = Callable[[Dispatch], Any]


def check_dispatcher(dispatcher: object) -> None:
    """Raise TypeError for what cannot be called with a firing."""
    if not callable(dispatcher):
        raise TypeError(
            "dispatch must be a CeleryDispatch, an RQDispatch, a DramatiqDispatch or a function of one Dispatch, "
            f"got {shown(dispatcher)}"
        )


def dispatching_task(dispatcher: Dispatcher, scheduler: BaseScheduler) -> Callable[..., Any]:
    """Return the task that hands the firing which it is run for to a dispatcher."""

    def hand_over(job: str, payload: Mapping[str, Any], priority: int) -> None:
        if _may_have_gathered(run := run_in_hand()):
            call_off_older(scheduler, run)
        dispatcher(_current(job, payload, priority))

    async def hand_over_async(job: str, payload: Mapping[str, Any], priority: int) -> None:
        if _may_have_gathered(run := run_in_hand()):
            await asyncio.to_thread(call_off_older, scheduler, run)
        handed: Awaitable[Any] = dispatcher(_current(job, payload, priority))
        await handed

    asynchronous = inspect.iscoroutinefunction(dispatcher) or inspect.iscoroutinefunction(
        getattr(dispatcher, "__call__", None)  # noqa: B004 - an object whose __call__ is a coroutine function
    )
    return hand_over_async if asynchronous else hand_over


def _may_have_gathered(run: Run) -> bool:
    """Tell whether older firings may wait; where all goes well no store is asked for any."""
    troubled = run.attempt > 1 or run.job.stats.last_outcome not in (None, OutcomeKind.SUCCEEDED)
    return troubled and bool(run.job.coalesce)


def call_off_older(scheduler: BaseScheduler, run: Run) -> None:
    """Call off the firings of a schedule that wait for another attempt and are older than ``run``."""
    store = scheduler.engine.jobs.store(run.job._jobstore_alias or "default")
    for older in store.pending_runs(run.job.id):
        if older.source in _ATTEMPTED and to_micros(older.scheduled_at) < to_micros(run.scheduled_at):
            scheduler.cancel_run(older.id, STOOD_FOR)


def _current(job: str, payload: Mapping[str, Any], priority: int) -> Dispatch:
    run = current_run()
    return Dispatch(run.job_id, job, deepcopy(dict(payload)), priority, run.run_id, run.scheduled_at, run.attempt)


def doubt_about(dispatcher: Dispatcher, job: str) -> str | None:
    """Return why a task may be unknown to the queue; None if it is known, or nothing is known of the queue's tasks.

    A program that hands tasks over need not have them: it is told, not refused.
    """
    known: Collection[str] = getattr(dispatcher, "known_tasks", tuple)()
    if not known or job in known:
        return None
    near = difflib.get_close_matches(job, known, n=1)
    hint = f"; did you mean {shown(near[0])}?" if near else ""
    return f"{dispatcher!r} has no task {shown(job)} in this process{hint}"


class CeleryDispatch:
    """Sends tasks by name to the broker of a Celery application, by its own routes and options.

    A priority other than the normal one goes along, turned round for AMQP, where a higher number is more urgent.
    """

    def __init__(self, app: Any, **options: Any) -> None:
        if not callable(getattr(app, "send_task", None)):
            raise TypeError(f"app must be a Celery application, got {shown(app)}")
        self._app = app
        self._options = options

    def __call__(self, dispatch: Dispatch) -> None:
        """Send one task; ``options`` of the constructor go to ``send_task`` as they are."""
        options = {**self._priority(dispatch), **self._options}
        headers = {**dispatch.facts, **(options.pop("headers", None) or {})}
        # Not part of whatever task this may be called from: the firing stands for itself.
        self._app.send_task(
            dispatch.job, kwargs=dict(dispatch.payload), task_id=dispatch.task_id, headers=headers, add_to_parent=False,
            **options,
        )  # fmt: skip

    def known_tasks(self) -> Collection[str]:
        """Return the names of the tasks that the application has here; none if they are only declared elsewhere."""
        may_ask = getattr(self._app, "finalized", False) or getattr(self._app, "autofinalize", False)
        return [name for name in (self._app.tasks if may_ask else ()) if not name.startswith(_BUILT_IN)]

    def _priority(self, dispatch: Dispatch) -> dict[str, int]:
        if dispatch.priority == NORMAL:
            return {}
        with self._app.connection_for_write() as connection:
            upwards = connection.transport.driver_type == "amqp"
        return {"priority": 9 - dispatch.priority if upwards else dispatch.priority}

    def __repr__(self) -> str:
        return f"<CeleryDispatch ({getattr(self._app, 'main', None)!r})>"


class RQDispatch:
    """Enqueues jobs by ``module.function`` in a queue of RQ, given as such or as a Redis connection and a name.

    What is more urgent than normal goes to the front. A firing that RQ knows already is not enqueued again.
    """

    def __init__(self, queue: Queue | Any, name: str = "default", **options: Any) -> None:
        rq = _require_rq()
        if not isinstance(queue, rq.Queue) and not hasattr(queue, "pipeline"):
            raise TypeError(f"queue must be an rq.Queue or a Redis connection, got {shown(type(queue))}")
        self._queue: Queue = queue if isinstance(queue, rq.Queue) else rq.Queue(name, connection=queue)
        self._options = options

    def __call__(self, dispatch: Dispatch) -> None:
        """Enqueue one job; ``options`` of the constructor go to ``enqueue_call`` as they are."""
        from rq.exceptions import DuplicateJobError

        urgent = dispatch.priority < NORMAL
        options = {"at_front": urgent, "description": dispatch.schedule_id, "meta": dispatch.facts, **self._options}
        try:
            self._queue.enqueue_call(
                dispatch.job, kwargs=dict(dispatch.payload), job_id=dispatch.task_id, unique=True, **options
            )
        except DuplicateJobError:
            return  # an earlier attempt at this firing got through, and could not say so

    def __repr__(self) -> str:
        return f"<RQDispatch ({self._queue.name!r})>"


class DramatiqDispatch:
    """Sends messages by actor name through a broker of Dramatiq, by default the global one.

    An actor that is declared here is sent to its own queue, with its options; others to ``queue``.
    """

    def __init__(self, broker: Broker | None = None, queue: str = "default", **options: Any) -> None:
        dramatiq = _require_dramatiq()
        if broker is not None and not isinstance(broker, dramatiq.Broker):
            raise TypeError(f"broker must be a Broker of Dramatiq, got {shown(type(broker))}")
        self._broker: Broker = dramatiq.get_broker() if broker is None else broker
        self._queue = queue
        self._options = options

    def __call__(self, dispatch: Dispatch) -> None:
        """Send one message; ``options`` of the constructor become options of the message."""
        message = self._message(dispatch)
        self._broker.declare_queue(message.queue_name)
        self._broker.enqueue(message)

    def known_tasks(self) -> Collection[str]:
        """Return the names of the actors that are declared here; none if they are only declared elsewhere."""
        return self._broker.get_declared_actors()

    def _message(self, dispatch: Dispatch) -> Message[Any]:
        from dramatiq import Message
        from dramatiq.errors import ActorNotFound

        options = {**dispatch.facts, **self._options}
        try:
            actor = self._broker.get_actor(dispatch.job)
        except ActorNotFound:
            return Message(
                self._queue, dispatch.job, (), dict(dispatch.payload), options, message_id=dispatch.task_id
            )
        message = actor.message_with_options(kwargs=dict(dispatch.payload), **options)
        return message.copy(message_id=dispatch.task_id)

    def __repr__(self) -> str:
        return f"<DramatiqDispatch ({type(self._broker).__name__})>"


def _require_rq() -> Any:
    try:
        import rq
    except ImportError as error:
        raise ImportError('RQDispatch needs RQ: pip install "goscheduler[rq]"') from error
    return rq


def _require_dramatiq() -> Any:
    try:
        import dramatiq
    except ImportError as error:
        raise ImportError('DramatiqDispatch needs Dramatiq: pip install "goscheduler[dramatiq]"') from error
    return dramatiq
