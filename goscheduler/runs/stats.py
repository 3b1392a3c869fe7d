"""Figures of a minute: how many runs were fired and how they ended, how late they began and how long they took.

Each process counts for itself, and writes the figures of a minute as one note of the store; who asks adds up those of
all processes. Times are counted in 26 steps, each twice as long as the one before.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import add
from typing import TYPE_CHECKING, Any

from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.tally import SLOTS
from goscheduler.times import UTC, from_micros

if TYPE_CHECKING:
    from goscheduler.runs.model import Attempt, Settlement
    from goscheduler.runs.tally import Tally

MINUTE, TEN_MINUTES = 60, 600
#: A day in milliseconds.
DAY = 86_400_000
#: The kinds of the notes, by the seconds that one of them is about.
STATS_KINDS = {MINUTE: "stats-1m", TEN_MINUTES: "stats-10m"}

#: Times are counted in 64 slots; the last step is the sum of the rest of them.
STEPS = 26
#: The slots of a run that had not begun.
NOT_BEGUN = 0, 0
#: Where each step of a histogram ends, in seconds: below 1 ms, 2 ms, 4 ms ... 4.7 hours; the last one has no end.
BOUNDS: tuple[float, ...] = tuple(0.001 * (1 << step) for step in range(STEPS - 1))

#: What is counted. ``started`` counts attempts that had begun, when they end, and so do those that say how they ended.
COUNTERS = (
    "fired", "claimed", "missed", "skipped", "started", "succeeded", "failed", "timed_out", "cancelled", "lost",
    "snoozed", "retried", "dead",
)  # fmt: skip
_COUNTER_OF = {kind: kind.value.replace(" ", "_") for kind in OutcomeKind}
_SUCCEEDED = OutcomeKind.SUCCEEDED
_NAMES_OF_STEPS = frozenset(map(str, range(STEPS)))


@dataclass(frozen=True)
class Histogram:
    """How many times lie in which step."""

    steps: Sequence[int] = (0,) * STEPS

    @property
    def count(self) -> int:
        return sum(self.steps)

    def quantile(self, share: float) -> float | None:
        """Return the time in seconds that this share of all does not exceed, as closely as the steps tell it; None if
        there is none."""
        wanted = share * self.count
        if not self.count:
            return None
        below = 0
        for step, number in enumerate(self.steps):
            if number and below + number >= wanted:
                low = BOUNDS[step - 1] if step else 0.0
                high = BOUNDS[step] if step < len(BOUNDS) else 2 * low
                return low + (high - low) * max(0.0, wanted - below) / number
            below += number
        return BOUNDS[-1]

    @property
    def p50(self) -> float | None:
        return self.quantile(0.5)

    @property
    def p95(self) -> float | None:
        return self.quantile(0.95)

    @property
    def p99(self) -> float | None:
        return self.quantile(0.99)


@dataclass(frozen=True)
class Stats:
    """What happened in a minute, or in ten, in all processes together."""

    start: datetime
    seconds: int
    counts: Mapping[str, int]
    """Of each of :data:`COUNTERS`."""
    lateness: Histogram = field(default_factory=Histogram)
    """How long after they were due the attempts began."""
    duration: Histogram = field(default_factory=Histogram)
    """How long they took."""


class Figures:
    """What one process, or several, have counted in a span of time."""

    __slots__ = ("counts", "duration", "lateness")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lateness = [0] * SLOTS
        self.duration = [0] * SLOTS

    def add_ends(self, settlements: Iterable[Settlement], tally: Tally | None = None) -> None:
        """Count how attempts ended, also in ``tally``, where each schedule and task has counters of its own.

        It is called once for many: what it costs for each is part of every run.
        """
        lateness, duration, counts = self.lateness, self.duration, self.counts
        started = succeeded = 0
        late: timedelta | None
        for (run, outcome, _, _, _, _), follow_up, dead in settlements:
            begun, late, slots = outcome.started_at, None, NOT_BEGUN
            if begun is not None:
                started += 1
                late = begun - run.due_at  # a clock tells UTC, so this is exact whatever the zone of the schedule
                slot = 0  # for a clock that was set
                if late.days >= 0:
                    slot = (late.days * DAY + late.seconds * 1000 + late.microseconds // 1000).bit_length()
                slots = slot, int(outcome.seconds * 1000).bit_length()
                lateness[slots[0]] += 1
                duration[slots[1]] += 1
            if outcome.kind is _SUCCEEDED:
                succeeded += 1
            else:
                counts[_COUNTER_OF[outcome.kind]] += 1
            retried = dead is None and follow_up is not None and follow_up.attempt > run.attempt
            if dead is not None:
                counts["dead"] += 1
            elif retried:
                counts["retried"] += 1
            if tally is not None:
                tally.add_end(run, outcome, late, slots, retried, dead is not None)
        counts["started"] += started
        counts["succeeded"] += succeeded

    def add_not_run(self, records: Iterable[Attempt]) -> None:
        """Count fire times that were missed or skipped."""
        for record in records:
            self.counts[_COUNTER_OF[record.outcome.kind]] += record.fire_times

    def add(self, other: Figures) -> None:
        """Count what others have counted too."""
        self.counts.update(other.counts)
        self.lateness = list(map(add, self.lateness, other.lateness))
        self.duration = list(map(add, self.duration, other.duration))

    def as_state(self) -> dict[str, Any]:
        """Return the figures as a note keeps them: without the zeros."""
        return {
            "counts": {name: number for name, number in self.counts.items() if number},
            "late": _without_zeros(_steps(self.lateness)), "took": _without_zeros(_steps(self.duration)),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Figures:
        """Return what :meth:`as_state` told of; what a newer version counts is left out.

        :raises ValueError, TypeError, LookupError, AttributeError: if it is something else
        """
        figures = cls()
        told = state["counts"]
        figures.counts.update({name: int(told[name]) for name in COUNTERS if name in told})
        for steps, numbers in ((figures.lateness, state["late"]), (figures.duration, state["took"])):
            for step in set(numbers) & _NAMES_OF_STEPS:
                steps[int(step)] += int(numbers[step])
        return figures

    @property
    def text(self) -> str:
        """The text of a note."""
        return json.dumps(self.as_state(), separators=(",", ":"))

    def of(self, start: int, seconds: int) -> Stats:
        """Return the figures as people see them."""
        counts = {name: self.counts[name] for name in COUNTERS}
        lateness, duration = Histogram(_steps(self.lateness)), Histogram(_steps(self.duration))
        return Stats(from_micros(start, UTC), seconds, counts, lateness, duration)


def read_figures(text: str) -> Figures | None:
    """Return the figures of a note; None if it cannot be read here."""
    try:
        return Figures.from_state(json.loads(text))
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def beginning(moment: int, seconds: int) -> int:
    """Return when the minute or ten minutes began in which a moment lies, all in microseconds."""
    return moment - moment % (seconds * 1_000_000)


def stats_key(start: int, owner: str) -> str:
    """Return the key of the note that an owner writes about a span of time."""
    return f"{start:016x}|{owner}"


def read_key(key: str) -> tuple[int, str]:
    """Return start and owner of a note.

    :raises ValueError: if it is no key of figures
    """
    start, _, owner = key.partition("|")
    return int(start, 16), owner


def _steps(slots: Sequence[int]) -> tuple[int, ...]:
    return (*slots[: STEPS - 1], sum(slots[STEPS - 1 :]))


def _without_zeros(steps: Sequence[int]) -> dict[str, int]:
    return {str(step): number for step, number in enumerate(steps) if number}


def total_of(stats: Sequence[Stats]) -> Stats | None:
    """Return the sum of the figures of several spans; None for none."""
    if not stats:
        return None
    counts = {name: sum(each.counts[name] for each in stats) for name in COUNTERS}
    lateness = Histogram(tuple(map(_sum, *(each.lateness.steps for each in stats))))
    duration = Histogram(tuple(map(_sum, *(each.duration.steps for each in stats))))
    seconds = sum(each.seconds for each in stats)
    return Stats(min(each.start for each in stats), seconds, counts, lateness, duration)


def _sum(*numbers: int) -> int:
    return sum(numbers)
