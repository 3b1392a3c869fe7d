"""Views as words: when a message comes again, what a limit allows, how a field has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from goscheduler.web.pages.formats import duration, many, number

#: The longest value that stands in a line.
LONGEST_LINE = 120


def recurs(recurrence: Mapping[str, Any]) -> str:
    """Return when a message comes again."""
    cron, interval = recurrence["cron"], recurrence["interval"]
    text = f"every {duration(interval)}" if cron is None else f"{cron} ({recurrence['timezone']})"
    if recurrence["max_occurrences"] is not None:
        text += f", {many(recurrence['max_occurrences'], 'time')} in all"
    elif recurrence["until"] is not None:
        text += f", until {datetime.fromisoformat(recurrence['until']):%Y-%m-%d %H:%M %Z}"
    return text


def use_of(limit: Mapping[str, Any]) -> str:
    """Return how much of a limit is in use."""
    most = limit["concurrency"]
    return f"{number(limit['live'])} running" if most is None else f"{number(limit['live'])} of {number(most)}"


def starts_of(limit: Mapping[str, Any]) -> list[str]:
    """Return how many runs started within each window of a limit."""
    return [f"{number(starts)} in {duration(float(window))}" for window, starts in limit["starts"].items()]


def is_full(limit: Mapping[str, Any]) -> bool:
    """Tell whether a limit keeps runs from starting, as far as its figures are known."""
    return bool(limit["waiting"]) or (limit["concurrency"] is not None and limit["live"] >= limit["concurrency"])


def value(given: Any) -> str:
    """Return a value on one line that is not long."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def told(entry: Mapping[str, Any]) -> str:
    """Return what an entry of the audit was about, on one line."""
    outcome, given = entry["outcome"], entry["arguments"]
    if isinstance(outcome, Mapping) and isinstance(outcome.get("filters"), Mapping):
        given = {"act": outcome.get("act"), **outcome["filters"]}
    shown = [f"{key} {_listed(item)}" for key, item in given.items() if item not in (None, False)]
    return value("; ".join(shown))


def _listed(item: Any) -> str:
    if isinstance(item, Mapping):
        return ", ".join(f"{key} {value(part)}" for key, part in item.items())
    return ", ".join(map(str, item)) if isinstance(item, list) else value(item)


def fire_times(view: Mapping[str, Any]) -> list[str]:
    """Return the moments of a trigger that is explained."""
    return [time["at"] for time in view["times"]]


def common(one: list[str], other: list[str]) -> int:
    """Return how many moments two lists have in common."""
    return len(set(one) & set(other))


def wall(moment: str) -> str:
    """Return what clock and calendar show at a moment, in the zone that it is told in."""
    return f"{datetime.fromisoformat(moment):%a %Y-%m-%d %H:%M:%S}"
