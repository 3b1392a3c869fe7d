"""Timing, fresh processes and tables, shared by the benchmarks.

Every measurement runs in an interpreter of its own, so that no contender meets the other's garbage or threads, and the
contenders take turns, so that a noisy moment of the machine does not fall on one of them alone.
"""

from __future__ import annotations

import importlib
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
OURS = "goscheduler"
THEIRS = "apscheduler"
CONTENDERS = (OURS, THEIRS)


class Sample(NamedTuple):
    """The values one contender reached, one per round."""

    values: tuple[float, ...]
    form: str = "{:,.0f}"
    unit: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        """Show the median and, for the noise of the machine, the least and the greatest value."""
        middle, low, high = (self.form.format(value) for value in (self.median, min(self.values), max(self.values)))
        return f"{middle}{self.unit}" if low == high else f"{middle}{self.unit} ({low}–{high})"


class Row(NamedTuple):
    """One line of the final table."""

    bench: str
    ours: str
    theirs: str
    ratio: str
    bar: str
    holds: bool | None
    """None where nothing was promised."""


def compare(bench: str, ours: Sample, theirs: Sample, *, at_least: float, lower_is_better: bool = False) -> Row:
    """Return the row for a bar of the kind "``at_least`` times as good as the other", judged by medians."""
    gain = theirs.median / ours.median if lower_is_better else ours.median / theirs.median
    return Row(bench, str(ours), str(theirs), f"{gain:.2f}×", f"≥ {at_least:g}×", gain >= at_least)


def without_bar(row: Row) -> Row:
    """Return a row that shows the ratio and promises nothing."""
    return row._replace(bar="–", holds=None)


def within(bench: str, ours: Sample, *, limit: float, theirs: str = "–") -> Row:
    """Return the row for a bar of the kind "not above ``limit``", judged by the median."""
    bar = f"≤ {ours.form.format(limit)}{ours.unit}"
    return Row(bench, str(ours), theirs, "–", bar, ours.median <= limit)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that this share of all values does not exceed."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


def take_turns(rounds: int, contenders: Sequence[str], measure: Callable[[str], Any]) -> dict[str, list[Any]]:
    """Return what ``measure`` gave for each contender in each round, the contenders alternating."""
    results: dict[str, list[Any]] = {contender: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            results[contender].append(measure(contender))
    return results


def in_fresh_process(module: str, function: str, *arguments: object) -> Any:
    """Return what ``module.function(*arguments)`` returns, called in a new interpreter; JSON goes both ways."""
    command = [sys.executable, str(HERE / "measure.py"), module, function, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module}.{function}{arguments} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def print_table(rows: Sequence[Row]) -> None:
    """Print ``bench | ours | the other | ratio | bar | holds?``."""
    header = ("bench", "goscheduler", "APScheduler 3.11.3, peer", "ratio", "bar", "holds?")
    verdict = {True: "yes", False: "NO", None: ""}
    lines = [header, *((*row[:5], verdict[row.holds]) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for number, line in enumerate(lines):
        print(" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        if number == 0:
            print("-|-".join("-" * width for width in widths))


def _serve() -> None:
    """Answer one :func:`in_fresh_process`."""
    module, function, arguments = sys.argv[1:]
    print(json.dumps(getattr(importlib.import_module(module), function)(*json.loads(arguments))))


if __name__ == "__main__":
    _serve()
