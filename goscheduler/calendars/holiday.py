"""Public holidays and the days on which exchanges are closed, from the library ``holidays``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, tzinfo
from functools import lru_cache
from typing import Any

from goscheduler.calendars.base import DayCalendar, read_zone, zone_told
from goscheduler.errors import InvalidArgument, nearest, shown

_Named = Mapping[date, str]


class Holidays(DayCalendar):
    """Is open on the holidays of a country: ``Weekdays("mon-fri") - Holidays("DE", subdiv="BY")``.

    ``country`` is a code of two letters, ``subdiv`` a state or province of it as the library ``holidays`` names it.
    ``country`` may also be an exchange: ``Holidays("XNYS")``. ``categories`` are those of the library, such as "bank".
    What a process has stored, another one reads without the library; it has to have it to find the days.
    """

    def __init__(
        self,
        country: str,
        subdiv: str | None = None,
        categories: str | Iterable[str] | None = None,
        timezone: tzinfo | str | None = None,
    ) -> None:
        given = () if categories is None else (categories,) if isinstance(categories, str) else categories
        self._set_up(country, subdiv, list(given), timezone)
        _holidays_of(self.country, self.subdiv, self.categories, 2026)  # says now what is wrong

    def _set_up(
        self, country: str, subdiv: str | None, categories: Iterable[str], timezone: tzinfo | str | None
    ) -> None:
        _check_code("country", country)
        if subdiv is not None:
            _check_code("subdiv", subdiv)
        for category in categories:
            _check_code("categories", category)
        self.country, self.subdiv, self.categories = country.upper(), subdiv, tuple(categories)
        self.timezone = read_zone(timezone)

    def days(self, year: int) -> int:
        start = date(year, 1, 1).toordinal()
        named = _holidays_of(self.country, self.subdiv, self.categories, year)
        return sum(1 << (day.toordinal() - start) for day in named)

    def told(self, moment: datetime) -> str:
        day = (moment if self.timezone is None else moment.astimezone(self.timezone)).date()
        named = _holidays_of(self.country, self.subdiv, self.categories, day.year)
        return named.get(day) or f"no holiday in {self._place()}"

    def explain(self) -> str:
        return f"holidays of {self._place()}{zone_told(self.timezone)}"

    def _place(self) -> str:
        place = self.country if self.subdiv is None else f"{self.country}-{self.subdiv}"
        return f"{place} ({', '.join(self.categories)})" if self.categories else place

    def __getstate__(self) -> dict[str, Any]:
        return {
            "country": self.country, "subdiv": self.subdiv, "categories": list(self.categories),
            "timezone": self.timezone,
        }  # fmt: skip

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._set_up(**state)


def _check_code(field: str, value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= 50 or not value.isprintable():
        raise InvalidArgument(f"{field} must be a code such as 'DE', got {shown(value)}", field=field, value=value)


@lru_cache(maxsize=1024)
def _holidays_of(country: str, subdiv: str | None, categories: tuple[str, ...], year: int) -> _Named:
    """Return the holidays of a year by their dates.

    :raises InvalidArgument: naming what the library does not know
    """
    try:
        import holidays
    except ImportError as error:
        message = f'Holidays needs the library "holidays": pip install "goscheduler[calendars]" ({error})'
        raise ImportError(message, name="holidays") from error
    countries, exchanges = holidays.list_supported_countries(), holidays.list_supported_financial()
    known = countries if country in countries else exchanges
    if country not in known:
        raise _unknown("country", country, [*countries, *exchanges], "a code of the library holidays such as 'DE'")
    if subdiv is not None and country in countries:
        _check_subdivision(holidays, country, subdiv)
    of = holidays.country_holidays if country in countries else holidays.financial_holidays
    try:
        found = of(country, subdiv=subdiv, years=year, language="en_US", categories=categories or None)
    except (ValueError, NotImplementedError) as error:
        field = "categories" if categories else "subdiv"
        raise InvalidArgument(f"{field} of {country}: {error}", field=field, value=categories or subdiv) from error
    return {day: name for day, name in found.items() if day.year == year}


def _check_subdivision(holidays: Any, country: str, subdiv: str) -> None:
    known = {*holidays.list_supported_countries(include_aliases=True).get(country, ())}
    aliases = holidays.country_holidays(country).get_subdivision_aliases()
    known.update(alias for names in aliases.values() for alias in names)
    if subdiv not in known:
        expected = f"one of {', '.join(sorted(aliases) or sorted(known))}" if known else f"left out: {country} has none"
        raise _unknown("subdiv", subdiv, known, expected)


def _unknown(field: str, value: str, known: Iterable[str], expected: str) -> InvalidArgument:
    near = nearest(value, known)
    hint = f'; did you mean "{near}"?' if near else ""
    return InvalidArgument(f"{field} must be {expected}, got {shown(value)}{hint}", field=field, value=value)
