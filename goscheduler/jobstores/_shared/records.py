"""How jobs, runs and the history are written down by stores that keep them outside of this process.

A **job text** holds what defines a job; what changes at every firing (its next time, its life) stands beside it, in
fields of its own. A **run text** holds a run, and behind that the text of its job, so that a run outlives its job. A
**history text** holds a record. Moments are whole microseconds since 1970, with the name of their zone where that
matters.

What cannot be read is kept: a job with an unreadable text is still found, as a job that is suspended with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler import codec
from goscheduler._resolver import MissingFunction
from goscheduler.codec import CodecError
from goscheduler.errors import InvalidArgument, TransientJobError, UnreadableJob, described
from goscheduler.job import Job
from goscheduler.options import DEFAULTS, OPTION_NAMES, JobOptions, parse_options
from goscheduler.runs.model import NO_STATS, JobStats, OutcomeKind, Run, Source, unchecked_tuple
from goscheduler.runs.queries import is_readable
from goscheduler.runs.records import Record
from goscheduler.serializers import JSONSerializer, PickleSerializer, Serializer, bound
from goscheduler.tasks import PROCESS_TASKS, Target, TaskRegistry, restore
from goscheduler.times import UTC, from_micros, in_standard_zone, to_micros
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendar import CalendarTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from goscheduler.job import JobHost

SCHEMA = 1
#: Runs of schema 1 have the text of their job inside.
RUN_SCHEMA = 2

#: How many definitions are kept that were read last, and how long one of them may be.
MOST_KNOWN = 4096
LONGEST_KNOWN = 2000

_quote = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder().raw_decode


class Records:
    """Writes and reads for one store."""

    def __init__(
        self, host: JobHost | None, alias: str, serializer: Serializer | None = None, place: str = ""
    ) -> None:
        self._host = host
        self._tasks = TaskRegistry(PROCESS_TASKS) if host is None else host.task_registry
        self._alias = alias
        self._serializer = JSONSerializer() if serializer is None else serializer
        if isinstance(self._serializer, (JSONSerializer, PickleSerializer)):
            self._serializer = bound(self._serializer, place)
        self.signs = bool(getattr(self._serializer, "signs", False))
        """Whether only what is signed is believed."""

    # Jobs

    def job_text(self, job: Job) -> str:
        """Return what defines a job, as text.

        :raises InvalidArgument: naming the argument that cannot be stored
        :raises TransientJobError: if its function cannot be found again
        :raises UnreadableJob: if it was never read
        """
        if isinstance(job.func, MissingFunction) and not is_readable(job):
            raise UnreadableJob(f"Job {job.id!r} cannot be changed, because it cannot be read: {job.func.reason}")
        if job.func_ref is None:
            raise TransientJobError(job.id, f"its callable ({job.func!r}) cannot be found again by name")
        purpose = f"job {job.id}"
        if type(self._serializer) is JSONSerializer:
            return self._serializer.signed(_definition_text(job, purpose), purpose)
        definition = {
            "schema": SCHEMA,
            "func": job.func_ref,
            "name": job.name,
            "args": list(job.stored_args),
            "kwargs": job.kwargs,
            "trigger": job.trigger,
            "options": _differing(job.options),
        }
        return self._serializer.dumps(definition, purpose)

    def job(
        self,
        job_id: str,
        text: str,
        next_run_time: datetime | None,
        life: JobStats = NO_STATS,
        suspended: str | None = None,
    ) -> Job:
        """Return a job; one that cannot be read is suspended."""
        job = Job.__new__(Job)
        job._scheduler, job._jobstore_alias, job._waits_for = self._host, self._alias, None  # type: ignore[assignment]
        job.id, job.next_run_time, job.stats, job.suspended = job_id, next_run_time, life, suspended
        try:
            ref, job.name, job.args, kwargs, job.trigger, job.options, _ = self._definition(text, f"job {job_id}")
            job.kwargs = dict(kwargs)
            job.func, job.func_ref, job.task = self._function(ref)
        except Exception as error:
            _define_unreadable(job, f"its record cannot be read: {described(error)}")
        return job

    def agreed(self, job: Job, written: object, meant: object) -> Job:
        """Return a job beside whose signed text stands what follows from it; it is suspended if that was changed."""
        if written != meant and is_readable(job):
            _define_unreadable(job, "its executor, priority or limits are not those that were signed")
        return job

    def _definition(self, text: str, purpose: str) -> Definition:
        if type(self._serializer) is not JSONSerializer:
            return _definition(self._serializer.loads(text, purpose))
        text = self._serializer.believed(text, purpose)
        definition = _known.get(text)
        if definition is None:
            definition = _definition(codec.loads(text))
            if definition.shareable and len(text) <= LONGEST_KNOWN:
                _remember(text, definition)
        return definition

    def _function(self, ref: str) -> Target:
        """Return what a job runs; something that says why, where that cannot be found. Nothing is imported."""
        tasks = self._tasks
        if ":" not in ref:
            return restore(ref)
        if tasks.registered_only:
            return Target(MissingFunction(ref, "only registered tasks are run here"), ref, None)
        return unchecked_tuple(Target, (tasks.resolver.find(ref), ref, None))

    # Runs

    def run_text(self, run: Run, job_text: str | None = None) -> str:
        """Return a run as text, with that of its job if it is not given. Owner and fence stand beside it."""
        return run_head(run) + (self.job_text(run.job) if job_text is None else job_text)

    def run(self, run_id: str, text: str, owner: str | None, fence: int, due: int | None = None) -> Run:
        """Return a run. Its job, as it was when it fired, may be one that cannot be read.

        :raises CodecError: if the text is no run
        """
        try:
            head, job_text = _parted(text)
            _, job_id, at, zone, due_us, due_zone, attempt, source, coalesced, crashes = head
            scheduled_at = from_micros(at, read_zone(zone))
            job = self.job(job_id, job_text, None)
            due_at = from_micros(due_us if due is None else due, read_zone(due_zone))
            return unchecked_tuple(
                Run, (run_id, job, scheduled_at, due_at, owner, fence, attempt, Source(source), coalesced, crashes)
            )
        except CodecError:
            raise
        except Exception as error:
            raise CodecError(f"Run {run_id} cannot be read: {described(error)}") from error


def run_head(run: Run, due: int | None = None) -> str:
    """Return the text of a run without that of its job; ``due`` is its due time in microseconds, where known."""
    _, job, scheduled_at, due_at, _, _, attempt, source, coalesced, crashes = run
    due = to_micros(due_at) if due is None else due
    at = due if scheduled_at is due_at else to_micros(scheduled_at)
    # On the path of every firing: put together by hand, for a third of the time.
    return (
        f"[{RUN_SCHEMA},{_quote(job.id)},{at},{_quote(zone_text(scheduled_at))},"
        f'{due},{_quote(zone_text(due_at))},{attempt},"{str.__str__(source)}",{coalesced},{crashes}]'
    )


#: How the head of a run begins and ends that a firing has just started, with all of its times one and the same; between
#: them stand job id, time, zone, time and zone.
STARTED = (f"[{RUN_SCHEMA},", f',1,"{Source.SCHEDULE.value}",0,0]')


def changed_head(head: str, **changes: Any) -> str:
    """Return the head of a run, which may be of an older schema, with other values of some of its fields."""
    parts, _ = _parted(head)
    return _encode(list({**dict(zip(_HEAD, parts, strict=True)), "schema": RUN_SCHEMA, **changes}.values()))


_HEAD = ("schema", "job_id", "at", "zone", "due", "due_zone", "attempt", "source", "coalesced", "crashes")


def _parted(text: str) -> tuple[list[Any], str]:
    """Return the head of a run text and the text of the job, whatever schema it is of."""
    head, end = _decode(text)
    if not 1 <= head[0] <= RUN_SCHEMA:
        raise CodecError("it was written by a newer version")
    if head[0] == 1:
        schema, job_id, job_text, *rest = head
        return [schema, job_id, *rest], job_text
    return head, text[end:]


def history_text(record: Record) -> str:
    """Return a record as text: the fields of a record in order, after the number of the schema."""
    (
        run_id, job_id, name, func_ref, tags, executor, source, attempt, scheduled_at, started_at, finished_at, seconds,
        outcome, reason, error_type, message, traceback, result, share, note, owner, host, fence, coalesced,
        fire_times, crashes,
    ) = record  # fmt: skip
    # On the path of every firing: put together by hand, and what is the same in most records of a batch only once.
    job = _job_part(name, func_ref, tags, executor, str.__str__(source), attempt)
    said = f"{_number(share)},{_text(note)}" if share is not None or note else 'null,""'
    told = '"","",null' if not (message or traceback) and result is None else _told(message, traceback, result)
    return (
        f"[{SCHEMA},{_quote(run_id)},{_quote(job_id)},{job},"
        f'{to_micros(scheduled_at)},{"null" if started_at is None else to_micros(started_at)},{to_micros(finished_at)},'
        f"{float(seconds):.9f},{_end_part(outcome, reason, error_type)},{told},{said},"
        f"{_owner_part(owner, host, fence, coalesced, fire_times, crashes)}]"
    )


def _told(message: str, traceback: str, result: str | None) -> str:
    return f"{_quote(message)},{_quote(traceback)},{_text(result)}"


@lru_cache(maxsize=512)
def _job_part(
    name: str, func_ref: str | None, tags: tuple[str, ...], executor: str, source: str, attempt: int
) -> str:
    kinds = _encode(tags) if tags else "[]"
    return f'{_quote(name)},{_text(func_ref)},{kinds},{_quote(executor)},"{source}",{attempt}'


@lru_cache(maxsize=64)
def _end_part(outcome: OutcomeKind, reason: str, error_type: str | None) -> str:
    return f'"{outcome.value}",{_text(reason)},{_text(error_type)}'


@lru_cache(maxsize=64)
def _owner_part(owner: str | None, host: str, fence: int, coalesced: int, fire_times: int, crashes: int) -> str:
    return f"{_text(owner)},{_text(host)},{fence},{coalesced},{fire_times},{crashes}"


def _text(value: str | None) -> str:
    return "null" if value is None else _quote(value)


def _number(value: float | None) -> str:
    return "null" if value is None else float.__repr__(float(value))


def history_record(text: str) -> Record:
    """Return the record that :func:`history_text` wrote.

    :raises CodecError: if the text is anything else
    """
    try:
        values = json.loads(text)
        for index, read in _READ:
            values[index] = read(values[index])
        return Record(*values[1:])
    except Exception as error:
        raise CodecError(f"A record of the history cannot be read: {described(error)}") from error


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else from_micros(microseconds, UTC)


# Ten thousand dead letters are read at once where they are grouped: looking a member up on its Enum costs as much as a
# function call.
_READ: list[tuple[int, Callable[[Any], object]]] = [
    (1 + Record._fields.index(name), read)
    for name, read in (
        ("tags", tuple),
        ("source", {source.value: source for source in Source}.__getitem__),
        ("scheduled_at", _moment),
        ("started_at", _moment),
        ("finished_at", _moment),
        ("outcome", {outcome.value: outcome for outcome in OutcomeKind}.__getitem__),
    )
]


def zone_text(moment: datetime) -> str:
    """Return the name of the zone that a moment is in; a zone without a name is written as its offset then."""
    return "Z" if moment.tzinfo is UTC else _zone_text(in_standard_zone(moment).tzinfo)


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


def _definition_text(job: Job, purpose: str) -> str:
    """Return what defines a job as JSON, each part written by itself, because most of them repeat."""
    args, kwargs = job.stored_args, job.kwargs
    text = (
        f'{{"schema":{SCHEMA},"func":{_quote(job.func_ref or "")},"name":{_quote(job.name)},'
        f'"args":{codec.dumps(list(args), f"{purpose}[args]") if args else "[]"},'
        f'"kwargs":{codec.dumps(kwargs, f"{purpose}[kwargs]") if kwargs else "{}"},'
        f'"trigger":{_trigger_text(job.trigger, purpose)},"options":{_options_text(job.options)}}}'
    )
    if len(text) > codec.MAX_SIZE:
        limit = codec.MAX_SIZE
        raise InvalidArgument(f"{purpose} takes {len(text)} bytes when stored, the limit is {limit}", field=purpose)
    return text


def _trigger_text(trigger: BaseTrigger, purpose: str) -> str:
    """Return a trigger as the codec writes it."""
    if type(trigger) is DateTrigger and not trigger.floating and _is_plain(trigger.run_date):
        # Most jobs that are added by the thousand have one of these: put together by hand, for a sixth of the time.
        return f"{_BEFORE_DATE}{trigger.run_date.isoformat()[:_WITHOUT_OFFSET]}{_AFTER_DATE}"
    return codec.dumps(trigger, f"{purpose}[trigger]")


def _is_plain(moment: datetime) -> bool:
    return type(moment) is datetime and moment.tzinfo is UTC and not moment.fold


_BEFORE_DATE, _AFTER_DATE = codec.dumps(DateTrigger(datetime(2000, 1, 1, tzinfo=UTC))).split("2000-01-01T00:00:00")
_WITHOUT_OFFSET = -len("+00:00")


@lru_cache(maxsize=1024)
def _options_text(options: JobOptions) -> str:
    return codec.dumps(_differing(options), "options")


class Definition(NamedTuple):
    """What defines a job, as it was read."""

    ref: str
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    trigger: BaseTrigger
    options: JobOptions
    shareable: bool
    """Whether no part of it can be changed, so that several jobs may have it."""


#: The definitions that were read last, by their text: jobs come again, and many differ in nothing but their ids.
_known: dict[str, Definition] = {}


def _remember(text: str, definition: Definition) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[text] = definition


def _definition(stored: Any) -> Definition:
    if not isinstance(stored, Mapping) or not 1 <= stored["schema"] <= SCHEMA:
        raise CodecError("it was written by a newer version, or is no job at all")
    trigger = stored["trigger"]
    if not isinstance(trigger, BaseTrigger):
        raise CodecError("it has no trigger")
    args, kwargs, options = tuple(stored["args"]), stored["kwargs"], stored["options"]
    plain = all(type(value) in _PLAIN for value in (*args, *kwargs.values()))
    return Definition(
        str(stored["func"]), str(stored["name"]), args, dict(kwargs), trigger,
        parse_options(options) if options else DEFAULTS, plain and _is_unchanging(trigger),
    )  # fmt: skip


_PLAIN = frozenset({str, int, float, bool, type(None)})
def _is_unchanging(trigger: BaseTrigger) -> bool:
    if type(trigger) is CalendarTrigger:
        trigger = trigger.triggers[0]
    return type(trigger) in _UNCHANGING


_UNCHANGING = frozenset({DateTrigger, IntervalTrigger, CronTrigger, CalendarIntervalTrigger})


def _define_unreadable(job: Job, reason: str) -> None:
    job.func, job.func_ref, job.task = MissingFunction(job.id, reason, unreadable=True), None, None
    job.trigger = DateTrigger(job.next_run_time or datetime(1970, 1, 1, tzinfo=UTC))
    job.name, job.args, job.kwargs, job.options = job.id, (), {}, DEFAULTS
    job.suspended = reason
