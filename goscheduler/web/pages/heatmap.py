"""Where the cells of a heat map of time stand. Templates draw them as SVG; nothing here asks anything."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from goscheduler.web.pages.formats import many

LEVELS = 5
WIDTH, LEFT, TOP = 1000.0, 62.0, 18.0
HEIGHT_OF_ROW = 27.0
COLUMNS = 24
#: Values above this share of the largest are told apart all the same.
ALIKE = 0.85
#: Below 1, so that colours of small values differ more.
FLATTENED = 0.7
#: Between two cells.
GAP = 2.0


#: The values between which colours differ.
Scale = tuple[float, float]


class Cell(NamedTuple):
    """A stretch of time."""

    x: float
    y: float
    width: float
    height: float
    level: int
    """0 for nothing, 5 for the most."""
    text: str
    title: str
    at: str
    turns: bool
    """Whether a clock is changed in it."""


class Label(NamedTuple):
    """A text beside a row or above a column."""

    x: float
    y: float
    text: str
    turns: bool = False


class Load(NamedTuple):
    """A stretch of time, and how much fires in it."""

    start: datetime
    firings: int
    turns: bool
    is_over: bool = False


@dataclass(frozen=True)
class HeatMap:
    """A drawing."""

    width: float
    height: float
    cells: Sequence[Cell]
    rows: Sequence[Label]
    columns: Sequence[Label]
    total: int
    busiest: Load | None
    quiet: Load | None
    """The hour in which the least fires."""
    table: Sequence[Sequence[str]]
    """The cells to come in which something fires, in words; the first row names the columns."""


def loads_of(
    buckets: Sequence[Mapping[str, Any]], executor: str | None, length: timedelta, now: datetime
) -> list[Load]:
    """Return what fires in each bucket of a forecast, in the zone of ``now``: all, or what one executor runs."""
    return [
        Load(
            datetime.fromisoformat(each["start"]).astimezone(now.tzinfo),
            each["firings"] if executor is None else each["by_executor"].get(executor, 0),
            each["clock_changes"],
            datetime.fromisoformat(each["start"]) + length <= now,
        )
        for each in buckets
    ]


def day_map(loads: Sequence[Load], minutes: int = 10) -> HeatMap:
    """Return a map with a column for each hour, however long the day is, and a row for each part of the hour."""
    parts = 60 // minutes
    places = [(number % parts, number // parts) for number in range(len(loads))]
    rows = [f":{part * minutes:02d}" for part in range(parts)]
    hours = [f"{load.start:%H}" for load in loads[::parts]]
    return _map(loads, places, rows, hours, parts)


def week_map(loads: Sequence[Load]) -> HeatMap:
    """Return a map with a row for each date and a column for each hour of the clock; a repeated hour has two cells."""
    dates = list(dict.fromkeys(load.start.date() for load in loads))
    places = [(dates.index(load.start.date()), load.start.hour) for load in loads]
    return _map(loads, places, [f"{date:%a %d}" for date in dates], [f"{hour:02d}" for hour in range(COLUMNS)], 1)


def _map(
    loads: Sequence[Load], places: Sequence[tuple[int, int]], rows: Sequence[str], columns: Sequence[str], in_hour: int
) -> HeatMap:
    step = (WIDTH - LEFT) / max(len(columns), COLUMNS)
    scale = scale_of([load.firings for load in loads])
    sharing: defaultdict[tuple[int, int], list[Load]] = defaultdict(list)
    for load, place in zip(loads, places, strict=True):
        sharing[place].append(load)
    cells = [
        _cell(load, place, step / len(several), number, step, scale)
        for place, several in sharing.items()
        for number, load in enumerate(several)
    ]
    turning = {row for load, (row, _) in zip(loads, places, strict=True) if load.turns and in_hour == 1}
    return HeatMap(
        WIDTH, TOP + len(rows) * HEIGHT_OF_ROW, cells,
        [Label(0, _round(TOP + (row + 0.62) * HEIGHT_OF_ROW), text, row in turning) for row, text in enumerate(rows)],
        [Label(_round(LEFT + (column + 0.5) * step), 11, text) for column, text in enumerate(columns)],
        sum(load.firings for load in loads), max(loads, key=lambda load: load.firings, default=None),
        _quiet(loads, in_hour),
        [("From", "Firings"), *(_words(load) for load in loads if load.firings)],
    )  # fmt: skip


def _words(load: Load) -> tuple[str, str]:
    return f"{load.start:%a %d %b %H:%M}", f"{load.firings:,}"


def _cell(load: Load, place: tuple[int, int], width: float, number: int, step: float, scale: Scale) -> Cell:
    row, column = place
    nothing = "has passed" if load.is_over else "nothing fires"
    told = many(load.firings, "firing") if load.firings else nothing
    turn = ", the clock is changed" if load.turns else ""
    return Cell(
        _round(LEFT + column * step + number * width), _round(TOP + row * HEIGHT_OF_ROW), _round(width - GAP),
        HEIGHT_OF_ROW - GAP, level_of(load.firings, scale), short(load.firings),
        f"{load.start:%a %d %b %H:%M}: {told}{turn}", load.start.isoformat(), load.turns,
    )  # fmt: skip


def scale_of(values: Sequence[int]) -> Scale:
    """Return the values between which colours differ: where all are much the same, small differences show too."""
    known = sorted(value for value in values if value > 0)
    if not known:
        return 0.0, 1.0
    most = known[-1]
    return min(known[len(known) // 20], ALIKE * most), most


def level_of(value: int, scale: Scale) -> int:
    """Return how strong a cell is; one peak does not make all others look the same."""
    low, most = scale
    if value <= 0:
        return 0
    share: float = max(0.0, value - low) / (most - low)
    return max(1, math.ceil(LEVELS * math.pow(share, FLATTENED)))


def short(value: int) -> str:
    """Return a count in at most four characters; nothing for none."""
    if value < 10_000:
        return str(value) if value else ""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value // size}{unit}"
    return str(value)


def _quiet(loads: Sequence[Load], in_hour: int) -> Load | None:
    """Return the hour to come in which the least fires; the one that goes on is left out."""
    hours = [
        Load(loads[start].start, sum(load.firings for load in loads[start : start + in_hour]), False)
        for start in range(in_hour, len(loads) - in_hour + 1, in_hour)
    ]
    return min(hours, key=lambda load: load.firings, default=None)


def _round(value: float) -> float:
    return round(value, 1)
