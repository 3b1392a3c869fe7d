"""Tells which figures of a soak are flat: a table, and a picture of all of them over time.

A figure is flat if its slope in the second half of the time is below a bound. The slope is the median of those between
any two samples, so that a single jump, of a vacuum or of a busy machine, does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple
from xml.sax.saxutils import escape

MIB = 1024 * 1024
#: Fewer minutes than this say nothing about an hour.
LEAST_MINUTES = 20.0
#: Which share of the firings that were due in the second half must have begun in it.
LEAST_SHARE = 0.95
#: Verdict → exit status.
STATUS = {"FLAT": 0, "NOT FLAT": 1, "TOO SHORT": 2, "FLAT AT LESS LOAD": 2}

Points = Sequence[tuple[float, float]]
"""(minutes since the begin, value)."""


class Bound(NamedTuple):
    """How much a figure may grow in an hour: so much, or such a share of what it is, whichever is more."""

    absolute: float
    share: float = 0.0

    def of(self, level: float) -> float:
        return max(self.absolute, self.share * level)


#: What a name ends or begins with → its bound. What is not here is told, and not judged.
BOUNDS = {
    " rss": Bound(4 * MIB),
    " threads": Bound(0.5),
    " descriptors": Bound(0.5),
    "connections": Bound(0.5),
    "table ": Bound(1 * MIB, 0.1),
    "used_memory": Bound(1 * MIB, 0.05),
    "keys": Bound(100, 0.05),
}


class Figure(NamedTuple):
    """What became of one figure."""

    name: str
    first: float
    """The median of the first tenth of the time."""
    level: float
    """The median of the second half."""
    most: float
    slope: float
    """In the second half, for an hour."""
    bound: float | None

    @property
    def flat(self) -> bool | None:
        """None if nobody asks for that."""
        return None if self.bound is None else self.slope <= self.bound


def judge(name: str, points: Points) -> Figure:
    """Return what became of a figure that has these values."""
    end = points[-1][0]
    late = [(minute, value) for minute, value in points if minute >= end / 2]
    level = median(value for _, value in late)
    bound = next((bound for part, bound in BOUNDS.items() if name.startswith(part) or name.endswith(part)), None)
    first = median([value for minute, value in points if minute <= end / 10] or [points[0][1]])
    most = max(value for _, value in points)
    return Figure(name, first, level, most, slope(late), None if bound is None else bound.of(level))


def slope(points: Points) -> float:
    """Return by how much values grow in an hour: the median over all pairs of points."""
    slopes = [
        (later - earlier) / (end - begin) * 60
        for number, (begin, earlier) in enumerate(points)
        for end, later in points[number + 1 :]
        if end > begin
    ]
    return median(slopes) if slopes else 0.0


def read(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Return the figures of one store by name."""
    begun = json.loads((folder / "settings.json").read_text())["begun"]
    series: dict[str, list[tuple[float, float]]] = {}
    for sample in _lines(folder / "samples.jsonl"):
        minute = (sample.pop("t") - begun) / 60
        for name, value in sample.items():
            series.setdefault(name, []).append((minute, value))
    for number, file in enumerate(sorted(folder.glob("node-*.jsonl"))):
        before = begun
        for line in _lines(file):
            minute, seconds, before = (line["t"] - begun) / 60, line["t"] - before, line["t"]
            for name, value in _of_node(line, seconds).items():
                series.setdefault(f"node-{number} {name}", []).append((minute, value))
    return series


def _of_node(line: dict, seconds: float) -> dict[str, float]:
    fired = sum(line["begun"].get(kind, 0) for kind in ("steady", "flaky", "once", "message"))
    figures = {
        "firings a second": fired / seconds,
        "retries a second": line["begun"].get("retry", 0) / seconds,
        "pause ms": line["pause_ms"],
        "leases lost": line["begun"].get("LEASE_LOST", 0),
        "degraded": line["begun"].get("SCHEDULER_DEGRADED", 0),
    }
    return {**figures, **{f"late {name} ms": value for name, value in line["late"].items() if value is not None}}


def share_of_firings(series: dict[str, list[tuple[float, float]]], rate: float) -> float:
    """Return which share of what was due in the second half of the time has begun in it."""
    fired = [points for name, points in series.items() if name.endswith("firings a second")]
    halves = [[value for minute, value in points if minute >= points[-1][0] / 2] for points in fired]
    return sum(sum(half) / len(half) for half in halves) / rate


def report(out: Path) -> int:
    """Print and write a table of each store, and draw its figures; return 1 if one grows, 2 if that cannot be said."""
    texts, status = [], 0
    for folder in sorted(path.parent for path in out.glob("*/samples.jsonl")):
        series = read(folder)
        rate = json.loads((folder / "settings.json").read_text())["rate"]
        figures = [judge(name, points) for name, points in series.items()]
        minutes = max(points[-1][0] for points in series.values())
        share = share_of_firings(series, rate)
        verdict = verdict_of(figures, share, minutes)
        status = status if status == 1 else STATUS[verdict] or status
        begun = f"{share * rate:.0f} of {rate} firings a second in the second half"
        texts.append(f"## {folder.name}: {verdict}\n\n{minutes:.0f} minutes, {begun}\n\n{table(figures)}\n")
        (out / f"{folder.name}.svg").write_text(picture(f"{folder.name}: {verdict}", series), encoding="utf-8")
    text = "\n".join(texts)
    (out / "report.md").write_text(text, encoding="utf-8")
    print(text, f"Pictures and samples are in {out}", sep="\n")
    return status


def verdict_of(figures: Iterable[Figure], share: float, minutes: float) -> str:
    """Return what all figures together say; a machine that is too busy for the load tells nothing about that load."""
    if minutes < LEAST_MINUTES:
        return "TOO SHORT"
    if any(figure.flat is False for figure in figures):
        return "NOT FLAT"
    return "FLAT" if share >= LEAST_SHARE else "FLAT AT LESS LOAD"


def table(figures: Iterable[Figure]) -> str:
    head = "| figure | at first | second half | most | slope an hour | bound | verdict |"
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---|", *(_row(figure) for figure in figures)])


def _row(figure: Figure) -> str:
    values = [figure.first, figure.level, figure.most, figure.slope]
    shown = [_shown(figure.name, value) for value in values]
    bound = "" if figure.bound is None else _shown(figure.name, figure.bound)
    verdict = {None: "", True: "flat", False: "**grows**"}[figure.flat]
    return f"| {' | '.join([figure.name, *shown, bound, verdict])} |"


def _shown(name: str, value: float) -> str:
    in_bytes = name.endswith(" rss") or name.startswith("table ") or name == "used_memory"
    return f"{value / MIB:.2f} MiB" if in_bytes else f"{value:.1f}" if value % 1 else f"{value:.0f}"


def picture(title: str, series: dict[str, list[tuple[float, float]]]) -> str:
    """Return an SVG with one small chart a figure."""
    columns, width, height = 3, 380, 110
    rows = -(-len(series) // columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * width}" height="{rows * height + 30}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="18" font-size="14">{escape(title)}</text>',
    ]
    for number, (name, points) in enumerate(series.items()):
        x, y = number % columns * width, number // columns * height + 30
        parts.append(f'<g transform="translate({x} {y})">{_chart(name, points, width - 20, height - 40)}</g>')
    return "".join([*parts, "</svg>"])


def _chart(name: str, points: Points, width: int, height: int) -> str:
    end = points[-1][0] or 1.0
    top = max(value for _, value in points) or 1.0
    places = " ".join(
        f"{10 + minute / end * width:.1f},{20 + height - value / top * height:.1f}" for minute, value in points
    )
    return (
        f'<text x="10" y="12">{escape(name)}, at most {_shown(name, top)}, {end:.0f} min</text>'
        f'<rect x="10" y="20" width="{width}" height="{height}" fill="none" stroke="#ccc"/>'
        f'<polyline points="{places}" fill="none" stroke="#1f5fa8"/>'
    )


def _lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]
