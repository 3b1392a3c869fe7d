"""Messages as jobs and runs, and back.

A message is a job of the task of its front. Its name is the event name; its arguments are payload, content type and
metadata. While it waits it is a job; from when it is due it is a run, and the job is gone unless it recurs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from goscheduler.errors import MessageRejected, described
from goscheduler.executors._failures import RemoteError
from goscheduler.messages._recurrence import occurrence_of
from goscheduler.messages.views import MessageState, ScheduledMessage
from goscheduler.runs.queries import MOST_LETTERS, Count, JobPage, JobQuery
from goscheduler.runs.records import HistoryQuery
from goscheduler.schedulers._job_lists import JobLists
from goscheduler.times import to_micros
from goscheduler.transports.base import Delivery
from goscheduler.triggers.date import DateTrigger

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import DeadLetter, Run
    from goscheduler.runs.records import Record
    from goscheduler.schedulers.base import BaseScheduler

#: How many dead letters are read at once.
PAGE = 100
#: What tells of the span in which something was begun, as the W3C has it.
TRACE_CONTEXT = ("traceparent", "tracestate")
#: What the name of a front's task begins with; the name of the front follows.
TASK_PREFIX = "goscheduler."


class MessageBody:
    """The message in the arguments of a job."""

    __slots__ = ("content_type", "metadata", "payload")

    def __init__(self, payload: bytes, content_type: str, metadata: Mapping[str, str]) -> None:
        self.payload = payload
        self.content_type = content_type
        self.metadata = MappingProxyType(metadata)

    @classmethod
    def of(cls, job: Job) -> MessageBody:
        """Return what a job holds.

        :raises MessageRejected: if that is no message
        """
        try:
            payload, content_type, metadata = job.args
            return cls(payload, content_type, metadata)
        except (TypeError, ValueError) as error:
            raise MessageRejected(f"the job {job.id} holds no message: {described(error)}") from error


def delivery_of(run: Run) -> Delivery:
    """Return what a transport gets for a run.

    :raises MessageRejected: if the run is of no message
    """
    job, contents = run.job, MessageBody.of(run.job)
    metadata = contents.metadata
    if job.options.metadata:  # where it was scheduled, if that is traced: receivers go on from there
        carried = {name: text for name, text in job.metadata.items() if name in TRACE_CONTEXT}
        metadata = MappingProxyType({**carried, **metadata})
    return Delivery(
        job.id, job.name, contents.payload, contents.content_type, run.scheduled_at, metadata, run.attempt,
        occurrence_of(job.trigger, run.scheduled_at),
    )  # fmt: skip


class MessageRepository:
    """The messages of one front in one store."""

    def __init__(self, scheduler: BaseScheduler, jobstore: str, task: str, tag: str) -> None:
        self._scheduler = scheduler
        self._jobstore = jobstore
        self.task = task
        self.tag = tag

    @property
    def store(self) -> BaseJobStore:
        """The store itself, for what schedulers do not ask of theirs."""
        return self._scheduler.engine.stores[self._jobstore]

    def find_jobs(self, query: JobQuery) -> JobPage:
        """Return a page of jobs, also of a scheduler that was not started."""
        return JobLists(self._scheduler.engine).find(query, self._jobstore)

    def count_jobs(self, query: JobQuery, cap: int) -> Count:
        """Count jobs, at most ``cap`` of them."""
        return JobLists(self._scheduler.engine).count(query, cap, self._jobstore)

    def count_letters(self, tag: str) -> Count:
        """Count the newest dead letters of one event name, or of this front."""
        if not self._scheduler.running:
            return Count(0)
        groups = self.store.letter_groups(HistoryQuery(tag=tag, limit=MOST_LETTERS))
        ours = sum(group.size for group in groups if group.task == self.task)
        return Count(ours, sum(group.size for group in groups) < MOST_LETTERS)

    def find(self, message_id: str) -> ScheduledMessage | None:
        """Return a message, or None. Asked in the order in which a message moves, so that none is overlooked."""
        job = self._scheduler.get_job(message_id, self._jobstore)
        if job is not None and self.is_ours(job):
            return as_waiting(job)
        runs = [*self.runs(message_id)]
        if runs:
            return self.under_way(runs[0], last_error=self._last_error(runs[0]))
        return next((as_dead(letter) for letter in self.letters(message_id)), None)

    def live(self, message_id: str) -> list[Run]:
        """Return the runs of a message that a process has."""
        return self._ours(self.store.live_runs(message_id))

    def pending(self, message_id: str) -> list[Run]:
        """Return the runs of a message that nobody has."""
        return self._ours(self.store.pending_runs(message_id))

    def records(self, message_id: str) -> list[Record]:
        """Return what the history tells of the last attempts."""
        return self._scheduler.runs(message_id, self._jobstore, limit=PAGE)

    def letters(
        self, message_id: str | None = None, tag: str | None = None, before: DeadLetter | str | None = None
    ) -> Iterator[DeadLetter]:
        """Yield dead letters, newest first: of one message, of one event name, or all; those older than ``before``."""
        while self._scheduler.running:
            page = self._scheduler.dead_letters(
                message_id, self._jobstore, PAGE, tag=tag or self.tag, before=before
            )
            yield from (letter for letter in page if self.is_ours(letter.run.job))
            if len(page) < PAGE:
                return
            before = page[-1]

    def count(self) -> int:
        """Return how many messages wait for their time."""
        return self.store.count_waiting(self.task)

    def count_stuck(self, limit: int) -> int:
        """Return how many messages processes have that were due before a moment."""
        return sum(to_micros(run.due_at) < limit for run in self._ours(self.store.live_runs()))

    def runs(self, message_id: str | None = None) -> Iterator[Run]:
        """Yield the runs of one message, or of all."""
        if self._scheduler.running:
            yield from self._ours(self.store.live_runs(message_id))
            yield from self._ours(self.store.pending_runs(message_id))

    def _ours(self, runs: Sequence[Run]) -> list[Run]:
        return [run for run in runs if self.is_ours(run.job)]

    def is_ours(self, job: Job) -> bool:
        """Tell whether a job is a message; somebody may have made another one of the same task by hand."""
        return job.task == self.task and len(job.args) == len(MessageBody.__slots__)

    def _last_error(self, run: Run) -> str | None:
        if run.attempt == 1:
            return None
        return next((str(_error_of(record)) for record in self.records(run.job.id) if record.run_id == run.id), None)

    def under_way(self, run: Run, last_error: str | None = None) -> ScheduledMessage:
        """Return a run as its message."""
        delivering = run.owner is not None or run.attempt == 1
        attempts = run.attempt if run.owner is not None else run.attempt - 1
        state = MessageState.DELIVERING if delivering else MessageState.RETRYING
        return _view(run.job, run.scheduled_at, state, attempts, last_error)


def as_waiting(job: Job) -> ScheduledMessage:
    """Return a job as its message."""
    return _view(job, job.next_run_time, MessageState.PENDING, 0, job.stats.last_error)


def as_dead(letter: DeadLetter) -> ScheduledMessage:
    """Return a dead letter as its message."""
    run, error = letter.run, _error_of(letter.record)
    message = _view(run.job, run.scheduled_at, MessageState.DEAD, run.attempt, str(error))
    return replace(message, exception=error)


def _view(job: Job, due: datetime | None, state: MessageState, attempts: int, error: str | None) -> ScheduledMessage:
    contents = MessageBody.of(job)
    recurring = not isinstance(job.trigger, DateTrigger)
    return ScheduledMessage(
        job.id, job.name, contents.payload, contents.content_type, contents.metadata, due, state, attempts, error,
        recurring, (job.task or "").removeprefix(TASK_PREFIX), created_at=job.created_at, trigger=job.trigger,
    )  # fmt: skip


def _error_of(record: Record) -> RemoteError:
    """Return what stands for the exception of an attempt, or for what else has ended it."""
    return RemoteError(record.error_type or record.outcome.value, record.error_message or record.reason)
