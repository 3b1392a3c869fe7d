"""Reads a trigger that somebody has written as text or JSON. Only the built-in ones can be named: none of them runs
code of the user's, and none of them imports anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from goscheduler.errors import GoSchedulerError, InvalidArgument, shown
from goscheduler.plugins import BUILT_IN, create_trigger
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendar import on_calendar
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.every import is_every, read_every

LONGEST_TRIGGER = 200
#: So many triggers may be combined, and so deep.
MOST_PARTS, DEEPEST = 20, 3

TYPES = frozenset({*BUILT_IN["trigger"], "crontab"}) - {"after"}

_DATE = re.compile(r"\s*\d{4}-\d")
EXPECTED = 'a crontab line, "every 5m", "every mon-fri at 09:00", a date and time, or an object with a type'


def trigger_of(value: Any, zone: tzinfo, field: str = "trigger") -> BaseTrigger:
    """Return the trigger that a text or an object describes; times without a zone are in ``zone``.

    A text is a crontab line of five fields, or six with seconds; a sentence such as "every 5m" or "every mon-fri at
    09:00"; or a date and time. An object has ``type``, such as "cron", and the arguments of that trigger; of "and" and
    "or" ``triggers``, a list; of "crontab" a ``line``. ``calendar`` is the name of one, beside ``on_closed``.

    :raises InvalidArgument: naming the field
    """
    try:
        return _read(value, zone, field, 0)
    except InvalidArgument as error:
        if (error.field or "").startswith(field):
            raise
        raise InvalidArgument(f"{field}: {error}", field=f"{field}.{error.field}" if error.field else field) from error
    except (GoSchedulerError, ValueError, TypeError, OverflowError) as error:
        raise InvalidArgument(f"{field}: {error}", field=field, value=value) from error


def _read(value: Any, zone: tzinfo, field: str, depth: int) -> BaseTrigger:
    if isinstance(value, str):
        return _from_text(value, zone, field)
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{field} must be {EXPECTED}, got {shown(value)}", field=field, value=value)
    options = dict(value)
    name = options.pop("type", None)
    if not isinstance(name, str) or name not in TYPES:
        known = ", ".join(sorted(TYPES))
        raise InvalidArgument(f"{field}.type must be one of {known}, got {shown(name)}", field=f"{field}.type")
    for option, given in options.items():
        if isinstance(given, str) and len(given) > LONGEST_TRIGGER:
            raise _too_long(f"{field}.{option}")
    if name == "crontab":
        around = {name: options.pop(name) for name in ("calendar", "on_closed") if name in options}
        line = CronTrigger.from_crontab(options.pop("line", ""), **{"timezone": zone, **options})
        return on_calendar(line, around)
    if name in ("and", "or"):
        options["triggers"] = _parts(options.get("triggers"), zone, field, depth)
    trigger: BaseTrigger = create_trigger(name, options, zone)
    return trigger


def _from_text(text: str, zone: tzinfo, field: str) -> BaseTrigger:
    if len(text) > LONGEST_TRIGGER:
        raise _too_long(field)
    if _DATE.match(text):
        return DateTrigger(text.strip(), zone)
    if is_every(text):
        return read_every(text, zone)
    return CronTrigger.from_crontab(text, zone, seconds=len(text.split()) == 6)


def _parts(given: Any, zone: tzinfo, field: str, depth: int) -> list[BaseTrigger]:
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_PARTS or depth >= DEEPEST:
        raise InvalidArgument(
            f"{field}.triggers must be a list of 1 to {MOST_PARTS} triggers, at most {DEEPEST} deep",
            field=f"{field}.triggers",
        )
    return [_read(part, zone, f"{field}.triggers[{number}]", depth + 1) for number, part in enumerate(given)]


def _too_long(field: str) -> InvalidArgument:
    return InvalidArgument(f"{field} may have {LONGEST_TRIGGER} characters", field=field)
