"""Reading a crontab line, as Vixie cron does.

croniter knows the grammar; what it lets pass although cron would not (``22-2``, ``*/60``, ``15W``, ``R``) is refused
before it is asked. The result is written in the words of the trigger's own fields, where weekdays are names, because
their numbers mean something else there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from goscheduler.errors import InvalidArgument, shown
from goscheduler.triggers.cron.expressions import FULL_NAMES, WEEKDAYS, WeekdayPositionExpression
from goscheduler.triggers.cron.fields import MAX_ITEMS, MAX_LENGTH, read_field

DIALECTS = ("vixie", "apscheduler")
FIELD_ORDER = ("minute", "hour", "day", "month", "day_of_week")
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * sun",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_CRON_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_WEEKDAY = r"[0-9]+|[a-z]+"
_WEEKDAY_RANGE = re.compile(rf"(?:\*|(?P<first>{_WEEKDAY})(?:-(?P<last>{_WEEKDAY}))?)(?:/(?P<step>[0-9]+))?")


class Crontab(NamedTuple):
    """A crontab line in the words of the trigger's fields."""

    fields: dict[str, str]
    either_day: bool
    """True if a day matches that satisfies the day of the month or the weekday, False if it must satisfy both."""


def read_crontab(expr: str, dialect: str, seconds: bool) -> Crontab:
    """Return what the crontab line ``expr`` says."""
    if dialect not in DIALECTS:
        raise InvalidArgument(
            f"Unknown dialect {shown(dialect)}; expected one of {', '.join(DIALECTS)}", field="dialect", value=dialect
        )
    texts = dict(zip((("second",) if seconds else ()) + FIELD_ORDER, _split(expr, seconds), strict=True))
    if dialect == "apscheduler":
        return Crontab(texts, either_day=False)
    either_day = not texts["day"].startswith(("*", "?")) and not texts["day_of_week"].startswith(("*", "?"))
    texts["day"] = _day_of_month(texts["day"])
    texts["day_of_week"] = _day_of_week(texts)
    return Crontab(texts, either_day)


def _split(expr: str, seconds: bool) -> list[str]:
    if not isinstance(expr, str):
        raise TypeError(f"Expected a crontab expression as text, got {type(expr).__name__} instead")
    if len(expr) > MAX_LENGTH:
        raise _refusal(f"is too long: {len(expr)} characters, at most {MAX_LENGTH} are allowed", expr)
    line = expr.strip().lower()
    if line.startswith("@"):
        return (["0"] if seconds else []) + _macro(line, expr)
    if "\n" in line or "\r" in line:
        raise _refusal("has more than one line", expr)
    fields = re.split(r"[ \t]+", line) if line else []
    expected = 6 if seconds else 5
    if len(fields) != expected:
        hint = "; a sixth field, seconds first, needs seconds=True" if len(fields) == 6 else ""
        raise InvalidArgument(
            f"Wrong number of fields; got {len(fields)}, expected {expected}{hint}", field="expr", value=expr
        )
    return fields


def _macro(line: str, expr: str) -> list[str]:
    if line in MACROS:
        return MACROS[line].split(" ")
    if line.startswith("@every"):
        raise _refusal("is not a crontab schedule; use the interval trigger, e.g. IntervalTrigger(minutes=5)", expr)
    if line == "@reboot":
        raise _refusal("has no time; add the job without a trigger to run it when the scheduler starts", expr)
    raise _refusal(f"is unknown; expected one of {', '.join(MACROS)}", expr)


def _day_of_month(text: str) -> str:
    if text == "?":
        return "*"
    if "last" in text:
        raise _field_refusal("day", text, "write L for the last day of the month")
    return ",".join("last" if item == "l" else item for item in text.split(","))


def _day_of_week(texts: dict[str, str]) -> str:
    """Return the weekday field with names for numbers, Sunday being 0 and 7 in a crontab."""
    text = texts["day_of_week"]
    items = ["*"] if text == "?" else text.split(",")
    if len(items) > MAX_ITEMS:
        raise _field_refusal("day_of_week", text, f"at most {MAX_ITEMS} items are allowed")
    places = [_place_of(item) for item in items]
    plain = [_plain_weekdays(item) for item, place in zip(items, places, strict=True) if place is None]
    weekdays = _expand({**texts, "day_of_week": ",".join(plain) or "*"})
    names = _as_ranges(weekdays) if plain and plain != ["*"] else plain
    return ",".join([*names, *(place for place in places if place is not None)])


def _place_of(item: str) -> str | None:
    """Return ``1#2`` as ``2nd mon`` and ``L5`` or ``5L`` as ``last fri``; None for anything else."""
    weekday, hash_sign, nth = item.partition("#")
    if hash_sign:
        if nth not in ("1", "2", "3", "4", "5"):
            raise _field_refusal("day_of_week", item, "a month has the 1st to the 5th of a weekday")
        return f"{WeekdayPositionExpression.options[int(nth) - 1]} {_CRON_WEEKDAYS[_number(weekday, item)]}"
    # No weekday's name begins or ends with this letter.
    if item.startswith("l") or item.endswith("l"):
        weekday = item[1:] if item.startswith("l") else item[:-1]
        return f"last {_CRON_WEEKDAYS[_number(weekday, item)]}"
    return None


def _plain_weekdays(item: str) -> str:
    """Return a checked weekday or range of them in the form that croniter reads as cron does."""
    match = _WEEKDAY_RANGE.fullmatch(item)
    if match is None:
        raise _field_refusal("day_of_week", item)
    step = match["step"]
    if match["first"] is None:
        return f"*{_step(step, 6, item)}"
    first = _number(match["first"], item)
    if match["last"] is None:
        return str(first) if step is None else f"{first}-7{_step(step, 7 - first, item)}"
    last = _number(match["last"], item)
    in_numbers = match["first"].isdigit()
    if in_numbers != match["last"].isdigit():
        raise _field_refusal("day_of_week", item, "a range is written with two numbers or with two names")
    if in_numbers and first > last:
        raise _field_refusal("day_of_week", item, f"write {_unwrapped(first, last)}")
    suffix = _step(step, last - first if in_numbers else (last - first) % 7, item)
    if first == last:
        # croniter takes "mon-mon" for the whole week.
        return str(first)
    return f"{first}-{last}{suffix}" if in_numbers else f"{_CRON_WEEKDAYS[first]}-{_CRON_WEEKDAYS[last]}{suffix}"


def _number(weekday: str, item: str) -> int:
    """Return the number of a weekday in a crontab, where the week begins with Sunday."""
    name = FULL_NAMES.get(weekday, weekday)
    if name in _CRON_WEEKDAYS:
        return _CRON_WEEKDAYS.index(name)
    if not weekday.isascii() or not weekday.isdigit():
        raise _field_refusal("day_of_week", item)
    if len(weekday) > 1 or weekday > "7":
        raise InvalidArgument(
            f"Error validating expression '{shown(item)[1:-1]}': the last value ({weekday[:20]}) is higher than the "
            f'maximum value (7) (field "day_of_week")',
            field="day_of_week",
            value=item,
        )
    return int(weekday)


def _unwrapped(first: int, last: int) -> str:
    upper = f"{first}-6" if first < 6 else str(first)
    return f"{upper},0-{last}" if last else f"{upper},0"


def _step(step: str | None, total: int, item: str) -> str:
    """Return the step of a range as it is written behind it, checked against the length of the range."""
    if step is None:
        return ""
    if not 0 < int(step) <= total:
        raise InvalidArgument(
            f"Error validating expression '{shown(item)[1:-1]}': the step value must be from 1 to the total range of "
            f'the expression ({total}) (field "day_of_week")',
            field="day_of_week",
            value=item,
        )
    return f"/{step}"


def _expand(texts: dict[str, str]) -> set[int]:
    """Return the weekdays, 0 to 6 from Sunday, after croniter has accepted the whole line."""
    from croniter import CroniterError, croniter

    fields = [str(read_field(name, texts[name], False)).replace("last", "l") for name in FIELD_ORDER[:4]]
    line = " ".join([*fields, texts["day_of_week"]])
    try:
        weekdays = croniter.expand(line)[0][4]
    except CroniterError as error:
        raise _refusal(f"is not valid: {error}", line) from error
    return set(range(7)) if "*" in weekdays else {number for number in weekdays if isinstance(number, int)}


def _as_ranges(weekdays: set[int]) -> list[str]:
    """Return weekdays as names, neighbours as a range: {1, 2, 3, 5} is ``mon-wed`` and ``fri``."""
    runs: list[list[str]] = []
    for number, name in enumerate(WEEKDAYS, start=1):
        if number % 7 in weekdays and (number - 1) % 7 in weekdays and runs:
            runs[-1].append(name)
        elif number % 7 in weekdays:
            runs.append([name])
    return [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(run) for run in runs]


def _field_refusal(field: str, text: str, hint: str = "") -> InvalidArgument:
    message = f'Unrecognized expression "{shown(text)[1:-1]}" for field "{field}"'
    return InvalidArgument(f"{message}; {hint}" if hint else message, field=field, value=text)


def _refusal(reason: str, expr: str) -> InvalidArgument:
    return InvalidArgument(f"The crontab expression {shown(expr)} {reason}", field="expr", value=expr)
