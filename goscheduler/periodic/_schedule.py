"""One schedule, checked when it is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from goscheduler import codec
from goscheduler.errors import InvalidArgument, NeverFires, UnknownOption, shown
from goscheduler.options import CHECKS, InvalidOption, check_job_id
from goscheduler.times import astimezone
from goscheduler.triggers.cron import CronTrigger

#: How urgent a word is: 0 is the most urgent, 9 the least.
PRIORITIES = {"high": 2, "normal": 5, "low": 8}
NORMAL = PRIORITIES["normal"]
LONGEST_NAME = 255
LARGEST_PAYLOAD = 1_000_000

_ID = re.compile(r"[A-Za-z0-9_-]+")
#: Options of a job that a schedule has fields of its own for.
_FIELDS = ("priority", "description")


@dataclass(frozen=True)
class Schedule:
    """A task, its payload, and the crontab line that says when.

    :raises InvalidArgument: naming the field that makes no sense; a TypeError where it is of a wrong type
    """

    id: str
    """Names the schedule, and the job that it becomes: letters, digits, ``_`` and ``-``."""
    cron: str
    """Five fields, or ``@hourly``, ``@daily``, ``@midnight``, ``@weekly``, ``@monthly``, ``@yearly``, ``@annually``."""
    job: str
    """The task that is called: a name, or ``module:function``. With a dispatch: its name in that queue."""
    payload: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    """The keyword arguments of the task, which may be secret; a copy is kept."""
    timezone: str = "UTC"
    """The zone, by its IANA name, whose wall clock ``cron`` means."""
    priority: str | int = "normal"
    """"high", "normal", "low", or a number from 0, the most urgent, to 9."""
    enabled: bool = True
    """False keeps the schedule and its state, and fires nothing."""
    description: str = ""
    """Free text for people."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further options of the job: ``timeout``, ``retry``, ``misfire_grace_time``, ``executor``, ``tags`` and so on."""

    def __post_init__(self) -> None:
        _check_id(self.id)
        _check_job(self.job)
        _check_zone(self.timezone)
        self.trigger()
        priority_number(self.priority)
        if not isinstance(self.enabled, bool):
            raise TypeError(f"enabled must be True or False, got {shown(self.enabled)}")
        _checked_option("description", self.description)
        object.__setattr__(self, "payload", _checked_payload(self.payload))
        object.__setattr__(self, "options", _checked_options(self.options))

    def trigger(self) -> CronTrigger:
        """Return the trigger that ``cron`` and ``timezone`` describe."""
        if not isinstance(self.cron, str):
            raise TypeError(f"cron must be a crontab line as text, got {shown(self.cron)}")
        try:
            return CronTrigger.from_crontab(self.cron, self.timezone, job_id=self.id)
        except InvalidArgument as error:
            kind = NeverFires if isinstance(error, NeverFires) else InvalidArgument
            raise kind(f"cron {shown(self.cron)} is not valid: {error}", field="cron", value=self.cron) from error

    def next_run(self, after: datetime) -> datetime | None:
        """Return the first fire time after a moment; None if there is none."""
        return self.trigger().get_next_fire_time(after, after)

    @property
    def urgency(self) -> int:
        """The priority as a number."""
        return priority_number(self.priority)


def priority_number(value: object) -> int:
    """Return the number of a priority that is given as a word or a number."""
    if isinstance(value, str) and value in PRIORITIES:
        return PRIORITIES[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in range(10):
        return value
    raise InvalidArgument(
        f"priority must be one of {', '.join(PRIORITIES)}, or a whole number from 0, the most urgent, to 9, "
        f"got {shown(value)}",
        field="priority",
        value=value,
    )


def check_word(name: str, value: object) -> str:
    """Return a text of letters, digits, ``_`` and ``-``, or raise."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {shown(value)}")
    if not _ID.fullmatch(value) or len(value) > LONGEST_NAME:
        raise InvalidArgument(
            f"{name} must be 1 to {LONGEST_NAME} letters, digits, _ and -, got {shown(value)}", field=name, value=value
        )
    return value


def _check_id(value: object) -> None:
    check_job_id(check_word("id", value))


def _check_job(value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"job must be the name of a task, got {shown(value)}")
    if not value.strip() or len(value) > LONGEST_NAME or not value.isprintable():
        raise InvalidArgument(
            f"job must be the name of a task, 1 to {LONGEST_NAME} printable characters, got {shown(value)}",
            field="job",
            value=value,
        )


def _check_zone(value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"timezone must be the IANA name of a zone, such as 'Europe/Berlin', got {shown(value)}")
    astimezone(value)


def _checked_payload(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"payload must be a mapping with the keyword arguments of the task, got {shown(value)}")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"payload must have strings as keys, got {shown(name)}")
    payload = deepcopy(dict(value))
    codec.dumps(payload, "payload", LARGEST_PAYLOAD)
    return payload


def _checked_options(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"options must be a mapping with options of add_job, got {shown(value)}")
    known = [name for name in CHECKS if name not in _FIELDS]
    for name in value:
        if name in _FIELDS:
            raise InvalidArgument(f"{name} is a field of the schedule, not one of its options", field="options")
        if name not in known:
            raise UnknownOption(str(name), known, where="the options of a schedule")
    return {name: _checked_option(name, option) for name, option in value.items()}


def _checked_option(name: str, value: object) -> Any:
    try:
        return CHECKS[name](value)
    except InvalidOption as error:
        raise InvalidArgument(str(error), field=name, value=value) from None
