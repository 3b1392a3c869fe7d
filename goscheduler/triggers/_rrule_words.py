"""Recurrence rules in plain English."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from goscheduler.triggers._rrule_parts import Parts, walk_options

_UNITS = {
    "YEARLY": "year", "MONTHLY": "month", "WEEKLY": "week", "DAILY": "day", "HOURLY": "hour", "MINUTELY": "minute",
    "SECONDLY": "second",
}  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MOST_TIMES = 12
_PLAIN = {"BYWEEKNO": "in week", "BYYEARDAY": "on day of the year", "BYSETPOS": "of these the"}


def told(parts: Parts, start: datetime) -> str:
    """Return what a rule means, without its start."""
    unit = _UNITS[parts.freq]
    texts = [f"every {unit}" if parts.interval == 1 else f"every {parts.interval} {unit}s"]
    options = walk_options(parts, start)
    if parts.weekdays:
        texts.append(f"on {_listed(_weekday(day, number) for day, number in parts.weekdays)}")
    elif options.get("byweekday"):
        texts.append(f"on {_DAYS[options['byweekday'][0]]}")
    if options.get("bymonthday"):
        texts.append(f"on day {_listed(map(_place, options['bymonthday']))}")
    if options.get("bymonth"):
        texts.append(f"in {_listed(_MONTHS[month - 1] for month in options['bymonth'])}")
    texts += [f"{words} {_listed(map(_place, parts.numbers[name]))}" for name, words in _PLAIN.items()
              if name in parts.numbers]  # fmt: skip
    texts.append(_times(options))
    if parts.count is not None:
        texts.append(f"{parts.count} times")
    if parts.until is not None:
        texts.append(f"until {parts.until:%Y-%m-%d %H:%M}")
    return " ".join(filter(None, texts))


def _times(options: dict[str, tuple[int, ...]]) -> str:
    hours, minutes, seconds = (options.get(name, ()) for name in ("byhour", "byminute", "bysecond"))
    if hours and minutes and seconds and len(hours) * len(minutes) * len(seconds) <= _MOST_TIMES:
        form = "{:02}:{:02}" if set(seconds) == {0} else "{:02}:{:02}:{:02}"
        return "at " + _listed(form.format(hour, minute, second) for hour in hours for minute in minutes
                               for second in seconds)  # fmt: skip
    named = {"hour": hours, "minute": minutes, "second": seconds if set(seconds) != {0} else ()}
    return " ".join(f"at {unit} {_listed(map(str, numbers))}" for unit, numbers in named.items() if numbers)


def _weekday(day: int, number: int) -> str:
    return f"the {_place(number)} {_DAYS[day]}" if number else _DAYS[day]


def _place(number: int) -> str:
    if number == -1:
        return "last"
    return str(number) if number > 0 else f"{-number} from the end"


def _listed(items: Iterable[str]) -> str:
    given = list(items)
    return given[0] if len(given) == 1 else f"{', '.join(given[:-1])} and {given[-1]}"
