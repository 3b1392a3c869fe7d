"""Limits that jobs share by name: how many of their runs may be live at once, and how many may start in a while.

A limit is a value that jobs carry; what has been used of it is counted by name, in the store, and so for the whole
cluster. A store loads the counts into a :class:`Ledger`, the rules ask it and take from it, and the store writes back
what changed. Nothing here knows a clock or a store.

Every run of a job that names a limit counts, whichever figures that job gives: two jobs may give the same name
different figures, and each run obeys its own against the shared count.

**Rates.** At most ``count`` starts lie in any window, wherever it begins. A log of starts would be exact and as long as
``count``; instead the window is cut into :data:`BUCKETS` parts, and starts are counted by part, numbered from 1970. A
run may start if the current part and the :data:`BUCKETS` before it hold fewer than ``count`` starts. These cover more
than a window, never less, so the promise holds exactly, and the price is that up to one part of the window goes unused.

Windows of different length under one name are counted beside each other, and a start counts in all of them. A length
counts from when it is first used, beginning with what the others remember.

Clocks of several machines disagree. A start that lies ahead of now counts as any other, and what starts before it is
counted with it, which is late and therefore safe. One that lies further ahead than a window, and than :data:`SKEW`, was
written by a clock that was wrong, and is forgotten: otherwise nothing would run until that time has come.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import EPOCH, SECOND, micros_of, parse_duration, to_micros

BUCKETS = 60
SKEW = 60 * SECOND
#: Windows of different length that are counted under one name; the one that was not used for longest gives way.
MOST_WINDOWS = 8
MOST_LIMITS = 100
MOST_RUNS = 1_000_000_000
LONGEST_NAME = 255
LONGEST_RATE = 40
SHORTEST_WINDOW = timedelta(seconds=1)
LONGEST_WINDOW = timedelta(days=31)

_COUNT = re.compile(r"[0-9]{1,10}")


class Rate(NamedTuple):
    """A rate as it is reckoned with."""

    most: int
    length: int
    """The window in microseconds."""
    window: str
    """The window as it was given."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that all jobs share that name it."""

    name: str
    """What it is called; jobs that give the same name share one count."""
    concurrency: int | None = None
    """How many runs may be live at once. None: any number."""
    rate: str | None = None
    """How many runs may start in any window of time, such as ``"100/1m"``, ``"5/s"`` or ``"1000/12h"``. None: any."""
    _rate: Rate | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.concurrency is not None:
            _check_concurrency(self.concurrency)
        if self.rate is not None:
            parsed = _parse_rate(self.rate)
            object.__setattr__(self, "_rate", parsed)
            object.__setattr__(self, "rate", f"{parsed.most}/{parsed.window}")
        if self.concurrency is None and self.rate is None:
            raise InvalidArgument(f"Limit {shown(self.name)} limits nothing; give concurrency or rate", field="limits")

    @property
    def per(self) -> tuple[int, float] | None:
        """The rate as a number of starts and the seconds they are counted over; None without a rate."""
        return None if self._rate is None else (self._rate.most, self._rate.length / SECOND)


def limits_of(value: object) -> tuple[Limit, ...]:
    """Return the limits that an option stands for: None, one limit or several, ordered by name.

    The order is the same for every job, so that stores that lock one after the other do not wait in a circle.
    """
    if value is None:
        return ()
    if isinstance(value, Limit):
        return (value,)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _refused("limits", "a Limit or a collection of them", value)
    limits = tuple(islice(value, MOST_LIMITS + 1))
    for limit in limits:
        if not isinstance(limit, Limit):
            raise _refused("limits", "a Limit or a collection of them", limit)
    if len(limits) > MOST_LIMITS:
        raise _refused("limits", f"at most {MOST_LIMITS}", value)
    if len({limit.name for limit in limits}) < len(limits):
        raise _refused("limits", "of different names", value)
    return tuple(sorted(limits, key=lambda limit: limit.name))


def _check_name(value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise _refused("name", "a nonempty string", value)
    if len(value) > LONGEST_NAME:
        raise InvalidArgument(
            f"name must be at most {LONGEST_NAME} characters long, got {len(value)}",
            field="name",
            value=value[:LONGEST_NAME],
        )
    if not value.isprintable():
        raise _refused("name", "printable, without control characters", value)


def _check_concurrency(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RUNS:
        raise _refused("concurrency", f"a whole number from 1 to {MOST_RUNS}", value)


def _parse_rate(value: Any) -> Rate:
    if not isinstance(value, str) or len(value) > LONGEST_RATE:
        raise _no_rate(value)
    count, _, window = (part.strip().lower() for part in value.partition("/"))
    if not _COUNT.fullmatch(count) or not 1 <= int(count) <= MOST_RUNS:
        raise _no_rate(value)
    window = window if window[:1].isdigit() else f"1{window}"
    try:
        length = parse_duration(window)
    except InvalidArgument:
        raise _no_rate(value) from None
    if not SHORTEST_WINDOW <= length <= LONGEST_WINDOW:
        raise _refused("rate", "over a window from 1 second to 31 days", value)
    return Rate(int(count), micros_of(length), window)


def _no_rate(value: object) -> InvalidArgument:
    return _refused("rate", f'a count from 1 to {MOST_RUNS} and a window, such as "100/1m" or "5/s"', value)


def _refused(field: str, what: str, value: object) -> InvalidArgument:
    return InvalidArgument(f"{field} must be {what}, got {shown(value)}", field=field, value=value)


#: Number of a bucket and starts in it, oldest first.
Buckets = tuple[tuple[int, int], ...]

#: The latest starts under one name: for each length of window in use, in microseconds and the last used first, its
#: buckets. As JSON it comes back as lists, which a ledger takes too.
RateState = tuple[tuple[int, Buckets], ...]


class Obstacle(NamedTuple):
    """Why a run may not start now."""

    limit: str
    """The name of the limit."""
    until: datetime | None
    """The earliest moment at which it is worth another look; None: when a run under that limit has ended."""
    reason: str
    """The same for people."""


class Ledger:
    """Usage of limits: live runs and latest starts, by name of the limit.

    It is made from the counts of every limit that is going to be asked about, whether or not that limit has a
    concurrency or a rate: runs of other jobs under the same name may.
    """

    __slots__ = ("_at", "_changed", "_live", "_now", "_starts")

    def __init__(
        self,
        live: Mapping[str, int] = MappingProxyType({}),
        rates: Mapping[str, RateState] = MappingProxyType({}),
    ) -> None:
        self._live = dict(live)
        self._starts = {name: [_Starts(*window) for window in state] for name, state in rates.items()}
        self._changed: set[str] = set()
        self._now, self._at = EPOCH, 0

    def obstacle(self, limits: Sequence[Limit], now: datetime) -> Obstacle | None:
        """Return why a run under all these limits may not start now, or None if it may. Changes nothing."""
        for limit in limits:
            name, most, rate = limit.name, limit.concurrency, limit._rate
            if most is not None and (running := self._live.get(name, 0)) >= most:
                return Obstacle(name, None, f'limit "{name}" is full: {running} of {most} are running')
            if rate is not None and (until := self._full_until(name, rate, now)) is not None:
                return Obstacle(name, until, f'limit "{name}" allows {rate.most} in {rate.window}')
        return None

    def _full_until(self, name: str, rate: Rate, now: datetime) -> datetime | None:
        known = self._starts.get(name)
        if not known:
            return None
        at = self._at if now is self._now else self._instant(now)
        starts = known[0] if known[0].length == rate.length else _of_length(known, rate.length, at)
        opens = starts.full_until(rate.most, at)
        return None if opens is None else EPOCH + timedelta(microseconds=opens)

    def _instant(self, now: datetime) -> int:
        """Return ``now`` as an instant; kept, because a round asks about many runs at the same moment."""
        self._at, self._now = to_micros(now), now
        return self._at

    def take(self, limits: Sequence[Limit], now: datetime) -> None:
        """Count the start of one run under all these limits. It does not look for obstacles: the caller has."""
        at = self._at if now is self._now else self._instant(now)
        for limit in limits:
            name, rate = limit.name, limit._rate
            self._live[name] = self._live.get(name, 0) + 1
            known = self._starts.get(name, [])
            if rate is not None and (not known or known[0].length != rate.length):
                known = self._starts[name] = _led_by(known, rate.length, at)
            if known:
                self._changed.add(name)
            for starts in known:
                starts.add(at)

    def running(self, name: str) -> int:
        """Return how many live runs count under a name."""
        return self._live.get(name, 0)

    def give_back(self, limits: Sequence[Limit]) -> None:
        """Count the end of one live run under all these limits. Its start goes on counting for rates."""
        for limit in limits:
            left = self._live.pop(limit.name, 0) - 1
            if left > 0:
                self._live[limit.name] = left

    @property
    def changed(self) -> dict[str, RateState]:
        """The latest starts under the names that have changed, for a store to write."""
        return self._states(self._changed)

    @property
    def rates(self) -> dict[str, RateState]:
        """The latest starts under all names, changed or not, for another ledger to go on from."""
        return self._states(self._starts)

    def _states(self, names: Iterable[str]) -> dict[str, RateState]:
        return {name: tuple([starts.state() for starts in self._starts[name]]) for name in names}


def starts_within(state: RateState, now: datetime) -> dict[float, int]:
    """Return length of a window in seconds → how many starts lie in the window that ends now."""
    at = to_micros(now)
    return {
        length / SECOND: sum(starts for number, starts in buckets if number > at * BUCKETS // length - BUCKETS)
        for length, buckets in state
    }


def _led_by(known: Sequence[_Starts], length: int, at: int) -> list[_Starts]:
    """Return the starts by windows of this length, followed by those of other lengths, if they are not too many."""
    others = [starts for starts in known if starts.length != length]
    return [_of_length(known, length, at), *others[: MOST_WINDOWS - 1]]


def _of_length(known: Sequence[_Starts], length: int, at: int) -> _Starts:
    """Return the starts by windows of this length; a new one begins with what the longest of the others remembers."""
    for starts in known:
        if starts.length == length:
            return starts
    longest = max(known, key=lambda starts: starts.length, default=None)
    return _Starts(length) if longest is None else longest.recounted(length, at)


class _Starts:
    """The latest starts under one name, by windows of one length."""

    __slots__ = ("_ahead", "_buckets", "_total", "length")

    def __init__(self, length: int, buckets: Iterable[tuple[int, int]] = ()) -> None:
        self.length = length
        self._ahead = max(BUCKETS, SKEW * BUCKETS // length)
        self._buckets = deque([[number, starts] for number, starts in buckets])
        self._total = sum([starts for _, starts in self._buckets])

    def state(self) -> tuple[int, Buckets]:
        return self.length, tuple([(number, starts) for number, starts in self._buckets])

    def full_until(self, most: int, at: int) -> int | None:
        """Return the instant at which there are fewer than ``most`` in the window, None if there are already."""
        left = self._total
        if left < most:
            return None
        number = at * BUCKETS // self.length
        if self._buckets[-1][0] > number + self._ahead:
            left -= sum([starts for other, starts in self._buckets if other > number + self._ahead])
        leaving = number - BUCKETS - 1
        for bucket in self._buckets:
            if left < most:
                break
            leaving = bucket[0]
            left -= bucket[1]
        return None if leaving < number - BUCKETS else _beginning(leaving + BUCKETS + 1, self.length)

    def add(self, at: int) -> None:
        """Count a start, and forget those that no window holds together with it."""
        number, buckets = at * BUCKETS // self.length, self._buckets
        while buckets and buckets[0][0] < number - BUCKETS:
            self._total -= buckets.popleft()[1]
        while buckets and buckets[-1][0] > number + self._ahead:
            self._total -= buckets.pop()[1]
        if buckets and buckets[-1][0] >= number:
            buckets[-1][1] += 1
        else:
            buckets.append([number, 1])
        self._total += 1

    def recounted(self, length: int, at: int) -> _Starts:
        """Return the same starts by windows of another length, each as late as it can have been."""
        counts: dict[int, int] = {}
        newest = at * BUCKETS // self.length + self._ahead
        for number, starts in self._buckets:
            if number > newest:
                break
            latest = min(at, _beginning(number + 1, self.length) - 1)
            other = latest * BUCKETS // length
            counts[other] = counts.get(other, 0) + starts
        return _Starts(length, counts.items())


def _beginning(number: int, length: int) -> int:
    """Return the first instant of a bucket; a window need not be divisible by the number of its buckets."""
    return -(-number * length // BUCKETS)
