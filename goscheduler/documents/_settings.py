"""Settings of a document scheduler: delays, lock duration, hooks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta, tzinfo
from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import parse_duration

MAX_INTERVAL = timedelta(days=366)
MOST_AT_ONCE = 1000

Duration = timedelta | float | str


@dataclass(frozen=True)
class Settings:
    """Options, checked."""

    next_delay: float
    """Seconds before each look for a document."""
    reprocess_delay: timedelta
    """Added to ``sleepUntil`` before the next time of a recurring document is looked for."""
    idle_delay: float
    """Seconds after a look that has found nothing."""
    lock_duration: timedelta
    """For how long a document is locked; while it is processed the lock is renewed."""
    concurrency: int
    """How many documents are processed at once in this process."""
    timezone: tzinfo
    """The zone in which crontab lines are read."""


@dataclass(frozen=True)
class Hooks:
    """The user's functions; any of them may be a coroutine function."""

    on_document: Callable[[Any], Any]
    on_start: Callable[[], Any] | None = None
    on_stop: Callable[[], Any] | None = None
    on_idle: Callable[[], Any] | None = None
    on_error: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        for name, hook in vars(self).items():
            if not callable(hook) and (hook is not None or name == "on_document"):
                raise TypeError(f"{name} must be a function, got {shown(hook)}")


def read_duration(field: str, value: Duration, positive: bool = False) -> timedelta:
    """Return a length of time: a timedelta, seconds, or text such as ``"10m"``."""
    try:
        length = parse_duration(value)
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error}", field=field, value=value) from None
    except TypeError:
        raise TypeError(f"{field} must be a timedelta, seconds, or text such as '10m', got {shown(value)}") from None
    if length > MAX_INTERVAL or (positive and not length):
        least = "more than nothing" if positive else "nothing or more"
        message = f"{field} must be {least} and at most {MAX_INTERVAL.days} days, got {shown(value)}"
        raise InvalidArgument(message, field=field, value=value)
    return length


def read_concurrency(value: int) -> int:
    """Return how many at once."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"concurrency must be a whole number, got {shown(value)}")
    if not 1 <= value <= MOST_AT_ONCE:
        message = f"concurrency must be 1 to {MOST_AT_ONCE}, got {shown(value)}"
        raise InvalidArgument(message, field="concurrency", value=value)
    return value


def takes_document(on_error: Callable[..., Any]) -> bool:
    """Tell whether a function for errors wants to have the document too: whether it needs a second argument."""
    try:
        parameters = inspect.signature(on_error).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters) > 1
