"""How jobs, runs and the history are written down by stores that keep them outside of this process.

A **job text** holds what defines a job; what changes at every firing (its next time, its life) stands beside it, in
fields of its own. A **run text** holds a run and the text of its job, so that a run outlives its job. A **history text**
holds a record. Moments are whole microseconds since 1970, with the name of their zone where that matters.

What cannot be read is kept: a job with an unreadable text is still found, as a job that is suspended with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from goscheduler import codec
from goscheduler.codec import CodecError
from goscheduler.errors import GoSchedulerError, TransientJobError, described
from goscheduler.job import Job
from goscheduler.options import DEFAULTS, OPTION_NAMES, JobOptions, parse_options
from goscheduler.runs.model import NEWBORN, JobLife, OutcomeKind, Run, Source, make
from goscheduler.runs.records import Record
from goscheduler.serializers import JSONSerializer, Serializer
from goscheduler.tasks import MissingFunction, Target, restore
from goscheduler.times import UTC, from_instant, instant
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.date import DateTrigger

if TYPE_CHECKING:
    from goscheduler.job import JobHost

SCHEMA = 1


class UnreadableJob(GoSchedulerError):
    """A job that cannot be read cannot be changed either; it can be removed, and it is kept until then."""


class Records:
    """Writes and reads for one store."""

    def __init__(self, host: JobHost, alias: str, serializer: Serializer | None = None) -> None:
        self._host = host
        self._alias = alias
        self._serializer = JSONSerializer() if serializer is None else serializer

    # Jobs

    def job_text(self, job: Job) -> str:
        """Return what defines a job, as text.

        :raises InvalidArgument: naming the argument that cannot be stored
        :raises TransientJobError: if its function cannot be found again
        :raises UnreadableJob: if it was never read
        """
        if isinstance(job.func, MissingFunction) and job.func.unreadable:
            raise UnreadableJob(f"Job {job.id!r} cannot be changed, because it cannot be read: {job.func.reason}")
        if job.func_ref is None:
            raise TransientJobError(job.id, f"its callable ({job.func!r}) cannot be found again by name")
        definition = {
            "schema": SCHEMA,
            "func": job.func_ref,
            "name": job.name,
            "args": list(job.stored_args),
            "kwargs": job.kwargs,
            "trigger": job.trigger,
            "options": _differing(job.options),
        }
        return self._serializer.dumps(definition, f"job {job.id}")

    def job(
        self,
        job_id: str,
        text: str,
        next_run_time: datetime | None,
        life: JobLife = NEWBORN,
        suspended: str | None = None,
    ) -> Job:
        """Return a job; one that cannot be read is suspended."""
        job = Job.__new__(Job)
        job._scheduler, job._jobstore_alias, job._waits_for = self._host, self._alias, None
        job.id, job.next_run_time, job.life, job.suspended = job_id, next_run_time, life, suspended
        try:
            self._define(job, self._serializer.loads(text, f"job {job_id}"))
        except Exception as error:
            _define_unreadable(job, f"its record cannot be read: {described(error)}")
        return job

    def _define(self, job: Job, definition: Any) -> None:
        if not isinstance(definition, Mapping) or not 1 <= definition["schema"] <= SCHEMA:
            raise CodecError("it was written by a newer version, or is no job at all")
        trigger = definition["trigger"]
        if not isinstance(trigger, BaseTrigger):
            raise CodecError("it has no trigger")
        job.trigger = trigger
        job.name = str(definition["name"])
        job.args, job.kwargs = tuple(definition["args"]), dict(definition["kwargs"])
        job.options = _options(definition["options"])
        job.func, job.func_ref, job.task = self._function(str(definition["func"]))

    def _function(self, ref: str) -> Target:
        """Return what a job runs; something that says why, where that cannot be found."""
        tasks = self._host._tasks
        if ":" in ref and tasks.registered_only:
            return Target(MissingFunction(ref, "only registered tasks are run here"), ref, None)
        try:
            return restore(ref)
        except Exception as error:
            return Target(MissingFunction(ref, described(error)), ref, None)

    # Runs

    def run_text(self, run: Run, job_text: str | None = None) -> str:
        """Return a run as text; ``job_text`` where that is known already. Owner and fence stand beside it."""
        job = run.job
        return json.dumps([
            SCHEMA, job.id, self.job_text(job) if job_text is None else job_text,
            *_moment(run.scheduled_at), *_moment(run.due_at), run.attempt, run.source.value, run.coalesced, run.crashes,
        ], separators=(",", ":"))  # fmt: skip

    def run(self, run_id: str, text: str, owner: str | None, fence: int, due: int | None = None) -> Run:
        """Return a run. Its job, as it was when it fired, may be one that cannot be read.

        :raises CodecError: if the text is no run
        """
        try:
            schema, job_id, job_text, at, zone, due_us, due_zone, attempt, source, coalesced, crashes = json.loads(text)
            if not 1 <= schema <= SCHEMA:
                raise CodecError("it was written by a newer version")
            scheduled_at = from_instant(at, read_zone(zone))
            job = self.job(job_id, job_text, None)
            due_at = from_instant(due_us if due is None else due, read_zone(due_zone))
            return make(
                Run, (run_id, job, scheduled_at, due_at, owner, fence, attempt, Source(source), coalesced, crashes)
            )
        except CodecError:
            raise
        except Exception as error:
            raise CodecError(f"Run {run_id} cannot be read: {described(error)}") from error


def history_text(record: Record) -> str:
    """Return a record as text."""
    values: list[Any] = list(record)
    for index in _MOMENTS:
        values[index] = None if values[index] is None else instant(values[index])
    return json.dumps([SCHEMA, *values], separators=(",", ":"))


def history_record(text: str) -> Record:
    """Return the record that :func:`history_text` wrote.

    :raises CodecError: if the text is anything else
    """
    try:
        _, *values = json.loads(text)
        for index in _MOMENTS:
            values[index] = None if values[index] is None else from_instant(values[index], UTC)
        record = Record(*values)
        return record._replace(
            tags=tuple(record.tags), source=Source(record.source), outcome=OutcomeKind(record.outcome)
        )
    except Exception as error:
        raise CodecError(f"A record of the history cannot be read: {described(error)}") from error


_MOMENTS = [Record._fields.index(name) for name in ("scheduled_at", "started_at", "finished_at")]


def _moment(moment: datetime) -> tuple[int, str]:
    return instant(moment), zone_text(moment.tzinfo)


def zone_text(zone: tzinfo | None) -> str:
    """Return the name of a zone; a zone without one is written as UTC."""
    return "Z" if zone is UTC or zone is None else _zone_text(zone)


@lru_cache(maxsize=512)
def _zone_text(zone: tzinfo) -> str:
    return codec.zone_text(zone)


@lru_cache(maxsize=512)
def read_zone(text: str) -> tzinfo:
    """Return the zone of a name."""
    return codec.read_zone(text)


@lru_cache(maxsize=1024)
def _differing(options: JobOptions) -> dict[str, Any]:
    """Return the options that differ from the defaults; the others may change with a new version."""
    return {name: getattr(options, name) for name in OPTION_NAMES if getattr(options, name) != getattr(DEFAULTS, name)}


def _options(stored: Mapping[str, Any]) -> JobOptions:
    return parse_options(stored) if stored else DEFAULTS


def _define_unreadable(job: Job, reason: str) -> None:
    job.func, job.func_ref, job.task = MissingFunction(job.id, reason, unreadable=True), None, None
    job.trigger = DateTrigger(job.next_run_time or datetime(1970, 1, 1, tzinfo=UTC))
    job.name, job.args, job.kwargs, job.options = job.id, (), {}, DEFAULTS
    job.suspended = reason
