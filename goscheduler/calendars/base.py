"""What calendars have in common, and how two of them make a third.

A calendar is open or closed at every moment. It changes at certain moments and keeps to it in between, so it is asked
for these: :meth:`Calendar.first`, the first moment from one on at which it is so or so, and :meth:`Calendar.end`, where
the last stretch before a moment ends in which it was. A calendar of whole days has a number for each year, in which
each bit is a day; combinations of those are operations on these numbers, and so as quick as one alone.

Inside, moments are in UTC, beside the zone in which a calendar without a zone of its own is read. No search goes
further than :data:`HORIZON`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.times import UTC, astimezone, first_instant_at, zone_name
from goscheduler.triggers._steps import bounded, step

#: How far a calendar is searched: ten years.
HORIZON = timedelta(days=3653)
#: How deep calendars may be combined.
DEEPEST = 30

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_YEARS_KEPT = 64


class Calendar(ABC):
    """Tells when something is open. Equal calendars are open at the same moments."""

    timezone: tzinfo | None = None
    """The zone whose clock and dates count; None for that of the moment that is asked about."""
    is_storable = True
    """Whether other processes can have it."""
    depth = 0
    names: tuple[str, ...] = ()
    """The names of the calendars that it refers to by name."""

    @abstractmethod
    def is_open(self, moment: datetime) -> bool:
        """Tell whether it is open at a moment."""

    @abstractmethod
    def first(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        """Return the first moment from ``at`` on at which it is open, or closed if that is ``wanted``."""

    @abstractmethod
    def end(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        """Return the last moment up to ``at`` just before which it is open, or closed if that is ``wanted``."""

    @abstractmethod
    def told(self, moment: datetime) -> str:
        """Return in a few words what there is to say of a moment: "Saturday", "Christmas Day"."""

    @abstractmethod
    def explain(self) -> str:
        """Return in a few words when it is open."""

    @abstractmethod
    def __getstate__(self) -> dict[str, Any]:
        """Return what makes it, in values that can be stored."""

    @abstractmethod
    def __setstate__(self, state: Mapping[str, Any]) -> None: ...

    def next_open(self, moment: datetime) -> datetime | None:
        """Return the first moment from ``moment`` on at which it is open; None if there is none in ten years."""
        return self._searched(moment, self.first, True, HORIZON)

    def next_closed(self, moment: datetime) -> datetime | None:
        """Return the first moment from ``moment`` on at which it is closed; None if there is none in ten years."""
        return self._searched(moment, self.first, False, HORIZON)

    def last_open(self, moment: datetime) -> datetime | None:
        """Return the last second up to ``moment`` in which it is open; None if there is none in ten years."""
        if self.is_open(moment):
            return moment
        end = self.closed_since(moment)
        return None if end is None else (end.astimezone(UTC) - timedelta(seconds=1)).astimezone(end.tzinfo)

    def closed_since(self, moment: datetime) -> datetime | None:
        """Return since when it is closed at ``moment``; None if for more than ten years."""
        return self._searched(moment, self.end, True, -HORIZON)

    def why(self, moment: datetime) -> str:
        """Return why it is closed at a moment; nothing if it is open."""
        return "" if self.is_open(moment) else self.told(moment)

    def _searched(
        self, moment: datetime, search: Callable[..., datetime | None], wanted: bool, distance: timedelta
    ) -> datetime | None:
        zone = moment.tzinfo
        if zone is None:
            raise InvalidArgument(f"moment must have a zone, got {shown(moment)}", field="moment", value=moment)
        at = moment.astimezone(UTC)
        with bounded():
            found = search(at, zone, wanted, _shifted(at, distance))
        return None if found is None else found.astimezone(zone)

    def __or__(self, other: Calendar) -> Calendar:
        return _combined("|", self, other)

    def __and__(self, other: Calendar) -> Calendar:
        return _combined("&", self, other)

    def __sub__(self, other: Calendar) -> Calendar:
        return _combined("-", self, other)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((type(self), repr(self.__getstate__())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__getstate__().items())})"


class DayCalendar(Calendar):
    """A calendar of whole days. A subclass says :meth:`is_open_on`, or :meth:`days` if it can do better."""

    _years: dict[int, tuple[int, int]]

    def is_open_on(self, day: date) -> bool:
        """Tell whether it is open on a day."""
        first, mask = self._mask(day.year)
        return bool(mask >> (day.toordinal() - first) & 1)

    def days(self, year: int) -> int:
        """Return a number with a bit for each day of a year, from the lowest: set if it is open."""
        return sum(1 << number for number, day in enumerate(days_of(year)) if self.is_open_on(day))

    def days_in(self, year: int) -> int:
        """Return what :meth:`days` has said of a year."""
        return self._mask(year)[1]

    def is_open(self, moment: datetime) -> bool:
        zone = self.timezone
        if zone is not None and zone is not moment.tzinfo:
            moment = moment.astimezone(zone)
        first, mask = self._mask(moment.year)
        return bool(mask >> (moment.toordinal() - first) & 1)

    def first(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        own = self.timezone or zone
        while at <= limit:
            step()
            day = at.astimezone(own).date()
            following = self._day_from(day, wanted, limit.year + 1)
            if following == day or following is None:
                return None if following is None else at
            at = max(at + _TICK, _midnight(following, own))
        return None

    def end(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        own = self.timezone or zone
        while at >= limit:
            step()
            day = (at - _TICK).astimezone(own).date()
            before = self._day_up_to(day, wanted, limit.year - 1)
            if before == day or before is None:
                return None if before is None else at
            at = min(at - _TICK, _midnight(before + _DAY, own))
        return None

    def _mask(self, year: int) -> tuple[int, int]:
        """Return the number of the first day of a year, and its days."""
        years: dict[int, tuple[int, int]] = self.__dict__.setdefault("_years", {})
        found = years.get(year)
        if found is None:
            if len(years) >= _YEARS_KEPT:
                years.clear()
            found = years[year] = (date(year, 1, 1).toordinal(), self.days(year))
        return found

    def _wanted(self, year: int, wanted: bool) -> tuple[int, int]:
        first, mask = self._mask(year)
        return first, mask if wanted else ~mask & ((1 << len_of(year)) - 1)

    def _day_from(self, day: date, wanted: bool, last_year: int) -> date | None:
        for year in range(day.year, min(last_year, date.max.year) + 1):
            first, mask = self._wanted(year, wanted)
            ahead = mask >> max(0, day.toordinal() - first) << max(0, day.toordinal() - first)
            if ahead:
                return date.fromordinal(first + (ahead & -ahead).bit_length() - 1)
        return None

    def _day_up_to(self, day: date, wanted: bool, first_year: int) -> date | None:
        for year in range(day.year, max(first_year, 1) - 1, -1):
            first, mask = self._wanted(year, wanted)
            past = mask & ((1 << max(0, day.toordinal() - first + 1)) - 1)
            if past:
                return date.fromordinal(first + past.bit_length() - 1)
        return None


def len_of(year: int) -> int:
    """Return how many days a year has."""
    return date(year, 12, 31).toordinal() - date(year, 1, 1).toordinal() + 1


def days_of(year: int) -> Iterator[date]:
    """Yield the days of a year."""
    first = date(year, 1, 1).toordinal()
    return map(date.fromordinal, range(first, first + len_of(year)))


def _midnight(day: date, zone: tzinfo) -> datetime:
    return first_instant_at(datetime.combine(day, time()), zone).astimezone(UTC)


def _shifted(at: datetime, distance: timedelta) -> datetime:
    try:
        return at + distance
    except OverflowError:
        return (datetime.max if distance > timedelta(0) else datetime.min).replace(tzinfo=UTC)


def read_zone(timezone: tzinfo | str | None) -> tzinfo | None:
    """Return the zone of a calendar, checked."""
    return astimezone(timezone)


def zone_told(timezone: tzinfo | None) -> str:
    """Return a zone behind the explanation of a calendar, nothing if it has none."""
    return "" if timezone is None else f" ({zone_name(timezone)})"


class _Combination(Calendar):
    """Two calendars and what is made of them."""

    operator: str
    left: Calendar
    right: Calendar

    def _set_up(self, operator: str, left: Calendar, right: Calendar) -> None:
        for field, part in (("left", left), ("right", right)):
            if not isinstance(part, Calendar):
                raise InvalidArgument(f"{field} must be a calendar, got {shown(part)}", field=field, value=part)
        if operator not in _WORDS:
            raise InvalidArgument(f"operator must be one of | & -, got {shown(operator)}", field="operator")
        self.depth = 1 + max(left.depth, right.depth)
        if self.depth > DEEPEST:
            raise InvalidArgument(f"calendars may be combined {DEEPEST} deep", field="calendar")
        self.operator, self.left, self.right = operator, left, right
        self.names = tuple(dict.fromkeys((*left.names, *right.names)))
        self.is_storable = left.is_storable and right.is_storable

    def is_open(self, moment: datetime) -> bool:
        if self.operator == "|":
            return self.left.is_open(moment) or self.right.is_open(moment)
        return self.left.is_open(moment) and self.right.is_open(moment) == (self.operator == "&")

    def told(self, moment: datetime) -> str:
        left, right = self.left.told(moment), self.right.told(moment)
        if self.operator == "|":
            both = [left, right] if not self.is_open(moment) else [left if self.left.is_open(moment) else right]
            return ", ".join(dict.fromkeys(both))
        return right if self.left.is_open(moment) and not self.is_open(moment) else left

    def explain(self) -> str:
        parts = [
            f"({part.explain()})" if isinstance(part, _Combination) and part.operator != self.operator
            else part.explain() for part in (self.left, self.right)
        ]  # fmt: skip
        return _WORDS[self.operator].join(parts)

    def __getstate__(self) -> dict[str, Any]:
        return {"operator": self.operator, "left": self.left, "right": self.right}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._set_up(**state)


_WORDS = {"|": " or ", "&": " and ", "-": " without "}


class CombinedDays(_Combination, DayCalendar):
    """Two calendars of whole days in one zone, combined."""

    def _set_up(self, operator: str, left: Calendar, right: Calendar) -> None:
        super()._set_up(operator, left, right)
        if not _are_days(left, right):
            raise InvalidArgument("left and right must be calendars of whole days in one zone", field="left")
        self.timezone = left.timezone

    is_open = DayCalendar.is_open

    def days(self, year: int) -> int:
        assert isinstance(self.left, DayCalendar)
        assert isinstance(self.right, DayCalendar)
        left, right = self.left.days_in(year), self.right.days_in(year)
        return left | right if self.operator == "|" else left & (right if self.operator == "&" else ~right)


class Combined(_Combination):
    """Two calendars, combined."""

    def first(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        left, right, together = self._asked(wanted)
        if together:
            return self._agreed(at, lambda at: self.left.first(at, zone, left, limit),
                                lambda at: self.right.first(at, zone, right, limit))  # fmt: skip
        found = (self.left.first(at, zone, left, limit), self.right.first(at, zone, right, limit))
        return min((moment for moment in found if moment is not None), default=None)

    def end(self, at: datetime, zone: tzinfo, wanted: bool, limit: datetime) -> datetime | None:
        left, right, together = self._asked(wanted)
        if together:
            return self._agreed(at, lambda at: self.left.end(at, zone, left, limit),
                                lambda at: self.right.end(at, zone, right, limit))  # fmt: skip
        found = (self.left.end(at, zone, left, limit), self.right.end(at, zone, right, limit))
        return max((moment for moment in found if moment is not None), default=None)

    def _asked(self, wanted: bool) -> tuple[bool, bool, bool]:
        """Return what the two are to be, and whether both are to be so or one of them."""
        return wanted, wanted != (self.operator == "-"), wanted != (self.operator == "|")

    @staticmethod
    def _agreed(
        at: datetime, left: Callable[[datetime], datetime | None], right: Callable[[datetime], datetime | None]
    ) -> datetime | None:
        """Return the first moment that both answer with; each in turn moves it on."""
        while True:
            step()
            found = left(at)
            again = None if found is None else right(found)
            if again is None or again == found:
                return again
            at = again


def _are_days(left: Calendar, right: Calendar) -> bool:
    whole = isinstance(left, DayCalendar) and isinstance(right, DayCalendar)
    return whole and left.timezone == right.timezone


def _combined(operator: str, left: Calendar, right: Calendar) -> Calendar:
    if not isinstance(right, Calendar):
        raise TypeError(f"a calendar is combined with a calendar, got {shown(right)}")
    kind = CombinedDays if _are_days(left, right) else Combined
    found = object.__new__(kind)
    found.__setstate__({"operator": operator, "left": left, "right": right})
    return found
