"""The scheduler of messages: the front that users have.

Claim → publish → delete is what the engine does with any run: a due message is fired, which makes it a run that this
process has; the executor publishes it; the settlement ends the run, or makes it a retry or a dead letter. What a crash
leaves is a run whose owner is lost, which another process publishes again when the lease has lapsed: at least once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from goscheduler.errors import (
    InvalidArgument,
    JobLookupError,
    MessageNotFound,
    MessageNotPending,
    NeverFires,
    SchedulerAlreadyRunningError,
    SchedulerNotRunningError,
    shown,
)
from goscheduler.executors.context import run_in_hand
from goscheduler.executors.pool import positive_int
from goscheduler.jobstores._shared.polling import Poll
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.messages._cancel import CANCEL_TIMEOUT_SECONDS, cancel_message
from goscheduler.messages._executor import DeliveryExecutor
from goscheduler.messages._health import check_health
from goscheduler.messages._listing import MessageSearch
from goscheduler.messages._publishing import Deliveries, Errors, ask, can_batch, publish_all
from goscheduler.messages._recurrence import trigger_of
from goscheduler.messages._request import front_of_request, message_of_request
from goscheduler.messages._settings import (
    BACKOFF,
    MAX_CRASHES,
    MAX_PAYLOAD,
    checked_workers,
    given,
    poll_of,
    refuse_settings,
    retry_of,
)
from goscheduler.messages._shelf import TASK_PREFIX, MessageRepository, delivery_of
from goscheduler.messages.dead import DeadLetterForwarder, DeadLetterQueue, DeadLetterStore
from goscheduler.messages.message import Message, Recurrence, check_size
from goscheduler.messages.views import MessageFilter, MessageList, MessageState, ScheduledMessage
from goscheduler.options import check_name_of
from goscheduler.plugins import create_plugin
from goscheduler.runs.health import Health
from goscheduler.runs.model import Run
from goscheduler.runs.records import Retention
from goscheduler.runs.retry import Backoff
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import STATE_RUNNING, BaseScheduler
from goscheduler.tasks import UnknownTask
from goscheduler.times import convert_to_datetime, parse_duration
from goscheduler.transports.base import Transport
from goscheduler.transports.registry import create_transport

if TYPE_CHECKING:
    from goscheduler.typing import IfExists

# The class has a method named list.
_Ids = list[str]


class MessageScheduler:
    """Delivers messages at their time, at least once, through a transport.

    ``store`` is the URL of a job store, a dict of its options or a store; messages are in memory without one.
    ``transport`` is a URL, a dict, a transport or a function ``(event_name, message)``; who only schedules needs none.
    In place of ``store``, ``scheduler`` may be one of yours, whose store ``jobstore`` is used; you start and stop it.

    Fronts that share a store with the same ``name`` share their messages; each other name is a world of its own.
    """

    def __init__(
        self,
        store: str | Mapping[str, Any] | BaseJobStore | None = None,
        transport: Any = None,
        *,
        scheduler: BaseScheduler | None = None,
        jobstore: str = "default",
        name: str = "messages",
        max_retries: int = 5,
        backoff: Backoff | float | timedelta = BACKOFF,
        jitter: float = 0.1,
        dead_letters: DeadLetterQueue | DeadLetterStore | None = None,
        batch_size: int = 100,
        workers: int = 10,
        max_payload: int = MAX_PAYLOAD,
        stuck_after: float | timedelta | str = 300,
        poll_interval: float | None = None,
        min_poll_interval: float | None = None,
        max_poll_interval: float | None = None,
        lease: float | None = None,
        retention: Retention | Mapping[str, Any] | None = None,
        timezone: tzinfo | str | None = None,
    ) -> None:
        self._name = check_name_of("name", name)
        self._task = f"{TASK_PREFIX}{self._name}"
        self._jobstore = jobstore
        self._max_payload = positive_int("max_payload", max_payload)
        self._stuck_after = parse_duration(stuck_after).total_seconds()
        self._transport = None if transport is None else create_transport(transport)
        self._owns_scheduler = scheduler is None
        polling = {"min_poll_interval": min_poll_interval, "max_poll_interval": max_poll_interval}
        settings = {"poll_interval": poll_interval, "lease": lease, "retention": retention, "timezone": timezone}
        if scheduler is None:
            scheduler = self._own_scheduler(store, polling, settings)
        elif store is not None:
            raise InvalidArgument("Give store or scheduler, not both", field="store")
        elif not isinstance(scheduler, BaseScheduler):
            raise TypeError(f"scheduler must be a scheduler, got {shown(scheduler)}")
        else:
            refuse_settings(settings, "that scheduler has its own settings, make it with these")
            refuse_settings(polling, "only a store that is given here is asked so often")
        self._scheduler = scheduler
        self._executor = DeliveryExecutor(
            self._publish, retry_of(max_retries, backoff, jitter, scheduler.poll_interval), checked_workers(workers),
            positive_int("batch_size", batch_size), can_batch(self._transport),
        )  # fmt: skip
        if self._owns_scheduler:
            scheduler.add_executor(self._executor, self._name)
        scheduler.register(self._task, self._deliver_current)
        scheduler.engine.inbox.readers["message"] = self._requested
        self._shelf = MessageRepository(scheduler, jobstore, self._task, self._name)
        self._undertaker = None if dead_letters is None else DeadLetterForwarder(scheduler, self._shelf, dead_letters)
        self._delivering = False
        self._lock = threading.RLock()
        """Guards start and stop."""

    @property
    def scheduler(self) -> BaseScheduler:
        """The scheduler below: for its listeners, its history and the like."""
        return self._scheduler

    @property
    def transport(self) -> Transport | None:
        return self._transport

    @property
    def running(self) -> bool:
        """Whether messages are delivered here."""
        return self._delivering and self._scheduler.state == STATE_RUNNING

    def start(self) -> None:
        """Deliver from now on. Starts the scheduler, unless it is one of yours.

        :raises InvalidArgument: if there is no transport
        """
        if self._transport is None:
            raise InvalidArgument("transport: a scheduler that delivers needs one", field="transport")
        with self._lock:
            if self._delivering and (self.running or not self._owns_scheduler):
                return
            ask(self._transport, "start")
            try:
                self._begin()
            except BaseException:
                ask(self._transport, "close")
                raise
            self._delivering = True
            if self._undertaker is not None:
                self._undertaker.start()

    def _begin(self) -> None:
        if self._owns_scheduler:
            self._open()
            self._scheduler.resume()
        else:
            self._scheduler.add_executor(self._executor, self._name)

    def stop(self, wait: bool = True, timeout: float | None = None) -> None:
        """Deliver no more. With ``wait``, let what is being published end, for at most ``timeout`` seconds.

        What was claimed and not published goes back to the store. Nothing happens if it is stopped already.
        """
        with self._lock:  # not while workers are waited for: what they publish to may schedule
            delivered, self._delivering = self._delivering, False
        if self._undertaker is not None and delivered:
            self._undertaker.stop(timeout if wait else 0)
        if self._owns_scheduler:
            with suppress(SchedulerNotRunningError):
                self._scheduler.shutdown(wait, timeout)
        elif delivered:
            self._scheduler.remove_executor(self._name)
        if delivered:
            ask(self._transport, "close")

    def __enter__(self) -> MessageScheduler:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def schedule(self, message: Message, *, if_exists: IfExists = "error", connection: Any = None) -> str:
        """Store a message, and return its id. It is delivered by whoever shares the store and has been started.

        ``if_exists`` says what to do about an id that is taken: "error", "replace" or "keep". ``connection`` is one to
        the database of the store, whose transaction the message becomes part of: rolled back, it never was.

        :raises MessageTooLarge: if its payload is beyond the limit
        :raises ConflictingIdError: if the id is taken
        :raises NeverFires: if a recurrence has no time that is left
        """
        self._open()
        definition = self._definition(message)
        return self._scheduler.add_job(**definition, if_exists=if_exists, connection=connection).id

    add = schedule

    def schedule_many(self, messages: Iterable[Message]) -> _Ids:
        """Store several messages, all of them or none, and return their ids. Much quicker than one by one.

        :raises ConflictingIdError: if an id is taken
        """
        self._open()
        return [job.id for job in self._scheduler.add_jobs([self._definition(message) for message in messages])]

    def schedule_after(
        self,
        delay: timedelta | float | str,
        event_name: str,
        payload: Any = b"",
        metadata: Mapping[str, str] | None = None,
        **options: Any,
    ) -> str:
        """Store a message that is due after ``delay``: ``timedelta(hours=1)``, 90, "1h30m". Return its id.

        ``options`` are further fields of a :class:`Message`, and ``connection``.
        """
        connection = options.pop("connection", None)
        due = self._scheduler.clock.now() + parse_duration(delay)
        message = Message(event_name, payload, metadata or {}, due, **options)
        return self.schedule(message, connection=connection)

    def get(self, message_id: str) -> ScheduledMessage:
        """Return a message as it stands.

        :raises MessageNotFound: if it was delivered or cancelled, or never was
        """
        self._open()
        found = self._shelf.find(_checked_id(message_id))
        if found is None:
            raise MessageNotFound(message_id)
        return found

    def list(
        self, wanted: MessageFilter | None = None, *, after: str | None = None, count: bool = True
    ) -> MessageList:
        """Return a page of the messages that fit a filter, up to its limit: the earliest first, dead ones last.

        ``after`` is the ``next`` of the page before. Without ``count`` it is not counted how many there are altogether.
        """
        self._open()
        search = MessageSearch(self._shelf, MessageFilter() if wanted is None else wanted, self._scheduler.clock)
        return search.page(after, count)

    def postpone(self, message_id: str, to: datetime | date | str) -> ScheduledMessage:
        """Give a message that waits another time, and return it. One that recurs goes on from there by its schedule.

        :raises MessageNotFound: if there is none
        :raises MessageNotPending: if it is being delivered, or waits for another attempt
        """
        self._open()
        due = convert_to_datetime(to, self._scheduler.timezone, "to")
        if due is None:
            raise TypeError("to must be a datetime or a text, got None")
        found = self.get(message_id)
        try:
            self._scheduler.modify_job(message_id, self._jobstore, next_run_time=due)
        except JobLookupError:
            raise MessageNotPending(message_id, self.get(message_id).state.value) from None
        return replace(found, scheduled_at=due)

    def cancel(self, message_id: str, timeout: float = CANCEL_TIMEOUT_SECONDS) -> bool:
        """Take a message back. True: it is not delivered from now on, by no process. False: it was too late.

        While some process has the message, this waits to hear from it whether it was published, for at most
        ``timeout`` seconds; without an answer it is False too. One that recurs comes no more; dead letters of it are
        discarded.

        :raises MessageNotFound: if it was delivered or cancelled before, or never was
        """
        self._open()
        return cancel_message(self._scheduler, self._shelf, self._jobstore, _checked_id(message_id), timeout)

    def dead_letters(
        self, event_name: str | None = None, limit: int = 100, *, after: str | None = None
    ) -> MessageList:
        """Return messages whose last attempt failed, up to ``limit``: those that died last come first."""
        return self.list(MessageFilter(event_name, states=frozenset({MessageState.DEAD}), limit=limit), after=after)

    def redrive(self, message_id: str) -> int:
        """Give the dead letters of a message another attempt, and return how many there were.

        :raises MessageNotFound: if there is none
        """
        return self._for_each_letter(_checked_id(message_id), self._scheduler.redrive)

    def discard(self, message_id: str) -> int:
        """Forget the dead letters of a message, and return how many there were.

        :raises MessageNotFound: if there is none
        """
        return self._for_each_letter(_checked_id(message_id), self._scheduler.discard_dead_letter)

    def redrive_all(self, event_name: str | None = None) -> int:
        """Give all dead letters, or those of one event name, another attempt, and return how many there were."""
        self._open()
        count = 0
        for letter in self._shelf.letters(tag=event_name):
            self._scheduler.redrive(letter.run.id)
            count += 1
        return count

    def health(self, count: bool = True) -> Health:
        """Return how the messages fare: does the store answer, is anything stuck, can the transport take messages.

        To count those that wait takes as long as there are many; without ``count``, ``pending`` is None.
        """
        details = {"name": self._name, "delivering": self.running}
        return check_health(self._scheduler, self._shelf, self._transport, self._stuck_after, count, details)

    def _open(self) -> None:
        """Make the store usable: a scheduler of our own is started, but fires nothing before :meth:`start`."""
        if not self._owns_scheduler or self._scheduler.running:
            return
        with self._lock:
            try:
                if not self._scheduler.running:
                    self._scheduler.start(paused=True)
            except SchedulerAlreadyRunningError:
                raise SchedulerNotRunningError from None  # asked from inside a delivery while it is being stopped

    def _own_scheduler(self, store: Any, polling: Mapping[str, Any], settings: Mapping[str, Any]) -> BaseScheduler:
        if self._jobstore != "default":
            raise InvalidArgument("jobstore names a store of the scheduler that you give", field="jobstore")
        poll = poll_of(**given(polling))
        stores = {} if store is None else {"default": create_plugin("jobstore", "default", store)}
        for instance in stores.values():
            if isinstance(getattr(instance, "_poll", None), Poll):
                instance._poll = poll
        return BackgroundScheduler(jobstores=stores, **{"retention": _RETENTION, **given(settings)})

    def _definition(self, message: Message) -> dict[str, Any]:
        """Return what ``add_job`` takes for a message."""
        if not isinstance(message, Message):
            raise TypeError(f"message must be a Message, got {shown(message)}")
        check_size(message, self._max_payload)
        now, zone = self._scheduler.clock.now(), self._scheduler.timezone
        first = convert_to_datetime(message.scheduled_at, zone, "scheduled_at") or now
        recurrence = message.recurrence
        by_crontab = recurrence is not None and recurrence.cron is not None
        trigger = trigger_of(recurrence, max(first, now) if by_crontab else first, zone)
        due = trigger.get_next_fire_time(None, now) if by_crontab else first
        if due is None:
            raise NeverFires(f"cron: {trigger} has no time that is left", field="cron", value=trigger)
        return {
            "func": self._task, "trigger": trigger, "next_run_time": due, "id": message.id, "name": message.event_name,
            "args": (message.payload, message.content_type, dict(message.metadata)), "jobstore": self._jobstore,
            "tags": (self._name, message.event_name), "executor": self._name,
            **(_OPTIONS if recurrence is None else _RECURRING), "coalesce": not _catches_up(recurrence),
        }  # fmt: skip

    def _requested(self, fields: Any, announced: Collection[str]) -> Mapping[str, Any]:
        """Return the arguments of the job of a message that a program without Python asks for."""
        message = message_of_request(fields)
        via = front_of_request(fields, self._name, announced)
        definition = self._definition(message)
        del definition["jobstore"]  # it is that of the inbox
        task = UnknownTask(f"{TASK_PREFIX}{via}")
        return {**definition, "func": task, "executor": via, "tags": (via, message.event_name)}

    def _publish(self, runs: Sequence[Run]) -> Sequence[Exception | None]:
        """Publish the messages of runs, and return for each None or why it failed."""
        deliveries: Deliveries = []
        errors: Errors = []
        for run in runs:
            try:
                deliveries.append(delivery_of(run))
                errors.append(None)
            except Exception as error:
                errors.append(error)
        answers = iter(publish_all(self._transport, deliveries))
        return [next(answers) if error is None else error for error in errors]

    def _deliver_current(self, payload: bytes, content_type: str, metadata: Mapping[str, str]) -> None:
        """Be the task: deliver one message, where another executor than our own has been put in its place."""
        for error in self._publish([run_in_hand()]):
            if error is not None:
                raise error

    def _for_each_letter(self, message_id: str, act: Callable[[str], None]) -> int:
        self._open()
        ids = [letter.run.id for letter in self._shelf.letters(message_id)]
        for run_id in ids:
            act(run_id)
        if not ids:
            raise MessageNotFound(message_id)
        return len(ids)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} ({'delivering' if self.running else 'not delivering'})>"


#: What every message has in common, whatever the defaults of the scheduler are. The retry policy is not part of it:
#: that of the process counts which delivers, and a message that is read is cheaper by half without it.
_OPTIONS = {
    "misfire_grace_time": None, "max_instances": 1, "overlap": "skip", "retry": None, "dead_letter": True,
    "timeout": None, "priority": 5, "limits": (), "on_crash": "rerun", "max_crashes": MAX_CRASHES,
    "auto_remove": True, "description": "",
}  # fmt: skip
#: One occurrence does not wait for another that is slow.
_RECURRING = {**_OPTIONS, "overlap": "allow"}

#: Records of messages that were delivered are many, and few want them.
_RETENTION = Retention(succeeded=timedelta(days=1))


def _catches_up(recurrence: Recurrence | None) -> bool:
    return recurrence is not None and recurrence.catch_up


def _checked_id(message_id: object) -> str:
    if not isinstance(message_id, str):
        raise TypeError(f"message_id must be a string, got {shown(message_id)}")
    return message_id
