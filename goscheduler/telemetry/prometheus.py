"""Writes metrics as the text that Prometheus reads, format 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from goscheduler.runs.stats import BOUNDS
from goscheduler.runs.tally import Times
from goscheduler.telemetry.families import Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_BOUNDS = [f"{bound:g}" for bound in BOUNDS]


def prometheus_text(families: Iterable[Family], prefix: str = "") -> str:
    """Return metrics as text; those without a sample are left out."""
    return "".join(line for family in families if family.samples for line in _lines(family, prefix))


def _lines(family: Family, prefix: str) -> Iterator[str]:
    metric = family.metric
    name = prefix + metric.name
    yield f"# HELP {name} {metric.help.translate(_HELP_ESCAPES)}\n# TYPE {name} {metric.kind.value}\n"
    for labels, value in family.samples:
        pairs = _pairs(metric.labels, labels)
        if isinstance(value, Times):
            yield _histogram(name, pairs, value)
        else:
            yield f"{name}{_braced(pairs)} {_number(value)}\n"


def _histogram(name: str, pairs: str, times: Times) -> str:
    """Return all steps of a histogram: each counts what the ones before it count."""
    counts = list(accumulate(times.slots))
    comma = "," if pairs else ""
    steps = [
        f'{name}_bucket{{{pairs}{comma}le="{bound}"}} {count}\n'
        for bound, count in zip([*_BOUNDS, "+Inf"], [*counts[: len(BOUNDS)], counts[-1]], strict=True)
    ]
    ends = f"{name}_sum{_braced(pairs)} {_number(times.seconds)}\n{name}_count{_braced(pairs)} {counts[-1]}\n"
    return "".join(steps) + ends


def _pairs(names: Sequence[str], values: Sequence[str]) -> str:
    return ",".join(f'{name}="{_text(value)}"' for name, value in zip(names, values, strict=True))


def _text(value: str) -> str:
    """Return the value of a label; halves of characters cannot be encoded."""
    return value.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode("utf-8")


def _braced(pairs: str) -> str:
    return f"{{{pairs}}}" if pairs else ""


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
