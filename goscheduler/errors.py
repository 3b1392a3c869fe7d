"""Every error that goscheduler raises on purpose.

::

    GoSchedulerError
    ├── SchedulerAlreadyRunningError
    ├── SchedulerNotRunningError
    ├── JobLookupError            (also a KeyError)      no such job
    ├── RunLookupError            (also a KeyError)      no such run among the dead letters
    ├── ConflictingIdError        (also a KeyError)      the id is taken
    │   └── ScheduleConflict                             by a job that the registry of a schedule does not own
    ├── ScheduleLookupError       (also a KeyError)      no such schedule in the registry
    ├── TransientJobError         (also a ValueError)    the job cannot be stored
    ├── InvalidArgument           (also a ValueError)    a value that makes no sense, with the field's name
    │   ├── DuplicateSchedule                            the registry has a schedule by this id
    │   ├── NeverFires                                   a schedule without a single fire time
    │   └── MessageTooLarge                              a payload beyond the limit
    ├── UnknownOption             (also a TypeError)     an option nobody knows, with what was probably meant
    ├── OnlyAdds                  (also a RuntimeError)  a scheduler that was started only to add was to fire
    ├── ReadOnly                                         what was only opened to look into cannot be changed
    ├── LockNotAcquired           (also a TimeoutError)  somebody else has the lock
    ├── LockLost                                         a lock ended before the work under it did
    ├── MaxInstancesReachedError
    ├── MessageNotFound           (also a KeyError)      no such scheduled message
    ├── MessageNotPending         (also a RuntimeError)  a message that is on its way, and cannot be postponed
    ├── TransportUnavailable      (also a ConnectionError)  a broker or receiver that does not answer now
    └── MessageRejected                                  a message that a transport will never take

Names and second bases are those of APScheduler 3, so ``except KeyError`` around ``remove_job`` goes on working.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterable
from typing import Protocol

from goscheduler._urls import masked, masked_text

MAX_SHOWN = 80


def shown(value: object) -> str:
    """Return a value as an error message shows it: one line, no control characters, no passwords, not too long."""
    try:
        text = repr(masked(value)) if type(value) is str else masked_text(repr(value))
    except Exception:
        text = f"<{type(value).__name__} whose repr() raises>"
    if not text.isprintable():
        text = ascii(text)[1:-1]
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


def described(error: BaseException, limit: int = 1000) -> str:
    """Return an exception in one line, its type first, also one that cannot tell what it is."""
    try:
        text = str(error)
    except BaseException as problem:
        if not survivable(problem):
            raise
        text = f"<its text cannot be had: {type(problem).__name__}>"
    text = text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _shown_id(job_id: object) -> str:
    """Return a job id as it is, if it is one that could exist."""
    return job_id if isinstance(job_id, str) and job_id.isprintable() and len(job_id) <= 255 else shown(job_id)


class GoSchedulerError(Exception):
    """The root of all errors of this package."""


class SchedulerAlreadyRunningError(GoSchedulerError):
    """The scheduler is running, and what was asked can only be done while it is stopped."""

    def __str__(self) -> str:
        return "Scheduler is already running"


class SchedulerNotRunningError(GoSchedulerError):
    """The scheduler is stopped, and what was asked can only be done while it runs."""

    def __str__(self) -> str:
        return "Scheduler is not running"


class JobLookupError(GoSchedulerError, KeyError):
    """No store that was asked has a job by this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id

    def __str__(self) -> str:
        return f"No job by the id of {_shown_id(self.job_id)} was found"


class RunLookupError(GoSchedulerError, KeyError):
    """No store has a dead letter by this run id, or no run at all if that was asked for."""

    def __init__(self, run_id: str, what: str = "dead letter") -> None:
        super().__init__(run_id)
        self.run_id, self._what = run_id, what

    def __str__(self) -> str:
        return f"No {self._what} by the run id of {_shown_id(self.run_id)} was found"


class ConflictingIdError(GoSchedulerError, KeyError):
    """A job by this id is already in the store."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id

    def __str__(self) -> str:
        return f"Job identifier ({_shown_id(self.job_id)}) conflicts with an existing job"


class ScheduleConflict(ConflictingIdError):
    """A schedule has the id of a job that its registry does not own, and that is therefore left alone."""

    def __init__(self, job_id: str, made_by: str) -> None:
        super().__init__(job_id)
        self.args = (job_id, made_by)
        self.made_by = made_by

    def __str__(self) -> str:
        return f"Schedule ({_shown_id(self.job_id)}) conflicts with a job of that id which was made by {self.made_by}"


class ScheduleLookupError(GoSchedulerError, KeyError):
    """The registry has no schedule by this id."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(schedule_id)
        self.schedule_id = schedule_id

    def __str__(self) -> str:
        return f"No schedule by the id of {_shown_id(self.schedule_id)} is registered"


class StoreUnavailable(GoSchedulerError, ConnectionError):
    """A job store's server cannot be reached at the moment. What is wrong for good raises another error."""


class MessageNotFound(GoSchedulerError, KeyError):
    """No scheduled message has this id: it was delivered or cancelled, or never was."""

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return f"No scheduled message by the id of {_shown_id(self.message_id)} was found"


class MessageNotPending(GoSchedulerError, RuntimeError):
    """A message is being delivered, waits for its next attempt, or is a dead letter: its time cannot be changed."""

    def __init__(self, message_id: str, state: str) -> None:
        super().__init__(message_id, state)
        self.message_id = message_id
        self.state = state

    def __str__(self) -> str:
        return f"The message {_shown_id(self.message_id)} is {self.state}; only one that is pending can be postponed"


class TransportUnavailable(GoSchedulerError, ConnectionError):
    """A transport could not hand a message over at the moment; it is worth another attempt.

    ``retry_after``: the seconds that the receiver asked to wait, if it did.
    """

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class MessageRejected(GoSchedulerError):
    """A transport will never take this message; another attempt is no use."""


class TransientJobError(GoSchedulerError, ValueError):
    """The job cannot be put into a persistent store: there is no way to find its function again."""

    def __init__(self, job_id: str, reason: str = "a reference to its callable could not be determined") -> None:
        super().__init__(job_id, reason)
        self.job_id = job_id
        self.reason = reason

    def __str__(self) -> str:
        return f"Job ({_shown_id(self.job_id)}) cannot be added to this job store because {self.reason}"


class InvalidArgument(GoSchedulerError, ValueError):
    """A value was refused. ``field`` names it, ``value`` is what was given."""

    def __init__(self, message: str, *, field: str | None = None, value: object = None) -> None:
        super().__init__(message)
        self.field = field
        self.value = value


class DuplicateSchedule(InvalidArgument):
    """The registry has a schedule by this id already."""

    def __init__(self, schedule_id: str) -> None:
        super().__init__(schedule_id, field="id", value=schedule_id)

    def __str__(self) -> str:
        return f"A schedule by the id of {_shown_id(self.value)} is registered already"


class NeverFires(InvalidArgument):
    """The schedule is well formed, but no moment ever satisfies it (``0 0 31 2 *``)."""


class MessageTooLarge(InvalidArgument):
    """The payload and metadata of a message are larger than the limit."""


class UnknownOption(GoSchedulerError, TypeError):
    """An option by this name does not exist; ``suggestion`` is the nearest one that does, if any is near."""

    def __init__(self, name: str, known: Iterable[str], where: str) -> None:
        known = sorted(known)
        super().__init__(name, known, where)
        self.name = name
        self.where = where
        self.known = known
        self.suggestion = nearest(name, known)

    def __str__(self) -> str:
        hint = f"did you mean {self.suggestion!r}?" if self.suggestion else f"known options: {', '.join(self.known)}"
        return f"unknown option {self.name!r} for {self.where}; {hint}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return what was probably meant by a name: the one that is spelt almost so, or the only one that begins so."""
    known = list(known)
    alike = difflib.get_close_matches(name, known, n=1) or [each for each in known if name and each.startswith(name)]
    return alike[0] if len(alike) == 1 else None


class _HasInstances(Protocol):
    id: str

    @property
    def max_instances(self) -> int: ...


class MaxInstancesReachedError(GoSchedulerError):
    """A job already has as many live runs as it may have."""

    def __init__(self, job: _HasInstances) -> None:
        super().__init__(
            f'Job "{job.id}" has already reached its maximum number of instances ({job.max_instances})'
        )


class UnreadableJob(GoSchedulerError):
    """A job that cannot be read cannot be changed either; it can be removed, and it is kept until then."""


class ReadOnly(GoSchedulerError):
    """Something was to be changed that was opened only to be looked into."""


class OnlyAdds(GoSchedulerError, RuntimeError):
    """A scheduler that was started with ``only_adds=True`` was to fire."""

    def __init__(self) -> None:
        super().__init__(
            "This one was started with only_adds=True and never fires; to have it fire, call shutdown() and start()"
        )


class LockNotAcquired(GoSchedulerError, TimeoutError):
    """Somebody else has the lock, and had it for as long as it was waited for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"Somebody else has the lock {shown(self.name)}"


class LockLost(GoSchedulerError):
    """A lock ended before it was released: another holder may have, or have had, it at the same time.

    ``fence`` is the number under which the work was done that was not protected to its end.
    """

    def __init__(self, name: str, fence: int) -> None:
        super().__init__(name, fence)
        self.name = name
        self.fence = fence

    def __str__(self) -> str:
        return f"The lock {shown(self.name)} with the fence {self.fence} is not held any more"


def survivable(error: BaseException) -> bool:
    """Tell whether a thread of ours goes on after this. Only what a signal raises in the main thread ends it."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    return isinstance(error, Exception) or not (in_main_thread and isinstance(error, (KeyboardInterrupt, SystemExit)))
