"""Values as people read them on a page: times, lengths of time, counts, states."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

#: Seconds → unit.
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_ZONE = re.compile(r"\(([A-Za-z][A-Za-z0-9_+\-/]*)\)$")
#: JSON of so many characters stands on one line.
SHORT_JSON = 72


class Badge(NamedTuple):
    """How a state is shown: by an icon, a word and a colour."""

    icon: str
    word: str
    tone: str


#: State of a job, outcome of a run, state of a process or verdict → its badge.
BADGES: Mapping[str, Badge] = {
    "scheduled": Badge("clock", "scheduled", "quiet"),
    "pending": Badge("clock", "pending", "quiet"),
    "queued": Badge("clock", "queued", "quiet"),
    "waiting": Badge("clock", "waiting", "quiet"),
    "running": Badge("play", "running", "busy"),
    "completed": Badge("check", "completed", "good"),
    "paused": Badge("pause", "paused", "warn"),
    "suspended": Badge("alert", "suspended", "bad"),
    "no executor": Badge("alert", "nobody can run it", "warn"),
    "removed": Badge("dash", "removed", "quiet"),
    "succeeded": Badge("check", "succeeded", "good"),
    "failed": Badge("cross", "failed", "bad"),
    "timed out": Badge("cross", "timed out", "bad"),
    "missed": Badge("alert", "missed", "warn"),
    "skipped": Badge("dash", "skipped", "quiet"),
    "cancelled": Badge("dash", "cancelled", "quiet"),
    "lost": Badge("again", "lost", "warn"),
    "snoozed": Badge("again", "put back", "quiet"),
    "retrying": Badge("again", "retrying", "warn"),
    "dead": Badge("cross", "dead letter", "bad"),
    "ok": Badge("check", "ok", "good"),
    "done": Badge("check", "done", "good"),
    "stopped": Badge("pause", "stopped", "warn"),
    "going on": Badge("play", "going on", "busy"),
    "warning": Badge("alert", "warning", "warn"),
    "problem": Badge("cross", "problem", "bad"),
    "unknown": Badge("dash", "unknown", "quiet"),
    "delivering": Badge("play", "delivering", "busy"),
    "firing": Badge("alert", "firing", "bad"),
    "resolved": Badge("check", "resolved", "good"),
    "acknowledged": Badge("check", "acknowledged", "warn"),
    "silenced": Badge("pause", "silenced", "quiet"),
}


def badge_of(state: str | None) -> Badge:
    """Return how a state is shown; a state that is not known is shown by its own word."""
    word = state or "unknown"
    return BADGES.get(word, Badge("dash", word, "quiet"))


def duration(seconds: float | None) -> str:
    """Return a length of time in its two largest units: ``38 ms``, ``1.2 s``, ``3 m 12 s``, ``2 d 4 h``."""
    if seconds is None:
        return "–"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        thousandths = seconds * 1000
        return f"{thousandths:.1f} ms" if 0 < thousandths < 10 else f"{thousandths:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    return " ".join(_parts(round(seconds))[:2])


def distance(seconds: float) -> str:
    """Return how far a moment lies ahead or back: ``in 1 m 12 s``, ``3 s ago``, ``now``."""
    parts = _parts(round(abs(seconds)))
    if not parts:
        return "now"
    days = abs(seconds) >= 2 * 86_400
    text = " ".join(parts[: 1 if days else 2])
    return f"in {text}" if seconds > 0 else f"{text} ago"


def _parts(seconds: int) -> list[str]:
    parts: list[str] = []
    for size, unit in _UNITS:
        number, seconds = divmod(seconds, size)
        if number or parts:
            parts.append(f"{number} {unit}")
    return [part for index, part in enumerate(parts) if index == 0 or not part.startswith("0 ")]


def number(value: float | None) -> str:
    """Return a number with its thousands apart."""
    if value is None:
        return "–"
    return f"{value:,.1f}".removesuffix(".0") if isinstance(value, float) else f"{value:,}"


def count(view: Mapping[str, Any] | None) -> str:
    """Return a count, which may not be exact: ``37``, ``10,000+``."""
    if view is None:
        return "–"
    return f"{view['number']:,}{'' if view['exact'] else '+'}"


def many(value: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 job``, ``12,000 jobs``."""
    return f"{value:,} {noun if value == 1 else plural or f'{noun}s'}"


def percent(share: float | None) -> str:
    """Return a share of one: ``99.2 %``; only all of it is ``100 %``."""
    if share is None:
        return "–"
    text = f"{min(share * 100, 99.9) if share < 1 else 100:.1f}".removesuffix(".0")
    return f"{text} %"


def as_json(value: Any) -> str:
    """Return a value as JSON that people read: on one line if it is short."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if len(line) <= SHORT_JSON else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def brief(schedule: str) -> str:
    """Return a schedule in words without the moment from which it counts."""
    return schedule.partition(" from ")[0]


def zone_of_schedule(schedule: str) -> str | None:
    """Return the time zone that a schedule in words names at its end; None if it names none."""
    found = _ZONE.search(schedule)
    return found[1] if found else None


@dataclass(frozen=True)
class Times:
    """Moments as a page shows them: relative to when it was made, and absolute in one zone."""

    now: datetime
    zone: tzinfo

    def parsed(self, moment: str | datetime) -> datetime:
        """Return a moment of a view, in the zone of the page."""
        return (datetime.fromisoformat(moment) if isinstance(moment, str) else moment).astimezone(self.zone)

    def is_past(self, moment: str | datetime) -> bool:
        """Tell whether a moment is over."""
        return self.parsed(moment) < self.now

    def relative(self, moment: str | datetime) -> str:
        """Return how far away a moment is."""
        return distance((self.parsed(moment) - self.now).total_seconds())

    def absolute(self, moment: str | datetime) -> str:
        """Return date, time and offset."""
        return f"{self.parsed(moment):%a %d %b %Y %H:%M:%S %Z}"

    def short(self, moment: str | datetime) -> str:
        """Return date and time; the year only where it is another one."""
        found = self.parsed(moment)
        this_year = found.year == self.now.astimezone(self.zone).year
        return f"{found:%d %b %H:%M:%S}" if this_year else f"{found:%d %b %Y %H:%M}"

    def day(self, moment: str | datetime) -> str:
        """Return weekday, date, hour and minute; the second where it is not zero."""
        found = self.parsed(moment)
        return f"{found:%a %d %b %H:%M:%S}" if found.second else f"{found:%a %d %b %H:%M}"

    def hour(self, moment: str | datetime) -> str:
        """Return hour and minute."""
        return f"{self.parsed(moment):%H:%M}"

    def iso(self, moment: str | datetime) -> str:
        """Return a moment as programs read it."""
        return self.parsed(moment).isoformat()

    def since(self, moment: str | datetime) -> str:
        """Return how long ago a moment was, without "ago"."""
        return duration(max(0.0, (self.now - self.parsed(moment)).total_seconds()))
