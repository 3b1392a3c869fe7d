"""The pieces that a cron field is made of: ``*/5``, ``1-10/3``, ``mon-fri``, ``2nd fri``, ``last``.

An expression is read once, checked against the limits of its field, and then only asked for the values it matches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
FULL_NAMES = {
    "monday": "mon", "tuesday": "tue", "wednesday": "wed", "thursday": "thu", "friday": "fri", "saturday": "sat",
    "sunday": "sun", "january": "jan", "february": "feb", "march": "mar", "april": "apr", "june": "jun",
    "july": "jul", "august": "aug", "september": "sep", "october": "oct", "november": "nov", "december": "dec",
}  # fmt: skip

LAST = 5
"""The ``option_num`` of "last fri", after 0 to 4 for the first to the fifth."""


class Expression:
    """What all expressions have in common: they print as they are written and compare by it."""

    value_re: ClassVar[re.Pattern[str]]

    def check(self, lowest: int, highest: int) -> None:
        """Raise ValueError if the expression does not fit into a field from ``lowest`` to ``highest``."""

    def values(self, lowest: int, highest: int) -> frozenset[int]:
        """Return the values of the field that match, without those that depend on the month at hand."""
        return frozenset()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((type(self), str(self)))


class AllExpression(Expression):
    """Matches every value, or every ``step``-th one counted from the lowest: ``*``, ``*/5``."""

    value_re = re.compile(r"\*(?:/(?P<step>[0-9]+))?")

    def __init__(self, step: int | str | None = None) -> None:
        self.step = _positive_step(step)

    def check(self, lowest: int, highest: int) -> None:
        _check_step(self.step, highest - lowest)

    def values(self, lowest: int, highest: int) -> frozenset[int]:
        return frozenset(range(lowest, highest + 1, self.step or 1))

    def __str__(self) -> str:
        return f"*/{self.step}" if self.step else "*"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.step if self.step else ''})"


class RangeExpression(Expression):
    """Matches one number or a range of them: ``5``, ``1-10``, ``1-10/3``, ``5/3`` (from 5 to the highest)."""

    value_re = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?(?:/(?P<step>[0-9]+))?")

    def __init__(self, first: int | str, last: int | str | None = None, step: int | str | None = None) -> None:
        self.step = _positive_step(step)
        self.first = int(first)
        self.last = int(last) if last is not None else None if self.step else self.first

    def check(self, lowest: int, highest: int) -> None:
        last = highest if self.last is None else self.last
        if self.first < lowest:
            raise ValueError(f"the first value ({self.first}) is lower than the minimum value ({lowest})")
        if max(last, self.first) > highest:
            raise ValueError(f"the last value ({max(last, self.first)}) is higher than the maximum value ({highest})")
        if self.first > last:
            rest = f"{lowest}-{last}" if last > lowest else str(last)
            upper = f"{self.first}-{highest}" if self.first < highest else str(highest)
            raise ValueError(f"The minimum value in a range must not be higher than the maximum; write {upper},{rest}")
        _check_step(self.step, last - self.first)

    def values(self, lowest: int, highest: int) -> frozenset[int]:
        last = highest if self.last is None else self.last
        return frozenset(range(self.first, last + 1, self.step or 1))

    def __str__(self) -> str:
        span = str(self.first) if self.last in (None, self.first) else f"{self.first}-{self.last}"
        return f"{span}/{self.step}" if self.step else span

    def __repr__(self) -> str:
        parts = [repr(self.first)]
        if self.step or self.last != self.first:
            parts.append(repr(self.last))
        if self.step:
            parts.append(repr(self.step))
        return f"{type(self).__name__}({', '.join(parts)})"


class _NameRangeExpression(RangeExpression):
    """Matches one name or a range of them, which may run over the end: ``mon``, ``fri-mon``, ``jan-dec/3``."""

    value_re = re.compile(r"(?P<first>[a-z]+)(?:-(?P<last>[a-z]+))?(?:/(?P<step>[0-9]+))?")
    NAMES: ClassVar[Sequence[str]]
    KIND: ClassVar[str]
    LOWEST: ClassVar[int]

    def __init__(self, first: str, last: str | None = None, step: int | str | None = None) -> None:
        numbers = [_number(name, self.NAMES, self.KIND) + self.LOWEST for name in (first, last or first)]
        # A lone name with a step ("mon/2") runs to the end of the week or year, as a lone number does.
        super().__init__(numbers[0], None if last is None and step is not None else numbers[1], step)

    def check(self, lowest: int, highest: int) -> None:
        _check_step(self.step, len(self._span(highest)) - 1)

    def values(self, lowest: int, highest: int) -> frozenset[int]:
        size = highest - lowest + 1
        return frozenset((value - lowest) % size + lowest for value in self._span(highest)[:: self.step or 1])

    def _span(self, highest: int) -> range:
        last = highest if self.last is None else self.last
        return range(self.first, last + 1 + (len(self.NAMES) if last < self.first else 0))

    def __str__(self) -> str:
        first, last = self._names()
        span = first if last in (None, first) else f"{first}-{last}"
        return f"{span}/{self.step}" if self.step else span

    def __repr__(self) -> str:
        first, last = self._names()
        parts = [repr(first)]
        if self.step or last != first:
            parts.append(repr(last))
        if self.step:
            parts.append(repr(self.step))
        return f"{type(self).__name__}({', '.join(parts)})"

    def _names(self) -> tuple[str, str | None]:
        last = None if self.last is None else self.NAMES[self.last - self.LOWEST]
        return self.NAMES[self.first - self.LOWEST], last


class MonthRangeExpression(_NameRangeExpression):
    """Matches months by name: ``jan``, ``january``, ``nov-feb``."""

    NAMES = MONTHS
    KIND = "month"
    LOWEST = 1


class WeekdayRangeExpression(_NameRangeExpression):
    """Matches weekdays by name: ``mon``, ``monday``, ``fri-mon``."""

    NAMES = WEEKDAYS
    KIND = "weekday"
    LOWEST = 0


class WeekdayPositionExpression(Expression):
    """Matches a weekday by its place in the month: ``2nd fri``, ``last sun``."""

    options: ClassVar[Sequence[str]] = ["1st", "2nd", "3rd", "4th", "5th", "last"]
    value_re = re.compile(rf"(?P<option_name>{'|'.join(options)})[ \t]+(?P<weekday_name>[a-z]+)")

    def __init__(self, option_name: str, weekday_name: str) -> None:
        self.step = None
        if option_name not in self.options:
            raise ValueError(f'Invalid weekday position "{option_name}"')
        self.option_num = self.options.index(option_name)
        self.weekday = _number(weekday_name, WEEKDAYS, "weekday")

    def __str__(self) -> str:
        return f"{self.options[self.option_num]} {WEEKDAYS[self.weekday]}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.options[self.option_num]!r}, {WEEKDAYS[self.weekday]!r})"


class LastDayOfMonthExpression(Expression):
    """Matches the last day of each month: ``last``."""

    value_re = re.compile("last")

    def __init__(self) -> None:
        self.step = None

    def __str__(self) -> str:
        return "last"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _number(name: str, names: Sequence[str], kind: str) -> int:
    short = FULL_NAMES.get(name.lower(), name.lower())
    if short not in names:
        raise ValueError(f'Invalid {kind} name "{name}"')
    return names.index(short)


def _positive_step(step: int | str | None) -> int | None:
    if step is None:
        return None
    if int(step) == 0:
        raise ValueError("Increment must be higher than 0")
    return int(step)


def _check_step(step: int | None, total: int) -> None:
    if step and step > total:
        raise ValueError(f"the step value ({step}) is higher than the total range of the expression ({total})")
