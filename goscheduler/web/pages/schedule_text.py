"""A schedule that somebody has typed: what kind it is, and how a program or a shell says the same."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goscheduler.errors import InvalidArgument
from goscheduler.times import parse_duration

DIALECTS = ("vixie", "apscheduler")
#: A line with seconds has one field more than others.
FIELDS_WITH_SECONDS = 6

IMPORT = "from goscheduler.triggers.cron import CronTrigger"

_DATE = re.compile(r"\d{4}-\d")
_EVERY = re.compile(r"every\s+(.+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Typed:
    """A schedule as it was typed."""

    text: str
    kind: str
    """"crontab", "every", "date" or "object"."""
    options: Mapping[str, Any]
    """Of an object: what it says."""

    @property
    def has_seconds(self) -> bool:
        """Whether it is a crontab line with a field for seconds."""
        return self.kind == "crontab" and len(self.text.split()) == FIELDS_WITH_SECONDS

    def trigger(self, dialect: str) -> Any:
        """Return it as operations take it."""
        if self.kind == "object":
            return dict(self.options)
        if self.kind != "crontab":
            return self.text
        return {"type": "crontab", "line": self.text, "dialect": dialect, "seconds": self.has_seconds}


def typed(text: str) -> Typed:
    """Return what a text is meant to be.

    :raises InvalidArgument: for JSON that is none
    """
    text = text.strip()
    if text.startswith("{"):
        return Typed(text, "object", _object(text))
    if _DATE.match(text):
        return Typed(text, "date", {})
    return Typed(text, "every" if _EVERY.fullmatch(text) else "crontab", {})


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"the schedule begins like JSON and is none: {error}", field="text") from error
    assert isinstance(found, dict), "it begins with a brace"
    return found


def python_of(given: Typed, zone: str, dialect: str) -> str | None:
    """Return how a program says it; None for what takes more than a line."""
    if given.kind == "crontab":
        more = [repr(given.text), repr(zone)]
        more += [f"dialect={dialect!r}"] if dialect != DIALECTS[0] else []
        more += ["seconds=True"] if given.has_seconds else []
        return f"{IMPORT}\n\nscheduler.add_job(task, CronTrigger.from_crontab({', '.join(more)}))"
    if given.kind == "every":
        every = _EVERY.fullmatch(given.text)
        assert every is not None, "that made it this kind"
        return f"scheduler.add_job(task, 'interval', seconds={parse_duration(every[1]).total_seconds():g})"
    if given.kind == "date":
        return f"scheduler.add_job(task, 'date', run_date={given.text!r}, timezone={zone!r})"
    name = given.options.get("type")
    if name in ("and", "or", "crontab") or not all(str(option).isidentifier() for option in given.options):
        return None
    options = {key: value for key, value in given.options.items() if key != "type"}
    options.setdefault("timezone", zone)
    return f"scheduler.add_job(task, {name!r}, {', '.join(f'{key}={value!r}' for key, value in options.items())})"


def cli_of(given: Typed, zone: str, dialect: str, count: int) -> str | None:
    """Return the command that shows the same times; None where there is none."""
    if given.kind != "crontab":
        return None
    parts = ["goscheduler", "next", given.text, "--tz", zone, "--count", str(count)]
    parts += ["--dialect", dialect] if dialect != DIALECTS[0] else []
    parts += ["--seconds"] if given.has_seconds else []
    return shlex.join(parts)
