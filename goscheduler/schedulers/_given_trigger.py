"""Makes the trigger that the caller of ``add_job`` and the like means."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import Any

from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.plugins import create_trigger
from goscheduler.triggers.base import BaseTrigger


def given_trigger(
    trigger: BaseTrigger | str | None, options: Mapping[str, Any], zone: tzinfo, also_known: Collection[str]
) -> BaseTrigger:
    """Return a trigger given as one, by its name with options, in words, or not at all, which is "once, now".

    ``also_known`` are options that the caller itself takes, for the hint about a misspelt one.
    """
    if "after" in options and trigger not in (None, "after"):
        raise InvalidArgument("after takes the place of a trigger; give one of them", field="after", value=trigger)
    if trigger is None and "after" in options:
        trigger = "after"
    if trigger is None or (isinstance(trigger, str) and not _in_words(trigger)):
        created: BaseTrigger = create_trigger("date" if trigger is None else trigger, options, zone, also_known)
        return created
    if not isinstance(trigger, (str, BaseTrigger)):
        raise TypeError(f"Expected a trigger instance or string, got {type(trigger).__name__} instead")
    for name in options:
        if name not in ("calendar", "on_closed"):
            where = "a schedule in words" if isinstance(trigger, str) else "add_job beside a trigger instance"
            raise UnknownOption(name, {*also_known, "calendar", "on_closed"}, where=where)
    made = _read(trigger, zone) if isinstance(trigger, str) else trigger
    return _on_calendar(made, options) if options else made


def _in_words(trigger: str) -> bool:
    return trigger.lstrip()[:6].lower() == "every "


def _on_calendar(trigger: BaseTrigger, options: Mapping[str, Any]) -> BaseTrigger:
    from goscheduler.triggers.calendar import on_calendar  # few programs need it

    return on_calendar(trigger, options)


def _read(words: str, zone: tzinfo) -> BaseTrigger:
    from goscheduler.triggers.every import read_every  # few programs need it

    return read_every(words, zone)
