"""Triggers made of triggers: when all of them fire, or when any of them does.

Children are asked for fire times without jitter, so that times can coincide and none is lost between two of a sibling;
the jitter of the children that fire, plus that of the combination, delays the result to before the next one.
"""

from __future__ import annotations

import copy
import math
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, tzinfo
from importlib import import_module
from typing import Any, NamedTuple

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, NeverFires, shown
from goscheduler.times import UTC, from_micros, micros_of, to_micros
from goscheduler.triggers._steps import bounded, step
from goscheduler.triggers.base import BaseTrigger, current_state, parse_jitter, postpone
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

#: How often an AndTrigger asks its children before it settles for "never".
SEARCH_STEPS = 4_000
#: How far it looks: after 400 years the calendar repeats itself.
SEARCH_HORIZON = 400 * 366 * 86_400 * 1_000_000

#: Gives the first fire time at or after an instant, as an instant.
_Search = Callable[[int], "int | None"]


class BaseCombiningTrigger(BaseTrigger):
    """A trigger that asks its ``triggers``. ``timezone`` is accepted because schedulers pass it, and has no effect."""

    __slots__ = ("jitter", "triggers")

    def __init__(
        self,
        triggers: Iterable[BaseTrigger],
        jitter: float | str | None = None,
        *,
        timezone: tzinfo | str | None = None,
    ) -> None:
        self.set_up(triggers, jitter)

    def set_up(self, triggers: Iterable[BaseTrigger], jitter: float | str | None) -> None:
        """Check and take over what defines a combination, given by a user or read by the codec."""
        self.triggers = _children(triggers)
        self.jitter = parse_jitter(jitter)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        with bounded():
            nominal = self._nominal_fire_time(previous_fire_time, now)
            delay = 0 if nominal is None else self._delay_at(nominal)
            if nominal is None or not delay:
                return nominal
            return postpone(nominal, delay, before=self._delay_until(nominal))

    @abstractmethod
    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None: ...

    def _delay_until(self, nominal: datetime) -> datetime | None:
        """Return before when a delayed firing has to be."""
        return self._nominal_fire_time(nominal, nominal)

    @property
    def calendar_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for child in self.triggers for name in child.calendar_names))

    def _delay_at(self, moment: datetime) -> float:
        """Return how many seconds a firing at ``moment`` may be delayed: our jitter and that of who fires then."""
        return (self.jitter or 0) + max(_delay(child, moment) for child in self.triggers)

    def anchored(self, now: datetime) -> BaseCombiningTrigger:
        return self.with_children([child.anchored(now) for child in self.triggers])

    def for_job(self, job_id: str) -> BaseCombiningTrigger:
        return self.with_children([child.for_job(job_id) for child in self.triggers])

    def with_children(self, children: list[BaseTrigger]) -> BaseCombiningTrigger:
        """Return the same combination of other triggers."""
        if all(new is old for new, old in zip(children, self.triggers, strict=True)):
            return self
        twin = copy.copy(self)
        twin.triggers = children
        return twin

    def same_schedule_as(self, other: BaseTrigger) -> bool:
        return (
            isinstance(other, BaseCombiningTrigger)
            and type(self) is type(other)
            and (self.jitter or None) == (other.jitter or None)
            and len(self.triggers) == len(other.triggers)
            and all(mine.same_schedule_as(its) for mine, its in zip(self.triggers, other.triggers, strict=True))
        )

    def definition(self) -> dict[str, Any]:
        """Return what :meth:`set_up` takes. The children are as they are: pickle names their classes by import path."""
        return {"triggers": list(self.triggers), "jitter": self.jitter}

    def __getstate__(self) -> dict[str, Any]:
        return {"version": 1, "triggers": [_packed(child) for child in self.triggers], "jitter": self.jitter}

    def __setstate__(self, state: Any) -> None:
        state = current_state(type(self), state, 1)
        self.set_up([unpacked(child) for child in state["triggers"]], state["jitter"])

    def __repr__(self) -> str:
        jitter = f", jitter={self.jitter}" if self.jitter else ""
        return f"<{type(self).__name__}({self.triggers}{jitter})>"


class AndTrigger(BaseCombiningTrigger):
    """Fires when all of its triggers fire at the same instant, and ends when one of them does.

    Intervals meet by arithmetic; otherwise the search is bounded (:data:`SEARCH_STEPS`, :data:`SEARCH_HORIZON`) and
    ends in "no more fire times". Intervals without a start count from one common moment. What can be seen never to meet
    raises :class:`~goscheduler.errors.NeverFires` at once.
    """

    __slots__ = ()

    def __init__(
        self,
        triggers: Iterable[BaseTrigger],
        jitter: float | str | None = None,
        *,
        timezone: tzinfo | str | None = None,
    ) -> None:
        super().__init__(triggers, jitter, timezone=timezone)
        now = SYSTEM_CLOCK.now()
        _refuse_disjoint([child for child in self.triggers if child.anchored(now) is child])
        self.triggers = [child.anchored(now) for child in self.triggers]

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        earliest = self._latest_first(now) if previous is None else to_micros(previous) + 1
        return None if earliest is None else self._meeting(earliest)

    def _first_from(self, moment: datetime) -> datetime | None:
        return self._meeting(to_micros(moment))

    def _latest_first(self, now: datetime) -> int | None:
        """Return the latest of the children's first times; in the past where all of them are dates that have passed."""
        firsts = [child._nominal_fire_time(None, now) for child in self.triggers]
        return None if None in firsts else max(to_micros(first) for first in firsts if first is not None)

    def _meeting(self, earliest: int) -> datetime | None:
        """Return the first time from ``earliest`` on at which all children fire: each in turn moves it forward."""
        searches = _searches(self.triggers)
        if searches is None:
            return None
        moment, agreed = earliest, 0
        for turn in range(SEARCH_STEPS):
            step()
            found = searches[turn % len(searches)](moment)
            if found is None or found - earliest > SEARCH_HORIZON:
                return None
            agreed = agreed + 1 if found == moment else 1
            if agreed == len(searches):
                return self.triggers[0]._first_from(from_micros(found, UTC))
            moment = found
        return None

    def explain(self) -> str:
        parts = [child.explain() for child in self.triggers]
        if len(parts) == 1:
            return parts[0]
        return f"whenever {'both' if len(parts) == 2 else 'all of'} {_listed(parts, 'and')}"

    def __str__(self) -> str:
        return f"and[{', '.join(map(str, self.triggers))}]"


class OrTrigger(BaseCombiningTrigger):
    """Fires whenever one of its triggers does, once where several coincide, and ends when all of them have.

    Every child keeps its own sequence of times, whatever the others do. A date that is already past when the job is
    added fires at once, together with whatever else is due then.
    """

    __slots__ = ()

    def _nominal_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        if previous is None:
            return self._first(now)
        now = max(now, previous, key=to_micros)
        times = [child._nominal_fire_time(previous, now) for child in self._asked()]
        later = (time for time in times if time and to_micros(time) > to_micros(previous))
        return min(later, key=to_micros, default=None)

    def _first_from(self, moment: datetime) -> datetime | None:
        times = [child._first_from(moment) for child in self._asked()]
        return min(filter(None, times), key=to_micros, default=None)

    def _asked(self) -> Iterator[BaseTrigger]:
        for child in self.triggers:
            step()
            yield child

    def _first(self, now: datetime) -> datetime | None:
        times = [child._nominal_fire_time(None, now) for child in self._asked()]
        earliest = min(filter(None, times), key=to_micros, default=None)
        if earliest is None or to_micros(earliest) >= to_micros(now):
            return earliest
        # Starting in the past would turn the siblings' times since then into missed firings of a job that is new.
        still_to_come = any(time is not None and to_micros(time) >= to_micros(now) for time in times)
        return now.astimezone(earliest.tzinfo) if still_to_come else earliest

    def _delay_at(self, moment: datetime) -> float:
        delays = [(child, _delay(child, moment)) for child in self.triggers]
        return (self.jitter or 0) + max([0, *(delay for child, delay in delays if delay and _fires_at(child, moment))])

    def explain(self) -> str:
        return _listed([child.explain() for child in self.triggers], "or")

    def __str__(self) -> str:
        return f"or[{', '.join(map(str, self.triggers))}]"


def _children(triggers: Iterable[BaseTrigger]) -> list[BaseTrigger]:
    if isinstance(triggers, str) or not isinstance(triggers, Iterable):
        raise TypeError(f"triggers must be a list of triggers, got {type(triggers).__name__}")
    children = list(triggers)
    for child in children:
        if not isinstance(child, BaseTrigger):
            raise TypeError(f"Expected a list of triggers, got {type(child).__name__} in it")
        if child.upstream:
            raise InvalidArgument(
                f"{child} has no fire times, so it cannot be combined with others or put on a calendar",
                field="triggers", value=triggers,
            )  # fmt: skip
    if not children:
        raise InvalidArgument("triggers must contain at least one trigger", field="triggers", value=triggers)
    return children


def _delay(child: BaseTrigger, moment: datetime) -> float:
    if isinstance(child, BaseCombiningTrigger):
        return child._delay_at(moment)
    # A trigger that does not tell nominal times has delayed its answer already.
    tells_nominal = type(child)._nominal_fire_time is not BaseTrigger._nominal_fire_time
    return (tells_nominal and getattr(child, "jitter", None)) or 0


def _fires_at(child: BaseTrigger, moment: datetime) -> bool:
    found = child._first_from(moment)
    return found is not None and to_micros(found) == to_micros(moment)


class _Grid(NamedTuple):
    """The instants ``start + k * step`` up to ``end``."""

    start: int
    step: int
    end: float = math.inf

    def first_from(self, moment: int) -> int | None:
        turns = max(0, -((self.start - moment) // self.step))
        found = self.start + turns * self.step
        return found if found <= self.end else None

    def meet(self, other: _Grid) -> _Grid | None:
        """Return what two grids have in common, by the Chinese remainder theorem; None if nothing."""
        common = math.gcd(self.step, other.step)
        if (other.start - self.start) % common:
            return None
        modulus = other.step // common
        turns = (other.start - self.start) // common * pow(self.step // common, -1, modulus) % modulus
        met = _Grid(self.start + turns * self.step, self.step * modulus, min(self.end, other.end))
        start = met.first_from(max(self.start, other.start))
        return None if start is None else met._replace(start=start)


def _searches(children: Iterable[BaseTrigger]) -> list[_Search] | None:
    """Return one search for all intervals together and one for every other child; None if the intervals never meet."""
    children = list(children)
    intervals = [child for child in children if type(child) is IntervalTrigger]
    others = [_search_of(child) for child in children if type(child) is not IntervalTrigger]
    if not intervals:
        return others
    grid = _common_grid(intervals)
    return None if grid is None else [grid.first_from, *others]


def _search_of(child: BaseTrigger) -> _Search:
    def first_from(moment: int) -> int | None:
        try:
            found = child._first_from(from_micros(moment, UTC))
        except OverflowError:
            return None
        return None if found is None else to_micros(found)

    return first_from


def _common_grid(intervals: list[IntervalTrigger]) -> _Grid | None:
    grids = [_grid_of(trigger) for trigger in intervals]
    common: _Grid | None = grids[0]
    for grid in grids[1:]:
        common = None if common is None else common.meet(grid)
    return common


def _grid_of(trigger: IntervalTrigger) -> _Grid:
    end = math.inf if trigger.end_date is None else to_micros(trigger.end_date)
    return _Grid(to_micros(trigger.start_date), micros_of(trigger.interval), end)


def _refuse_disjoint(fixed: list[BaseTrigger]) -> None:
    """Raise NeverFires where it is plain that triggers with a known start cannot fire together."""
    dates = [child.run_date for child in fixed if isinstance(child, DateTrigger)]
    meet = all(_fires_at(child, dates[0]) for child in fixed) if dates else _searches(fixed) is not None
    if not meet:
        raise NeverFires(
            f"The triggers never fire at the same time: {', '.join(map(str, fixed))}", field="triggers", value=fixed
        )


def _packed(child: BaseTrigger) -> tuple[str, Any] | BaseTrigger:
    """Return a child as class reference and state, or as it is where it has no state of its own making."""
    if not any("__getstate__" in cls.__dict__ for cls in type(child).__mro__[:-1]):
        return child
    return f"{type(child).__module__}:{type(child).__qualname__}", child.__reduce_ex__(2)[2]


def unpacked(packed: tuple[str, Any] | BaseTrigger) -> BaseTrigger:
    """Return a child of a stored combination."""
    if isinstance(packed, BaseTrigger):
        return packed
    reference, state = packed
    child = object.__new__(_trigger_class(reference))
    child.__setstate__(state)  # type: ignore[attr-defined]
    return child


def _trigger_class(reference: str) -> type[BaseTrigger]:
    """Return the trigger class of a reference. Stored text imports nothing but the triggers of this package."""
    module_name, _, qualname = reference.partition(":")
    if module_name.startswith("apscheduler.triggers."):
        module_name = "goscheduler" + module_name.removeprefix("apscheduler")
    found: object = sys.modules.get(module_name)
    if found is None and re.fullmatch(r"goscheduler\.triggers(\.\w+)+", module_name):
        found = import_module(module_name)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    if not (isinstance(found, type) and issubclass(found, BaseTrigger)):
        raise InvalidArgument(
            f"No trigger class {shown(reference)} is loaded; import its module first", field="triggers", value=reference
        )
    return found


def _listed(parts: list[str], word: str) -> str:
    """Return ``a, b and c``."""
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}" if len(parts) > 1 else parts[0]
