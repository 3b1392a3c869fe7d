"""The eight fields of a cron schedule, each read once into the set of values it matches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from goscheduler.errors import InvalidArgument, shown
from goscheduler.triggers.cron.expressions import (
    AllExpression,
    Expression,
    LastDayOfMonthExpression,
    MonthRangeExpression,
    RangeExpression,
    WeekdayPositionExpression,
    WeekdayRangeExpression,
)

MIN_VALUES = {"year": 1970, "month": 1, "day": 1, "week": 1, "day_of_week": 0, "hour": 0, "minute": 0, "second": 0}
MAX_VALUES = {
    "year": 9999, "month": 12, "day": 31, "week": 53, "day_of_week": 6, "hour": 23, "minute": 59, "second": 59
}  # fmt: skip
DEFAULT_VALUES: dict[str, int | str] = {
    "year": "*", "month": 1, "day": 1, "week": "*", "day_of_week": "*", "hour": 0, "minute": 0, "second": 0
}  # fmt: skip

MAX_LENGTH = 512
MAX_ITEMS = 64


class BaseField:
    """One field: the expressions it was written with and what they match together."""

    COMPILERS: ClassVar[Sequence[type[Expression]]] = (AllExpression, RangeExpression)

    def __init__(self, name: str, exprs: int | str, is_default: bool = False) -> None:
        self.name = name
        self.is_default = is_default
        self.expressions = self.compile_expressions(exprs)

    def compile_expressions(self, exprs: int | str) -> list[Expression]:
        """Return the expressions that ``exprs``, a number or comma-separated text, is made of."""
        text = self._as_text(exprs)
        items = text.split(",")
        if len(text) > MAX_LENGTH or len(items) > MAX_ITEMS:
            raise self._refusal(
                f'the expression {shown(text)} for field "{self.name}" is too long: at most {MAX_LENGTH} characters '
                f"and {MAX_ITEMS} items are allowed",
                exprs,
            )
        return [self.compile_expression(item.strip(" \t")) for item in items]

    def compile_expression(self, expr: str) -> Expression:
        """Return the one expression that ``expr`` is, checked against the limits of the field."""
        for compiler in self.COMPILERS:
            match = compiler.value_re.fullmatch(expr.lower())
            if match is not None:
                return self._checked(compiler, match.groupdict(), expr)
        raise self._refusal(f'Unrecognized expression "{_escaped(expr)}" for field "{self.name}"', expr)

    def _checked(self, compiler: type[Expression], parts: dict[str, str | None], expr: str) -> Expression:
        try:
            expression = compiler(**parts)
            expression.check(self.lowest, self.highest)
        except ValueError as error:
            raise self._refusal(
                f"Error validating expression '{_escaped(expr)}': {error} (field \"{self.name}\")", expr
            ) from error
        return expression

    def _as_text(self, exprs: int | str) -> str:
        require_number_or_text(self.name, exprs)
        try:
            return str(exprs)
        except ValueError as error:
            raise self._refusal(f'The number for field "{self.name}" has too many digits', None) from error

    def _refusal(self, message: str, value: object) -> InvalidArgument:
        return InvalidArgument(message, field=self.name, value=value)

    @property
    def lowest(self) -> int:
        """The smallest value of this field."""
        return MIN_VALUES[self.name]

    @property
    def highest(self) -> int:
        """The largest value of this field."""
        return MAX_VALUES[self.name]

    @property
    def is_everything(self) -> bool:
        """True if the field, as it is written, restricts nothing."""
        return any(isinstance(expr, AllExpression) and expr.step is None for expr in self.expressions)

    @property
    def values(self) -> frozenset[int]:
        """The values that match in every month; positions and the last day of the month are not among them."""
        return frozenset().union(*(expr.values(self.lowest, self.highest) for expr in self.expressions))

    @property
    def positions(self) -> frozenset[tuple[int, int]]:
        """The matching places of weekdays in the month, as (0 to 4 or 5 for the last, weekday)."""
        return frozenset(
            (expr.option_num, expr.weekday) for expr in self.expressions if isinstance(expr, WeekdayPositionExpression)
        )

    @property
    def has_last_day(self) -> bool:
        """True if the last day of each month matches."""
        return any(isinstance(expr, LastDayOfMonthExpression) for expr in self.expressions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseField) and (self.name, self.expressions) == (other.name, other.expressions)

    def __hash__(self) -> int:
        return hash((self.name, str(self)))

    def __str__(self) -> str:
        return ",".join(str(expression) for expression in self.expressions)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {str(self)!r})"


class WeekField(BaseField):
    """The ISO week of the year."""


class MonthField(BaseField):
    """The month, by number or name."""

    COMPILERS = (*BaseField.COMPILERS, MonthRangeExpression)


class DayOfMonthField(BaseField):
    """The day of the month, by number, as the last day, or by weekday and place."""

    COMPILERS = (*BaseField.COMPILERS, WeekdayPositionExpression, LastDayOfMonthExpression)


class DayOfWeekField(BaseField):
    """The weekday, by number (0 is Monday), by name, or by name and place in the month."""

    COMPILERS = (*BaseField.COMPILERS, WeekdayPositionExpression, WeekdayRangeExpression)


FIELD_TYPES: dict[str, type[BaseField]] = {
    "year": BaseField,
    "month": MonthField,
    "week": WeekField,
    "day": DayOfMonthField,
    "day_of_week": DayOfWeekField,
    "hour": BaseField,
    "minute": BaseField,
    "second": BaseField,
}


@lru_cache(maxsize=2048)
def read_field(name: str, exprs: int | str, is_default: bool) -> BaseField:
    """Return the field ``name`` written as ``exprs``; fields written alike are one object."""
    return FIELD_TYPES[name](name, exprs, is_default)


def require_number_or_text(name: str, exprs: object) -> None:
    """Raise TypeError if ``exprs`` is nothing that a field can be written with."""
    if isinstance(exprs, bool) or not isinstance(exprs, (int, str)):
        raise TypeError(f'Expected a number or text for field "{name}", got {type(exprs).__name__} instead')


def _escaped(text: str) -> str:
    return shown(text)[1:].removesuffix("'").removesuffix('"')
