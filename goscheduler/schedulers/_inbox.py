"""What programs without Python ask for, from the inbox of a store or from an operator: read, and made jobs.

Who drains the inbox reads each request under the rules of :mod:`goscheduler.runs.inbox`; the store writes the job and
takes the request out in one step. Fronts, such as the scheduler of messages, register a reader of requests of their
own. A process without it leaves the inbox to those that have it, as long as one of them lives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.errors import GoSchedulerError, InvalidArgument, survivable
from goscheduler.job import Job
from goscheduler.jobstores.reading import StoreReads
from goscheduler.runs.inbox import (
    OWN_TASKS,
    RequestedJob,
    check_fields,
    read_request,
    refuse_unknown,
    requested_by,
    requested_job,
)
from goscheduler.schedulers._pending_jobs import AddRequest
from goscheduler.schedulers._requested_trigger import trigger_of
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.date import DateTrigger

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.queries import InboxEntry
    from goscheduler.schedulers._engine import Engine

#: So many requests are read in one go.
PORTION = 100
#: Who adds a job, if the request does not say so.
INBOX = "inbox"

#: Makes the arguments of a job of a front's request, given the names of the tasks that are announced.
RequestReader = Callable[[Mapping[str, Any], Collection[str]], Mapping[str, Any]]


class Inbox:
    """Makes the jobs of one scheduler that are asked for by requests."""

    def __init__(self, engine: Engine, host: Any) -> None:
        self._engine = engine
        self._host = host
        self.readers: dict[str, RequestReader] = {}
        """Field of a request → who reads what it has, where it is no job: ``{"message": {...}}``."""

    def addition(
        self, fields: Mapping[str, Any], jobstore: str, by: str | None = None, unless_said: str | None = None
    ) -> AddRequest:
        """Return what a request asks for. The job is added ``by`` somebody, or by whom the request says so.

        :raises InvalidArgument: naming the field that makes no sense
        """
        return self._addition(check_fields(fields), jobstore, self._announced(jobstore), by, unless_said)

    def drain(self, alias: str, store: BaseJobStore) -> bool:
        """Add what is asked for in the inbox of a store; true if there may be more."""
        announced = self._announced(alias)
        if not self.readers and any(name.startswith(OWN_TASKS) for name in announced):
            return False

        def read(entry: InboxEntry) -> Job:
            fields = read_request(entry.request)
            addition = self._addition(fields, alias, announced, None, INBOX)
            self._engine.jobs.complete(addition)
            return addition.job

        drained = store.drain_inbox(PORTION, read)
        for job in drained.jobs:
            self._engine.jobs.announce(job, alias)
        for entry_id, reason in drained.refused.items():
            self._engine.logger.warning('Request %s in job store "%s" is refused: %s', entry_id, alias, reason)
        return drained.more

    def _announced(self, alias: str) -> set[str]:
        """Return the names of the tasks that this process has, unless it observes, or others that share a store."""
        engine = self._engine
        ours = () if engine.observing else engine.tasks.names()
        store = engine.stores.get(alias) if self._host.running else None
        others = store.owners(engine.clock.now()) if store is not None and store.shared else ()
        return {*ours, *(name for owner in others for name in owner.tasks)}

    def _addition(
        self, fields: Mapping[str, Any], jobstore: str, announced: Collection[str], by: str | None,
        unless_said: str | None,
    ) -> AddRequest:  # fmt: skip
        try:
            requested = self._requested(fields, announced)
            definition = {name: value for name, value in requested.definition.items() if value is not None}
            definition["trigger"] = self._trigger(requested.definition["trigger"])
            job = Job(self._host, definition.pop("id", None), **definition)
        except InvalidArgument:
            raise
        except (GoSchedulerError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise InvalidArgument(f"request: {error}", field="request") from error
        job.stats = job.stats._replace(created_by=by or requested.by or unless_said)
        return AddRequest(job, jobstore, "error", time_given=hasattr(job, "next_run_time"))

    def _requested(self, fields: Mapping[str, Any], announced: Collection[str]) -> RequestedJob:
        for name, read in self.readers.items():
            if name in fields:
                refuse_unknown(fields, (name, "by"), f"a {name}")
                return RequestedJob(read(fields[name], announced), requested_by(fields))
        return requested_job(fields, announced, self._host.timezone, self._engine.clock.now())

    def _trigger(self, given: Any) -> BaseTrigger:
        if isinstance(given, BaseTrigger):
            return given
        if given is None or isinstance(given, datetime):
            return DateTrigger(given, self._host.timezone)
        return trigger_of(given, self._host.timezone)


def drain_inboxes(engine: Engine) -> bool:
    """Add what is asked for in the inbox of each shared store that answers; true if there may be more."""
    more = False
    for alias, store in engine.stores.items():
        has_inbox = type(store).drain_inbox is not StoreReads.drain_inbox
        if not store.shared or not has_inbox or alias in engine.outages:
            continue
        try:
            more = engine.inbox.drain(alias, store) or more
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.warning('Job store "%s" could not tell what is asked for: %s', alias, error, exc_info=error)
    return more
