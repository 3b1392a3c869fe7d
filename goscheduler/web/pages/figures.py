"""Figures of the last hours, as the overview draws them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from goscheduler.web.pages.charts import Chart, Column, bar_chart, line_chart
from goscheduler.web.pages.formats import Times, duration, many, number

#: Minutes of a window → what it is called, and how many columns it is drawn in.
WINDOWS = {60: ("1 h", 60), 480: ("8 h", 48), 4320: ("72 h", 72)}
#: Tone → the counters that it shows, from the bottom to the top.
PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("good", ("succeeded",)), ("warn", ("missed", "skipped", "lost", "cancelled")), ("bad", ("failed", "timed_out")),
)  # fmt: skip
QUANTILES = (("p99", "bad"), ("p95", "warn"), ("p50", "busy"))
LABELS = 5
RUNS_TABLE = ("From", "Succeeded", "Put off or lost", "Failed")


@dataclass
class Stretch:
    """Minutes that are drawn as one."""

    start: datetime
    seconds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lateness: dict[str, float | None] = field(default_factory=dict)
    """The highest of its minutes."""


def stretches(rows: Sequence[Mapping[str, Any]], columns: int) -> list[Stretch]:
    """Return the rows of ``stats`` in so many parts at most."""
    size = max(1, -(-len(rows) // columns))
    return [_stretch(rows[start : start + size]) for start in range(0, len(rows), size)]


def _stretch(rows: Sequence[Mapping[str, Any]]) -> Stretch:
    found = Stretch(datetime.fromisoformat(rows[0]["start"]))
    for row in rows:
        found.seconds += row["seconds"]
        found.counts.update(row["counts"])
        for name, value in row["lateness"].items():
            found.lateness[name] = max(filter(None, (found.lateness.get(name), value)), default=None)
    return found


def runs_chart(parts: Sequence[Stretch], times: Times) -> Chart:
    """Return how many runs ended in a minute, and how."""
    chart = bar_chart([_column(part, times) for part in parts], _labels(parts, times))
    rows = [
        (times.day(part.start), *(number(sum(part.counts[name] for name in names)) for _, names in PARTS))
        for part in reversed(parts)
    ]
    return replace(chart, table=[RUNS_TABLE, *rows])


def lateness_chart(parts: Sequence[Stretch], times: Times) -> Chart:
    """Return how late runs began."""
    series = [(name, tone, [part.lateness.get(name) for part in parts]) for name, tone in QUANTILES]
    labels = _labels(parts, times)
    rows = [
        (times.day(part.start), *(duration(part.lateness.get(name)) for name, _ in QUANTILES))
        for part in reversed(parts)
    ]
    return replace(line_chart(series, labels[:1] + labels[-1:]), table=[("From", *dict(QUANTILES)), *rows])


def _column(part: Stretch, times: Times) -> Column:
    minutes = part.seconds / 60
    told = [many(part.counts[name], name.replace("_", " "), name.replace("_", " "))
            for _, names in PARTS for name in names if part.counts[name]]  # fmt: skip
    values = [(tone, sum(part.counts[name] for name in names) / minutes) for tone, names in PARTS]
    return Column(f"{times.day(part.start)}, {duration(part.seconds)}: {', '.join(told) or 'nothing ended'}", values)


def _labels(parts: Sequence[Stretch], times: Times) -> list[tuple[float, str]]:
    if not parts:
        return []
    last = len(parts) - 1
    is_long = sum(part.seconds for part in parts) > 86_400
    text, steps = (times.day, 2) if is_long else (times.hour, LABELS - 1)
    shares = [at / steps for at in range(steps + 1)]
    return [(share, text(parts[round(share * last)].start)) for share in shares]


def succeeded_share(counts: Mapping[str, int]) -> float | None:
    """Return how many of the attempts that ended well or badly ended well; None if none did."""
    bad = sum(counts.get(name, 0) for name in ("failed", "timed_out", "lost"))
    ended = counts.get("succeeded", 0) + bad
    return counts.get("succeeded", 0) / ended if ended else None
