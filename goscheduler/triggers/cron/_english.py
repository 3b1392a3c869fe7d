"""Schedules in plain English."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from goscheduler.triggers.cron._calendar import Rule
from goscheduler.triggers.cron.expressions import WeekdayPositionExpression

_MOST_TIMES = 12
"""More times of day than this are described by their hours and minutes and not one by one."""

# Not from the calendar module, whose names follow the locale of the process.
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def describe(rule: Rule) -> str:
    """Return when ``rule`` fires: "at 09:00 on every Monday to Friday"."""
    return " ".join(part for part in (_time_of_day(rule), _days(rule), _weeks(rule), _years(rule)) if part)


def _time_of_day(rule: Rule) -> str:
    times = len(rule.hours) * len(rule.minutes) * len(rule.seconds)
    if times <= _MOST_TIMES and len(rule.hours) < 24:
        return f"at {_listed(_clock_times(rule))}"
    if len(rule.hours) < 24:
        return f"{_within_the_hour(rule)} in the {_counted('hour', rule.hours)}"
    if rule.seconds == {0} and rule.minutes == {0}:
        return "every hour"
    within = _within_the_hour(rule)
    return within if _regular("minute", rule.minutes) else f"{within} of every hour"


def _clock_times(rule: Rule) -> list[str]:
    form = "{:02}:{:02}" if rule.seconds == {0} else "{:02}:{:02}:{:02}"
    return [
        form.format(hour, minute, second)
        for hour in sorted(rule.hours)
        for minute in sorted(rule.minutes)
        for second in sorted(rule.seconds)
    ]


def _within_the_hour(rule: Rule) -> str:
    minutes = _regular("minute", rule.minutes) or f"at {_counted('minute', rule.minutes)}"
    if rule.seconds == {0}:
        return minutes
    seconds = _regular("second", rule.seconds)
    if len(rule.minutes) == 60:
        return seconds or f"at {_counted('second', rule.seconds)} of every minute"
    return f"{seconds or 'at ' + _counted('second', rule.seconds)} of {minutes.removeprefix('at ')}"


def _regular(unit: str, values: frozenset[int]) -> str | None:
    """Return "every 5 minutes" if the values have the same distance all round the clock."""
    step = 60 // len(values)
    if values != frozenset(range(0, 60, step)) or 60 % len(values) or len(values) == 1:
        return None
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _days(rule: Rule) -> str:
    by_date = f"{_dates(rule)} of {_months(rule)}"
    by_weekday = f"every {_weekdays(rule)}"
    any_date, any_weekday = len(rule.days) == 31, len(rule.weekdays) == 7
    if rule.either_day:
        scope = "" if len(rule.months) == 12 else f" in {_months(rule)}"
        return f"on {by_date}, and on {by_weekday}{scope}"
    if any_date and any_weekday:
        return _every_day(rule)
    if any_date:
        return f"on {by_weekday}" if len(rule.months) == 12 else f"on {by_weekday} in {_months(rule)}"
    return f"on {by_date}" if any_weekday else f"on {by_date} if it is a {_weekdays(rule, ' or ')}"


def _every_day(rule: Rule) -> str:
    if len(rule.months) < 12:
        return f"on every day of {_months(rule)}"
    return "every day" if len(rule.hours) < 24 else ""


def _dates(rule: Rule) -> str:
    parts = [_counted("day", rule.days)] if rule.days else []
    if rule.last_day:
        parts.append("the last day")
    return _listed([*parts, *_places(rule.day_positions, "the ")])


def _weekdays(rule: Rule, conjunction: str = " and ") -> str:
    names = _spans(rule.weekdays, _WEEKDAYS, 0)
    return _listed([*names, *_places(rule.weekday_positions, "")], conjunction)


def _places(positions: frozenset[tuple[int, int]], article: str) -> list[str]:
    options = WeekdayPositionExpression.options
    return [f"{article}{options[option]} {_WEEKDAYS[weekday]}" for option, weekday in sorted(positions)]


def _months(rule: Rule) -> str:
    return "every month" if len(rule.months) == 12 else _listed(_spans(rule.months, _MONTHS, 1))


def _weeks(rule: Rule) -> str:
    return "" if rule.weeks is None else f"in ISO {_counted('week', rule.weeks)}"


def _years(rule: Rule) -> str:
    return "" if rule.years is None else f"in {_listed(_spans(rule.years))}"


def _counted(noun: str, values: frozenset[int]) -> str:
    return f"{noun if len(values) == 1 else noun + 's'} {_listed(_spans(values))}"


def _spans(values: Iterable[int], names: Sequence[str] | None = None, lowest: int = 0) -> list[str]:
    """Return the values as text, three or more neighbours as "2 to 5"."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    texts = []
    for run in runs:
        ends = run if len(run) < 3 else [run[0], run[-1]]
        labels = [names[value - lowest] if names else str(value) for value in ends]
        texts.extend(labels if len(run) < 3 else [" to ".join(labels)])
    return texts


def _listed(items: Sequence[str], conjunction: str = " and ") -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])}{conjunction}{items[-1]}"
