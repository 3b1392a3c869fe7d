"""How long it took after each fault of a run: until something was started again, and until lost runs were taken up."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

#: Faults after which a process does not end the runs that it had.
LOSING = ("kill", "freeze", "freeze_in_call", "blackhole", "drop_replies")
#: Groups of the workload whose runs wait for others, also after a fault.
WAITING = ("queue", "narrow", "wide", "both", "once-limited")


class Measure(NamedTuple):
    """What came after one fault."""

    fault: str
    node: str
    resume: float | None
    """Seconds from the heal to the next start, by any process; None if there was none."""
    lost: int
    """How many runs that need not wait for others the process had begun and not ended when the fault came."""
    taken_up: float | None
    """The most seconds from the begin of the fault to the next start of one of them; None if none was started again."""



def measure(folder: Path) -> list[Measure]:
    """Return the measures of a run, in the order of the faults."""
    ledger = [line for path in sorted(folder.glob("ledger-*.jsonl")) for line in _lines(path)]
    starts = sorted((line for line in ledger if line["e"] == "start"), key=lambda line: line["t"])
    moments = [line["t"] for line in starts]
    ends = {(line["run"], line["fence"]): line["t"] for line in ledger if line["e"] == "end"}
    nemesis = list(_lines(folder / "nemesis.jsonl"))
    found = []
    for index, begin in enumerate(nemesis):
        if begin["phase"] != "begin":
            continue
        same = (line for line in nemesis[index:] if (line["fault"], line["node"]) == (begin["fault"], begin["node"]))
        healed = next((line["t"] for line in same if line["phase"] == "end"), None)
        after = None if healed is None else bisect_right(moments, healed)
        resume = None if healed is None or after is None or after == len(moments) else moments[after] - healed
        lost = _open_runs(starts, ends, begin) if begin["fault"] in LOSING else []
        again = [moment - begin["t"] for run in lost for moment in _next_start(starts, run)]
        found.append(Measure(begin["fault"], begin["node"] or "-", resume, len(lost), max(again, default=None)))
    return found


def lines(measures: list[Measure]) -> Iterator[str]:
    """Return one line for each fault: the longest times of all processes that it hit."""
    for fault in dict.fromkeys(measure.fault for measure in measures):
        of_it = [measure for measure in measures if measure.fault == fault]
        never = any(measure.resume is None for measure in of_it)
        resume = "never resumed" if never else f"resumed after {max(measure.resume or 0.0 for measure in of_it):.2f} s"
        taken = max((measure.taken_up for measure in of_it if measure.taken_up is not None), default=None)
        lost = sum(measure.lost for measure in of_it)
        lost_runs = "" if taken is None else f"; of {lost} runs the last taken up after {taken:.2f} s"
        yield f"  {fault:<21} {resume}{lost_runs}"


def _open_runs(starts: list[Any], ends: dict[Any, float], begin: Any) -> list[Any]:
    """Return the starts of the process that had not ended when the fault came."""
    return [
        start for start in starts
        if (start["node"], start["life"]) == (begin["node"], begin["life"])
        and start["kind"] not in WAITING
        and start["t"] < begin["t"] < ends.get((start["run"], start["fence"]), begin["t"] + 1)
    ]  # fmt: skip


def _next_start(starts: list[Any], run: Any) -> Iterator[float]:
    again = (start["t"] for start in starts if start["run"] == run["run"] and start["fence"] > run["fence"])
    yield from list(again)[:1]


def _lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)
