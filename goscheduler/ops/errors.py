"""One table of errors for all transports: what an exception is called, and how each transport tells it."""

from __future__ import annotations

from typing import NamedTuple

from goscheduler.codec import CodecError
from goscheduler.errors import (
    ConflictingIdError,
    GoSchedulerError,
    InvalidArgument,
    JobLookupError,
    MessageNotFound,
    MessageNotPending,
    MessageTooLarge,
    NeverFires,
    ReadOnly,
    RunLookupError,
    ScheduleConflict,
    ScheduleLookupError,
    StoreUnavailable,
    UnknownOption,
    UnreadableJob,
    described,
)
from goscheduler.ops.access import Forbidden, Unauthenticated


class NotFound(GoSchedulerError, LookupError):
    """What was asked for is not there."""


class Changed(GoSchedulerError):
    """What was to be changed is not as the caller has seen it."""

    def __init__(self, message: str, etag: str = "") -> None:
        super().__init__(message)
        self.etag = etag
        """What is there now."""


class TooMany(GoSchedulerError):
    """More was asked for than is done at once."""


class AuditUnavailable(StoreUnavailable):
    """The audit could not be written, so nothing was done."""


class Kind(NamedTuple):
    """How transports tell of an error."""

    name: str
    http: int
    grpc: str
    grpc_code: int
    exit: int
    title: str


NOT_FOUND = Kind("not_found", 404, "NOT_FOUND", 5, 1, "Not found")
INVALID = Kind("invalid", 422, "INVALID_ARGUMENT", 3, 2, "Invalid argument")
EXISTS = Kind("exists", 409, "ALREADY_EXISTS", 6, 1, "Already exists")
NOT_PENDING = Kind("not_pending", 409, "FAILED_PRECONDITION", 9, 1, "Not pending any more")
CONFLICT = Kind("conflict", 412, "ABORTED", 10, 1, "Changed meanwhile")
UNREADABLE = Kind("unreadable", 409, "FAILED_PRECONDITION", 9, 1, "Unreadable job")
READ_ONLY = Kind("read_only", 403, "FAILED_PRECONDITION", 9, 1, "Read-only")
UNAUTHENTICATED = Kind("unauthenticated", 401, "UNAUTHENTICATED", 16, 1, "Not authenticated")
FORBIDDEN = Kind("forbidden", 403, "PERMISSION_DENIED", 7, 1, "Forbidden")
TOO_MANY = Kind("too_many", 429, "RESOURCE_EXHAUSTED", 8, 1, "Too many")
TOO_LARGE = Kind("too_large", 413, "RESOURCE_EXHAUSTED", 8, 1, "Too large")
UNAVAILABLE = Kind("unavailable", 503, "UNAVAILABLE", 14, 1, "Unavailable")
INTERNAL = Kind("internal", 500, "INTERNAL", 13, 1, "Internal error")

KINDS = (
    NOT_FOUND, INVALID, EXISTS, NOT_PENDING, CONFLICT, UNREADABLE, READ_ONLY, UNAUTHENTICATED, FORBIDDEN, TOO_MANY,
    TOO_LARGE, UNAVAILABLE, INTERNAL,
)  # fmt: skip

#: The first row that fits counts.
_TABLE: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], Kind], ...] = (
    ((JobLookupError, RunLookupError, MessageNotFound, ScheduleLookupError, NotFound), NOT_FOUND),
    ((ConflictingIdError, ScheduleConflict), EXISTS),
    (MessageNotPending, NOT_PENDING),
    (MessageTooLarge, TOO_LARGE),
    (Changed, CONFLICT),
    (UnreadableJob, UNREADABLE),
    (ReadOnly, READ_ONLY),
    (Unauthenticated, UNAUTHENTICATED),
    (Forbidden, FORBIDDEN),
    (TooMany, TOO_MANY),
    (StoreUnavailable, UNAVAILABLE),
    ((InvalidArgument, UnknownOption, NeverFires, CodecError), INVALID),
)


def kind_of(error: BaseException) -> Kind:
    """Return what an error is called; one that is not known here is internal."""
    for errors, kind in _TABLE:
        if isinstance(error, errors):
            return kind
    return INTERNAL


def message_of(error: BaseException) -> str:
    """Return what the caller is told; nothing of an error that is internal."""
    kind = kind_of(error)
    if kind is INTERNAL:
        return "an internal error; the log of the server has it"
    is_key = isinstance(error, KeyError) and not isinstance(error, GoSchedulerError)  # which shows as its repr
    text = error.args[0] if is_key and error.args else error
    return str(text) or described(error)
