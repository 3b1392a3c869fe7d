"""Where the marks of a chart stand. Templates draw them as SVG; nothing here asks anything or knows a colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Steps of an axis: the largest value of it is four of these, times a power of ten.
_STEPS = (1.0, 1.25, 2.0, 2.5, 5.0, 10.0)
_QUARTERS = 4
#: A mark that is there can be seen.
LEAST_HEIGHT = 2.0
#: A chart of few runs has room for more, so that its bars are no blocks.
LEAST_PLACES = 40


class Mark(NamedTuple):
    """A text beside an axis."""

    at: float
    text: str
    anchor: str = "start"


class Bar(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    title: str
    link: str = ""
    radius: float = 0.5


class Column(NamedTuple):
    """What one place of a bar chart stands for: parts from the bottom to the top, and what they mean in words."""

    title: str
    parts: Sequence[tuple[str, float]]
    """Tone and value."""
    link: str = ""


class Line(NamedTuple):
    """A line, in parts where values are missing."""

    name: str
    tone: str
    paths: Sequence[str]
    label_at: float


@dataclass(frozen=True)
class Chart:
    """A drawing of ``width`` by ``height``; marks stand between ``left`` and ``right`` from its edges."""

    width: float = 640
    height: float = 192
    left: float = 32
    right: float = 2
    top: float = 8
    bottom: float = 20
    ticks: Sequence[Mark] = ()
    labels: Sequence[Mark] = ()
    bars: Sequence[Bar] = field(default=())
    lines: Sequence[Line] = field(default=())
    table: Sequence[Sequence[str]] = ()
    """The same in words, for whoever does not see it; the first row names the columns."""

    @property
    def depth(self) -> float:
        """The height that is left for marks."""
        return self.height - self.top - self.bottom

    @property
    def breadth(self) -> float:
        """The width that is left for marks."""
        return self.width - self.left - self.right


def bar_chart(columns: Sequence[Column], labels: Sequence[tuple[float, str]]) -> Chart:
    """Return stacked bars; ``labels`` say at which share of the width which text stands."""
    frame = Chart()
    most = nice_maximum(max((sum(value for _, value in each.parts) for each in columns), default=0))
    step = frame.breadth / max(1, len(columns))
    bars: list[Bar] = []
    for number, column in enumerate(columns):
        foot = frame.height - frame.bottom
        for tone, value in column.parts:
            tall = value / most * frame.depth
            if value > 0:
                foot -= tall
                bars.append(_bar(frame.left + number * step, foot, step * 0.88, tall, tone, column))
    quarters = [most * each / _QUARTERS for each in range(_QUARTERS + 1)]
    ticks = [Mark(_round(frame.height - frame.bottom - each / most * frame.depth), _figure(each)) for each in quarters]
    return Chart(ticks=ticks, labels=_labels(frame, labels), bars=bars)


def run_chart(columns: Sequence[Column], first: str, last: str) -> Chart:
    """Return one bar for each run, the newest at the right; its height is its one value beside those of the others."""
    frame = Chart(height=96, left=0, right=0, top=10, bottom=18)
    most = max((value for each in columns for _, value in each.parts), default=0) or 1.0
    step = frame.breadth / max(LEAST_PLACES, len(columns))
    bars = []
    for number, column in enumerate(columns):
        tone, value = column.parts[0]
        tall = max(LEAST_HEIGHT, value / most * frame.depth)
        bars.append(_bar(number * step, frame.height - frame.bottom - tall, step * 0.74, tall, tone, column, 1.5))
    end = min(1.0, len(columns) / LEAST_PLACES)
    labels = [(0.0, first), (end, last)] if len(columns) > LEAST_PLACES / 2 else [(0.0, first)]
    middle = Mark(_round(frame.top + frame.depth / 2), "")
    return Chart(
        height=frame.height, left=0, right=0, top=frame.top, bottom=frame.bottom, ticks=[middle],
        labels=[Mark(at * frame.width, text, "end" if at else "start") for at, text in labels], bars=bars,
    )  # fmt: skip


def line_chart(
    series: Sequence[tuple[str, str, Sequence[float | None]]], labels: Sequence[tuple[float, str]]
) -> Chart:
    """Return lines of times in seconds on a scale of powers of ten: name, tone and values of each."""
    frame = Chart(width=412, height=192, left=40, right=34)
    known = [value for _, _, values in series for value in values if value is not None and value > 0]
    low, high = _decades(known)

    def y_of(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return _round(frame.height - frame.bottom - share * frame.depth)

    lines = [
        _line(frame, name, tone, [None if each is None else y_of(each) for each in values])
        for name, tone, values in series
    ]
    ticks = [Mark(y_of(10.0**each), _seconds(each)) for each in range(low, high + 1)]
    return Chart(
        width=frame.width, left=frame.left, right=frame.right, ticks=ticks, labels=_labels(frame, labels),
        lines=_apart(lines),
    )  # fmt: skip


def _bar(x: float, y: float, width: float, height: float, tone: str, column: Column, radius: float = 0.5) -> Bar:
    return Bar(_round(x), _round(y), _round(width), _round(height), tone, column.title, column.link, radius)


def _line(frame: Chart, name: str, tone: str, heights: Sequence[float | None]) -> Line:
    step = frame.breadth / max(1, len(heights) - 1)
    paths: list[str] = []
    path, last = "", frame.height
    for number, y in enumerate(heights):
        if y is None:
            paths.append(path)
            path = ""
        else:
            path += f"{'L' if path else 'M'}{_round(frame.left + number * step):g} {y:g}"
            last = y
    return Line(name, tone, [each for each in [*paths, path] if each], _round(last + 3.5))


def _apart(lines: Sequence[Line]) -> list[Line]:
    """Return lines whose names do not stand on each other."""
    found: list[Line] = []
    for line in sorted(lines, key=lambda each: -each.label_at):
        lowest = found[-1].label_at - 11 if found and found[-1].paths else math.inf
        found.append(line._replace(label_at=_round(min(line.label_at, lowest))))
    return found


def _labels(frame: Chart, labels: Sequence[tuple[float, str]]) -> list[Mark]:
    anchors = {0.0: "start", 1.0: "end"}
    return [Mark(_round(frame.left + at * frame.breadth), text, anchors.get(at, "middle")) for at, text in labels]


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return powers of ten between which all values lie, at least three apart."""
    low = math.floor(math.log10(min(values))) if values else -3
    high = math.ceil(math.log10(max(values))) if values else 0
    low = max(-4, min(low, 0))
    return low, max(high, low + 3)


def nice_maximum(value: float) -> float:
    """Return a round number that is not less, and whose quarters are round too."""
    quarter = max(value, 1e-9) / _QUARTERS
    power: float = 10.0 ** math.floor(math.log10(quarter))
    steps = [step * power for step in _STEPS if step * power >= quarter * (1 - 1e-9)]
    wanted = _QUARTERS * steps[0]
    return max(4.0, wanted)


def _figure(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _seconds(power: int) -> str:
    if power < 0:
        return f"{10 ** (power + 3):g} ms"
    return f"{10**power:,} s"


def _round(value: float) -> float:
    return round(value, 1)
