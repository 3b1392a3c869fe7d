"""How a job is run, parsed once into a frozen value.

Jobs with the same options share one :class:`JobOptions` object, so a million jobs pay for it once.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, cast

from goscheduler.errors import InvalidArgument, UnknownOption, shown
from goscheduler.runs.limits import Limit, limits_of
from goscheduler.runs.retry import Retry
from goscheduler.util import asbool, undefined

MAX_NAME = 255
#: The most bytes of all names and texts of a job's metadata.
MAX_METADATA = 4096
PRIORITIES = range(10)
OVERLAPS = ("skip", "queue", "cancel_running", "allow")
ON_CRASH = ("rerun", "fail", "dead")


class InvalidOption(InvalidArgument, TypeError):
    """An option's value was refused. Also a TypeError, because APScheduler 3 raised that whatever was wrong."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a job, each with the default that holds unless ``job_defaults`` or ``add_job`` say otherwise."""

    executor: str = "default"
    """Alias of the executor that runs it."""
    misfire_grace_time: float | None = None
    """How many seconds late a run may start; later ones are recorded as missed. None: a late run still runs."""
    coalesce: bool = True
    """Whether several fire times that have gathered are run as one."""
    max_instances: int = 1
    """How many runs of the job may be live at once."""
    retry: Retry | None = None
    """Whether and when a failed run is tried again; a number stands for that many attempts. None: one attempt."""
    dead_letter: bool | None = None
    """Whether a run whose last attempt failed is kept among the dead letters. None: if it has a retry policy."""
    timeout: float | None = None
    """After how many seconds a run is told to end, and soon after ended or given up. None: never."""
    priority: int = 5
    """From 0, the most urgent, to 9: who goes first when there is not room for all that is due."""
    overlap: str = "skip"
    """What a firing does that finds ``max_instances`` runs going on: "skip" (it is recorded and not run), "queue" (it
    waits), "cancel_running" (they are told to end, and it waits for that) or "allow" (it runs beside them)."""
    limits: tuple[Limit, ...] = ()
    """Limits that the job shares with others."""
    on_crash: str = "rerun"
    """What becomes of a run whose process was lost: "rerun", "fail" (a failed attempt, for the retry policy to judge)
    or "dead" (a dead letter)."""
    max_crashes: int = 3
    """After how many lost processes a run is not run again, but becomes a dead letter."""
    auto_remove: bool = True
    """Whether a job that will not fire again is removed; else it stays, as completed or failed, as long as its
    history."""
    tags: tuple[str, ...] = ()
    """Free words to find jobs by."""
    description: str = ""
    """Free text for people."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Names and texts for programs, such as the id of a tenant or of a trace."""


DEFAULTS = JobOptions()
OPTION_NAMES = tuple(field.name for field in fields(JobOptions))

#: The options of a job before its scheduler has filled in what was left open.
OPEN = JobOptions(**dict.fromkeys(OPTION_NAMES, cast(Any, undefined)))


def parse_options(given: Mapping[str, Any], base: JobOptions = DEFAULTS, *, where: str = "job") -> JobOptions:
    """Return ``base`` with the given options put in, each checked.

    :raises UnknownOption: for a name that is not an option
    :raises InvalidOption: for a value that makes no sense
    """
    if not given:
        return base
    for name in given:
        if name not in CHECKS:
            raise UnknownOption(name, OPTION_NAMES, where=where)
    return _shared(replace(base, **{name: CHECKS[name](value) for name, value in given.items()}))


@lru_cache(maxsize=1024)
def filled_in(options: JobOptions, defaults: JobOptions) -> JobOptions:
    """Return ``options`` with what was left open taken from ``defaults``."""
    left_open = [name for name in OPTION_NAMES if getattr(options, name) is undefined]
    return replace(options, **{name: getattr(defaults, name) for name in left_open})


@lru_cache(maxsize=1024)
def _shared(options: JobOptions) -> JobOptions:
    return options


def check_job_id(value: object) -> str:
    """Return a job id that every store, log and terminal can take, or raise."""
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"id must be a nonempty string, got {shown(value)}", field="id", value=value)
    return _check_text("id", value)


def check_name(value: object) -> str:
    """Return a job name, or raise."""
    return check_name_of("name", value)


def check_alias(value: object) -> str:
    """Return the alias of an executor or a job store, or raise."""
    return check_name_of("alias", value)


def check_name_of(field: str, value: object) -> str:
    """Return a name of any kind, or raise."""
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"{field} must be a nonempty string, got {shown(value)}", field=field, value=value)
    return _check_text(field, value)


def check_timeout(value: object) -> float | None:
    """Return a limit in seconds, or None for no limit, or raise."""
    number = value if value is None or isinstance(value, str) else _as_number(value)
    if value is not None and (number is None or isinstance(number, str) or number < 0):
        raise InvalidOption(
            f"timeout must be None or a number of seconds, got {shown(value)}", field="timeout", value=value
        )
    return cast("float | None", number)


def _check_text(field: str, value: str, limit: int = MAX_NAME) -> str:
    if len(value) > limit:
        raise InvalidOption(
            f"{field} must be at most {limit} characters long, got {len(value)}", field=field, value=value[:limit]
        )
    if not value.isprintable() and any(is_control(character) for character in value):
        raise InvalidOption(
            f"{field} must not contain control characters, got {shown(value)}", field=field, value=value
        )
    return value


_REVERSING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_control(character: str) -> bool:
    """Tell whether a character could end a line, steer a terminal, reverse text or not be encoded at all."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _REVERSING


def _check_executor(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"executor must be a string, got {shown(value)}", field="executor", value=value)
    return _check_text("executor", value)


def _check_misfire_grace_time(value: object) -> float | None:
    return _seconds_or_none(
        "misfire_grace_time", value, "either None or a positive integer (or a number of seconds)"
    )


def _check_timeout_option(value: object) -> float | None:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    expected = "None or a number of seconds above 0"
    if isinstance(value, bool):
        raise _unfit("timeout", expected, value)
    return _seconds_or_none("timeout", seconds, expected)


def _seconds_or_none(field: str, value: object, expected: str) -> float | None:
    if value is None or (isinstance(value, str) and value == "None"):
        return None
    number = _as_number(value)
    if number is None or number <= 0:
        raise _unfit(field, expected, value)
    return number


def _unfit(field: str, expected: str, value: object) -> InvalidOption:
    return InvalidOption(f"{field} must be {expected}, got {shown(value)}", field=field, value=value)


def _check_max_instances(value: object) -> int:
    return _positive("max_instances", value)


def _check_max_crashes(value: object) -> int:
    if isinstance(value, bool):
        raise _unfit("max_crashes", "a positive integer", value)
    return _positive("max_crashes", value)


def _positive(field: str, value: object) -> int:
    number = _as_number(value)
    if number is None or number < 1 or number != int(number):
        raise InvalidOption(f"{field} must be a positive integer, got {shown(value)}", field=field, value=value)
    return int(number)


def _check_priority(value: object) -> int:
    number = _as_number(value)
    if number is None or isinstance(value, bool) or number not in PRIORITIES:
        raise InvalidOption(
            f"priority must be a whole number from 0, the most urgent, to 9, got {shown(value)}",
            field="priority",
            value=value,
        )
    return int(number)


def _check_overlap(value: object) -> str:
    return _one_of("overlap", value, OVERLAPS)


def _check_on_crash(value: object) -> str:
    return _one_of("on_crash", value, ON_CRASH)


def _one_of(field: str, value: object, known: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in known:
        return value
    raise _unfit(field, f"one of {', '.join(known)}", value)


def _check_limits(value: object) -> tuple[Limit, ...]:
    try:
        return limits_of(value)
    except InvalidArgument as error:
        raise InvalidOption(str(error), field=error.field, value=value) from None


def _as_number(value: object) -> float | None:
    """Return a number of sensible size, also from the text of an ini file; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value) if "." in value else int(value)
        except ValueError:
            return None
    try:
        return value if isinstance(value, (int, float)) and math.isfinite(value) else None
    except OverflowError:
        return None


def _check_coalesce(value: object) -> bool:
    return _boolean("coalesce", value)


def _check_auto_remove(value: object) -> bool:
    if not isinstance(value, (bool, str)):
        raise _unfit("auto_remove", "a boolean", value)
    return _boolean("auto_remove", value)


def _boolean(field: str, value: object) -> bool:
    try:
        return asbool(value)
    except ValueError:
        raise InvalidOption(f"{field} must be a boolean, got {shown(value)}", field=field, value=value) from None


def _check_retry(value: object) -> Retry | None:
    try:
        return Retry.of(value)
    except InvalidArgument as error:
        raise InvalidOption(str(error), field=error.field, value=value) from None


def _check_dead_letter(value: object) -> bool | None:
    if value is None or isinstance(value, (bool, str)):
        with suppress(ValueError):
            return None if value is None else asbool(value)
    raise InvalidOption(
        f"dead_letter must be None or a boolean, got {shown(value)}", field="dead_letter", value=value
    )


def _check_tags(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(f"tags must be a collection of strings, got {shown(value)}", field="tags", value=value)
    tags = tuple(value)
    for tag in tags:
        if not isinstance(tag, str) or not tag:
            raise InvalidOption(f"tags must be nonempty strings, got {shown(tag)}", field="tags", value=value)
        _check_text("tags", tag)
    return tags


def _check_description(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidOption(f"description must be a string, got {shown(value)}", field="description", value=value)
    if any(unicodedata.category(character) in ("Cc", "Cs") and character not in "\t\n" for character in value):
        raise InvalidOption(
            f"description must not contain control characters but tabs and line ends, got {shown(value)}",
            field="description",
            value=value,
        )
    return value


def _check_metadata(value: object) -> tuple[tuple[str, str], ...]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    expected = "a mapping of names to texts"
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise _unfit("metadata", expected, value)
    checked: dict[str, str] = {}
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[1], str):
            raise _unfit("metadata", expected, value)
        name, text = pair
        checked[check_name_of("metadata", name)] = _check_text("metadata", text, MAX_METADATA) if text else ""
    if sum(len(name.encode()) + len(text.encode()) for name, text in checked.items()) > MAX_METADATA:
        raise InvalidOption(f"metadata must have at most {MAX_METADATA} bytes", field="metadata", value=value)
    return tuple(sorted(checked.items()))


CHECKS: Mapping[str, Callable[[object], Any]] = {
    "executor": _check_executor,
    "misfire_grace_time": _check_misfire_grace_time,
    "coalesce": _check_coalesce,
    "max_instances": _check_max_instances,
    "retry": _check_retry,
    "dead_letter": _check_dead_letter,
    "timeout": _check_timeout_option,
    "priority": _check_priority,
    "overlap": _check_overlap,
    "limits": _check_limits,
    "on_crash": _check_on_crash,
    "max_crashes": _check_max_crashes,
    "auto_remove": _check_auto_remove,
    "tags": _check_tags,
    "description": _check_description,
    "metadata": _check_metadata,
}
