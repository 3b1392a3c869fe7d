"""The attempts at a run along one line of time: when it was due, when each attempt began, when it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from goscheduler.web.pages.formats import Times, badge_of, duration

WIDTH, LEFT, TOP, HEIGHT_OF_ROW = 640.0, 92.0, 2.0, 22.0
BELOW = 18.0
#: What took no time to speak of can be seen.
LEAST_WIDTH = 3.0

Row = Mapping[str, Any]


class Stretch(NamedTuple):
    """A part of an attempt: it waits, or its function runs."""

    x: float
    y: float
    width: float
    tone: str
    """Empty while it waits."""
    title: str


class Label(NamedTuple):
    """The name of an attempt."""

    y: float
    text: str


@dataclass(frozen=True)
class Timeline:
    """A drawing. The page tells the same of each attempt in words."""

    width: float
    height: float
    left: float
    """Where the line of time begins."""
    stretches: Sequence[Stretch]
    labels: Sequence[Label]
    begin: str
    end: str


def timeline_of(attempts: Sequence[Row], live: Row | None, times: Times) -> Timeline | None:
    """Return the timeline of a run, given its attempts, the newest first, and where it stands; None without any time.
    """
    rows = [*reversed(attempts), *([] if live is None or not live["started_at"] else [_as_attempt(live, times.now)])]
    if not rows:
        return None
    begin = times.parsed(rows[0]["scheduled_at"])
    begin = min([begin, *(times.parsed(row["started_at"]) for row in rows if row["started_at"])])
    end = max(times.parsed(row["finished_at"]) for row in rows)
    scale = (WIDTH - LEFT) / max((end - begin).total_seconds(), 1e-6)
    stretches: list[Stretch] = []
    since = begin
    for number, row in enumerate(rows):
        stretches += _parts(row, since, begin, scale, TOP + number * HEIGHT_OF_ROW, times)
        since = times.parsed(row["finished_at"])
    labels = [Label(TOP + (number + 0.66) * HEIGHT_OF_ROW, f"attempt {row['attempt']}") for number, row in
              enumerate(rows)]  # fmt: skip
    height = TOP + len(rows) * HEIGHT_OF_ROW + BELOW
    return Timeline(WIDTH, height, LEFT, stretches, labels, f"due {times.short(begin)}", times.short(end))


def _as_attempt(live: Row, now: datetime) -> dict[str, Any]:
    """Return an attempt that goes on as if it ended now."""
    return {**live, "finished_at": now, "outcome": "running"}


def _parts(row: Row, since: datetime, begin: datetime, scale: float, y: float, times: Times) -> list[Stretch]:
    ended = times.parsed(row["finished_at"])
    started = times.parsed(row["started_at"]) if row["started_at"] else None
    until = started or ended
    parts = []
    if until > since:
        waited = (until - since).total_seconds()
        parts.append(_stretch(since, until, begin, scale, y, "", f"waited {duration(waited)}"))
    tone, word = badge_of(row["outcome"]).tone, row["outcome"]
    told = word if started is None else f"{word} after {duration((ended - started).total_seconds())}"
    parts.append(_stretch(until, ended, begin, scale, y, tone, f"attempt {row['attempt']}: {told}"))
    return parts


def _stretch(
    start: datetime, end: datetime, begin: datetime, scale: float, y: float, tone: str, title: str
) -> Stretch:
    width = max(LEAST_WIDTH, (end - start).total_seconds() * scale)
    x = min(LEFT + (start - begin).total_seconds() * scale, WIDTH - width)
    return Stretch(round(x, 1), round(y, 1), round(width, 1), tone, title)
