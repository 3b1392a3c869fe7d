"""The history: what is kept of a finished attempt, how it is asked for, and for how long it is kept.

A :class:`Record` holds plain values only, each of bounded size, so that every store gives back the same, and so that a
history keeps neither jobs nor exceptions nor results alive. Records have one order, newest first, by their
:class:`Position`; a page begins where the page before it has ended.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, UnknownOption, shown, survivable
from goscheduler.runs.model import Attempt, JobStats, OutcomeKind, Source, unchecked_tuple
from goscheduler.times import UTC, from_micros, parse_duration, to_micros

DEFAULT_EXECUTOR = "default"

MAX_RESULT = 1000
MAX_REASON = 2000
MAX_MESSAGE = 2000
MAX_TRACEBACK = 8192
MAX_TYPE = 255

_SUCCEEDED = OutcomeKind.SUCCEEDED


class Position(NamedTuple):
    """Where a record stands in the order of a history. No two records have the same."""

    finished_at: datetime
    """When the attempt ended, in UTC."""
    run_id: str
    fence: int

    @classmethod
    def of_cursor(cls, cursor: str) -> Position:
        """Return the position that a cursor stands for; raises ValueError or OverflowError for any other text."""
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        finished, fence, run_id = base64.b64decode(padded, b"-_", validate=True).decode("utf-8").split(".", 2)
        position = cls(from_micros(int(finished), UTC), run_id, int(fence))
        if position.cursor != cursor:
            raise ValueError(cursor)
        return position

    @property
    def cursor(self) -> str:
        """The position as one word that may stand in a URL."""
        text = f"{to_micros(self.finished_at)}.{self.fence}.{self.run_id}"
        return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")


class Record(NamedTuple):
    """The history entry of one attempt, or of a fire time that was not run."""

    run_id: str
    """The same on every attempt at a run."""
    job_id: str
    job_name: str
    """The job's name when the attempt ended."""
    task: str | None
    """Where the job's function is found; None if it can only live in memory."""
    tags: tuple[str, ...]
    executor: str
    source: Source
    """Why the attempt was made."""
    attempt: int
    """Its number, from 1."""
    scheduled_at: datetime
    """The fire time."""
    started_at: datetime | None
    """None when the function was never called."""
    finished_at: datetime
    """When it ended, or when it was found that it is not to be run; in UTC."""
    seconds: float
    """How long the function ran."""
    outcome: OutcomeKind
    reason: str
    """Why it ended so, where the outcome alone does not say."""
    error_type: str | None
    """``module.QualifiedName`` of the exception, without the module for built-in ones."""
    error_message: str
    traceback: str
    """The formatted frames, without the line of the exception itself."""
    result: str | None
    """What the function returned, as text."""
    progress: float | None
    """How far it got, from 0 to 1, if it told."""
    progress_note: str
    owner: str | None
    """The start of a scheduler that had the run; None if nobody had."""
    host: str
    """The machine of the owner; empty if nobody had it."""
    fence: int
    coalesced: int
    """How many further missed fire times the run stood for."""
    fire_times: int
    """How many fire times this record stands for; above one only where many were missed at once."""
    crashes: int
    """How often an owner was lost while it had the run."""

    @property
    def lateness(self) -> float:
        """Seconds from the fire time to the start; 0 for what was never started."""
        return 0.0 if self.started_at is None else (to_micros(self.started_at) - to_micros(self.scheduled_at)) / 1e6

    @property
    def position(self) -> Position:
        return unchecked_tuple(Position, (self.finished_at, self.run_id, self.fence))

    @property
    def cursor(self) -> str:
        """Names this place in the history: ``before=`` takes it for the page that follows."""
        return self.position.cursor

    @property
    def fire_id(self) -> str:
        """Names the firing, the same on every attempt."""
        return f"{self.job_id}@{self.scheduled_at.isoformat()}"


def record_of(attempt: Attempt, host: str = "") -> Record:
    """Return what a history keeps of an attempt. Text that is too long is cut with a note.

    ``host`` is the machine of the owner, if the attempt itself does not say.
    """
    run, outcome, finished_at, fire_times, progress, ran_on = attempt
    run_id, job, scheduled_at, _, owner, fence, number, source, coalesced, crashes = run
    kind, result, error, traceback, started_at, seconds, reason = outcome
    options = job.options
    if finished_at.tzinfo is not UTC:
        finished_at = finished_at.astimezone(UTC)  # or a repeated hour would be out of order
    if result is not None:
        result = _bounded(_result_text(result), MAX_RESULT)
    if reason:
        reason = _bounded(reason, MAX_REASON)
    error_type, message = None, ""
    if error is not None:
        error_type, message = error_type_of(error), _bounded(_told(str, error), MAX_MESSAGE)
    if traceback:
        traceback = _bounded(traceback, MAX_TRACEBACK)
    share, note = progress or (None, "")
    # On the path of every firing: fields in order, and options without the properties of the job.
    return unchecked_tuple(Record, (
        run_id, job.id, job.name, job.func_ref, options.tags or (), options.executor or DEFAULT_EXECUTOR, source,
        number, scheduled_at, started_at, finished_at, seconds, kind, reason, error_type, message, traceback, result,
        share, note, owner, ran_on or host, fence, coalesced, fire_times, crashes,
    ))  # fmt: skip


def stats_from(records: Sequence[Record]) -> JobStats:
    """Return what a job has lived through if these, newest first, are all of its records."""
    begun = [record for record in records if record.started_at is not None]
    ends = [record.finished_at for record in begun if record.outcome is _SUCCEEDED]
    errors = [_account_of(record) for record in begun if record.outcome not in (_SUCCEEDED, OutcomeKind.SNOOZED)]
    return JobStats(
        len(begun), begun[0].started_at if begun else None, ends[0] if ends else None, errors[0] if errors else None,
        records[0].outcome, None, records[0].finished_at,
    )


def _account_of(record: Record) -> str:
    if record.error_type is None:
        return record.reason or record.outcome.value
    return ": ".join(filter(None, (record.error_type.rpartition(".")[2], record.error_message)))


def error_type_of(error: BaseException) -> str:
    """Return the name of an exception's type, as records have it."""
    names = getattr(error, "lineage", None)  # of one that came from a child process as text
    return names[0].removeprefix("builtins.") if names else type_name(type(error))


def type_name(cls: type) -> str:
    """Return ``module.QualifiedName``, without the module for built-in types."""
    # Asked of ``type`` itself, so that a metaclass has no say.
    name = type.__dict__["__qualname__"].__get__(cls) or "(unnamed)"
    module = type.__dict__["__module__"].__get__(cls)
    full = name if module == "builtins" or not isinstance(module, str) else f"{module}.{name}"
    return storable(full[:MAX_TYPE])


def _result_text(result: object) -> str:
    return result if type(result) is str else _told(_plain if isinstance(result, str) else repr, result)


def _plain(text: Any) -> str:
    """Return the text of a subclass of str, whatever that does to its methods."""
    return str.__str__(text)


def _told(tell: Callable[[object], str], value: object) -> str:
    try:
        return str.__str__(tell(value))
    except BaseException as error:
        if not survivable(error):
            raise
        return f"<{type_name(type(value))} whose {tell.__name__}() raises {type_name(type(error))}>"


def _bounded(text: str, limit: int) -> str:
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text)} characters)"
    return text if text.isascii() and "\0" not in text else storable(text)


def storable(text: str) -> str:
    """Return text that every database takes: half characters and NUL are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


#: What :attr:`Record.position` is made of, without making it.
_POSITION = attrgetter(*Position._fields)
_FINISHED = attrgetter("finished_at")


class HistoryQuery(NamedTuple):
    """Which records are wanted: those that fit all of it, newest first."""

    job_id: str | None = None
    outcomes: frozenset[OutcomeKind] | None = None
    since: datetime | None = None
    """Ended at this moment or later."""
    until: datetime | None = None
    """Ended before this moment."""
    tag: str | None = None
    error_type: str | None = None
    before: Position | None = None
    """Only what comes after this position, newest first: older records."""
    limit: int = 100

    def matches(self, record: Record) -> bool:
        """Tell whether a record is wanted, the limit aside."""
        return (
            (self.job_id is None or record.job_id == self.job_id)
            and (self.outcomes is None or record.outcome in self.outcomes)
            and (self.tag is None or self.tag in record.tags)
            and (self.error_type is None or record.error_type == self.error_type)
            and (self.since is None or record.finished_at >= self.since)
            and (self.until is None or record.finished_at < self.until)
            and (self.before is None or _POSITION(record) < self.before)
        )

    def page(self, records: Iterable[Record]) -> list[Record]:
        """Return those of ``records`` that are wanted, newest first."""
        return heapq.nlargest(self.limit, filter(self.matches, records), key=_POSITION)


@dataclass(frozen=True, slots=True)
class Retention:
    """The time for which records are kept. Lengths of time may be given as text ("7d") or seconds too."""

    succeeded: timedelta = timedelta(days=7)
    """How long what succeeded is kept."""
    succeeded_per_job: int = 1000
    """How many successes of one job are kept at most; the newest."""
    others: timedelta = timedelta(days=30)
    """How long everything else is kept: what failed, was missed, skipped, cancelled or put back."""

    def __post_init__(self) -> None:
        for name in ("succeeded", "others"):
            object.__setattr__(self, name, _checked_duration(name, getattr(self, name)))
        object.__setattr__(self, "succeeded_per_job", _checked_count("succeeded_per_job", self.succeeded_per_job))

    @classmethod
    def of(cls, value: object) -> Retention:
        """Return what an option describes: a retention, or a mapping of its fields."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise TypeError(f"retention must be a Retention or a mapping of its fields, got {shown(value)}")
        names = [field.name for field in fields(cls)]
        for name in value:
            if name not in names:
                raise UnknownOption(str(name), names, where="retention")
        return cls(**value)

    def has_outlived(self, stats: JobStats, now: datetime) -> bool:
        """Tell whether a job with this life has fired for the last time and is not to be kept any longer."""
        if stats.finished_at is None:
            return False
        ended = max(time for time in (stats.finished_at, stats.last_run, stats.last_success) if time is not None)
        return ended < _before(now, self.succeeded if stats.last_outcome is _SUCCEEDED else self.others)

    def outlived(self, records: Iterable[Record], now: datetime, limit: int) -> list[Record]:
        """Return those of ``records`` that are not to be kept any longer, at most ``limit`` of them, oldest first."""
        succeeded_since, others_since = _before(now, self.succeeded), _before(now, self.others)
        successes: dict[str, int] = {}
        outlived: list[Record] = []
        for record in sorted(records, key=_FINISHED, reverse=True):
            if record.outcome is _SUCCEEDED:
                newer = successes.get(record.job_id, 0)
                successes[record.job_id] = newer + 1
                if newer >= self.succeeded_per_job or record.finished_at < succeeded_since:
                    outlived.append(record)
            elif record.finished_at < others_since:
                outlived.append(record)
        return outlived[: -limit - 1 : -1]


def _before(now: datetime, length: timedelta) -> datetime:
    try:
        return now - length
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _checked_duration(field: str, value: Any) -> timedelta:
    try:
        return parse_duration(value)
    except (InvalidArgument, TypeError):
        raise InvalidArgument(
            f"{field} must be a length of time such as '7d', got {shown(value)}", field=field, value=value
        ) from None


def _checked_count(field: str, value: Any) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)  # from an ini file
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(f"{field} must be a whole number from 0, got {shown(value)}", field=field, value=value)
    return value
