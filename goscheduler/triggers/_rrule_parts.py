"""Reading recurrence rules, as RFC 5545 writes them, into what ``dateutil`` walks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, nearest, shown
from goscheduler.times import UTC, astimezone

MOST_COUNTED = 10_000
LONGEST_RULE = 1000
#: As many lines and dates may an event have.
LONGEST_EVENT = 100_000

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
#: Part → the highest number, the lowest one, and whether the negative ones count from the end.
_NUMBERS = {
    "BYMONTH": (1, 12, False), "BYWEEKNO": (1, 53, True), "BYYEARDAY": (1, 366, True), "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False), "BYMINUTE": (0, 59, False), "BYSECOND": (0, 59, False), "BYSETPOS": (1, 366, True),
}  # fmt: skip
_PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_NUMBERS)
_BY = ("BYDAY", *_NUMBERS)
_DAYS_OF = ("BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO")
_MOMENT = re.compile(r"(\d{8})(?:T(\d{6})(Z?))?", re.ASCII)
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_NOT_BESIDE = {  # part → the frequencies that it has no meaning with
    "BYWEEKNO": FREQUENCIES[1:],
    "BYYEARDAY": ("MONTHLY", "WEEKLY", "DAILY"),
    "BYMONTHDAY": ("WEEKLY",),
    # It could name what no hour has, and the search for that would take for ever.
    "BYSETPOS": FREQUENCIES[4:],
}


class Parts(NamedTuple):
    """A rule that was read."""

    freq: str
    interval: int
    count: int | None  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    until: datetime | None
    """The last moment on the wall; None for no end."""
    week_start: int
    numbers: Mapping[str, tuple[int, ...]]
    """Parts with "BY" and numbers."""
    weekdays: tuple[tuple[int, int], ...]
    """Weekdays of BYDAY; the second number is which one of the month or year, 0 for each."""


def read_rule(rule: object, zone: tzinfo) -> Parts:
    """Return what a rule says; its end is put on the clock on the wall of the zone.

    :raises InvalidArgument: naming the part
    """
    if not isinstance(rule, str) or not 0 < len(rule) <= LONGEST_RULE:
        raise refused("rule", rule, f"a text of {LONGEST_RULE} characters such as 'FREQ=MONTHLY;BYDAY=-1FR'")
    parts = _split(rule)
    freq = parts.get("FREQ", "")
    if freq not in FREQUENCIES:
        raise refused("FREQ", freq, f"one of {', '.join(FREQUENCIES)}", freq, FREQUENCIES)
    numbers = {name: _numbers(name, parts[name]) for name in _NUMBERS if name in parts}
    read = Parts(
        freq, _whole("INTERVAL", parts.get("INTERVAL", "1"), 10_000),
        _whole("COUNT", parts["COUNT"], MOST_COUNTED) if "COUNT" in parts else None,
        _until(parts["UNTIL"], zone) if "UNTIL" in parts else None,
        _week_start(parts.get("WKST", "MO")), numbers, _weekdays(parts.get("BYDAY")),
    )  # fmt: skip
    _check_together(read, parts)
    return read


def _split(rule: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in rule.strip().rstrip(";").upper().split(";"):
        name, equals, value = part.strip().partition("=")
        if name not in _PARTS or not equals:
            raise refused("rule", part, f"parts such as FREQ=DAILY, of {', '.join(_PARTS)}", name, _PARTS)
        if name in parts:
            raise refused(name, value, "there once")
        parts[name] = value
    return parts


def _check_together(read: Parts, parts: Mapping[str, str]) -> None:
    by = [name for name in _BY if name in parts]
    if read.count is not None and read.until is not None:
        raise refused("UNTIL", parts["UNTIL"], "left out beside COUNT")
    for name in by:
        if read.freq in _NOT_BESIDE.get(name, ()):
            raise refused(name, parts[name], f"left out beside FREQ={read.freq}")
    if any(number for _, number in read.weekdays) and (read.freq not in FREQUENCIES[:2] or "BYWEEKNO" in by):
        raise refused("BYDAY", parts["BYDAY"], "weekdays without a number, unless FREQ is MONTHLY or YEARLY")
    if by == ["BYSETPOS"]:
        raise refused("BYSETPOS", parts["BYSETPOS"], "beside another part with BY")
    if read.freq in ("MINUTELY", "SECONDLY") and not by:
        unit = read.freq.removesuffix("LY").lower()
        raise refused("FREQ", read.freq, f"an interval: use IntervalTrigger({unit}s={read.interval})")


def _numbers(name: str, text: str) -> tuple[int, ...]:
    lowest, highest, negative = _NUMBERS[name]
    found = []
    for item in text.split(","):
        number = int(item) if re.fullmatch(r"[+-]?\d{1,3}", item, re.ASCII) else None
        if number is None or not (lowest <= number <= highest or (negative and lowest <= -number <= highest)):
            or_back = f", or -{highest} to -{lowest}" if negative else ""
            raise refused(name, item, f"{lowest} to {highest}{or_back}")
        found.append(number)
    return tuple(sorted(set(found)))


def _weekdays(text: str | None) -> tuple[tuple[int, int], ...]:
    found = []
    for item in [] if text is None else text.split(","):
        match = _WEEKDAY.fullmatch(item)
        number = int(match[1] or 0) if match else 99
        if match is None or abs(number) > 53 or (match[1] and not number):
            raise refused("BYDAY", item, "weekdays such as MO, or 2TU and -1FR")
        found.append((WEEKDAYS.index(match[2]), number))
    return tuple(found)


def _week_start(text: str) -> int:
    if text not in WEEKDAYS:
        raise refused("WKST", text, f"one of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(text)


def _whole(name: str, text: str, most: int) -> int:
    number = int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0
    if not 1 <= number <= most:
        raise refused(name, text, f"a whole number from 1 to {most}")
    return number


def _until(text: str, zone: tzinfo) -> datetime:
    """Return the last moment on the wall. A date is all of its day; a moment in UTC is put into the zone first."""
    wall = read_moment(text, zone, "UNTIL")
    return wall if "T" in text else datetime.combine(wall.date(), time.max)


def read_moment(text: str, zone: tzinfo, field: str) -> datetime:
    """Return a moment of the RFC's form as clocks in the zone show it."""
    match = _MOMENT.fullmatch(text.strip())
    try:
        if match is not None:
            digits = match[1] + (match[2] or "000000")
            month, day, hour, minute, second = (int(digits[at : at + 2]) for at in range(4, 14, 2))
            wall = datetime(int(digits[:4]), month, day, hour, minute, second)
            return on_the_wall(wall.replace(tzinfo=UTC), zone) if match[3] else wall
    except ValueError as error:
        raise refused(field, text, f"a date and time such as 20260131T090000; {error}") from error
    raise refused(field, text, "a date or a date and time such as 20260131T090000Z")


def on_the_wall(moment: datetime, zone: tzinfo) -> datetime:
    """Return a moment as clocks in a zone show it."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


class Event(NamedTuple):
    """The lines of an event."""

    rule: str
    start: datetime | None = None
    zone: tzinfo | None = None
    rdates: tuple[datetime, ...] = ()
    exdates: tuple[datetime, ...] = ()


def read_event(text: object, timezone: tzinfo | None) -> Event:
    """Return the rule, the start and the dates of lines ``DTSTART``, ``RRULE``, ``RDATE`` and ``EXDATE``."""
    if not isinstance(text, str) or not 0 < len(text.strip()) <= LONGEST_EVENT:
        raise refused("rule", text, "a text such as 'FREQ=MONTHLY;BYDAY=-1FR'")
    lines = [line for line in re.sub(r"\r?\n[ \t]", "", text.strip()).splitlines() if line.strip()]
    if len(lines) == 1 and ":" not in lines[0]:
        return Event(lines[0].strip())
    named = [_line(line) for line in lines]
    rules = [value for name, _, value in named if name == "RRULE"]
    if len(rules) != 1:
        raise refused("rule", text, "lines with one RRULE")
    starts = [(options, value) for name, options, value in named if name == "DTSTART"]
    zone = timezone or (_zone_of(*starts[0]) if starts else None)
    own = zone or UTC
    start = _in_zone(*starts[0], own, "DTSTART")[0] if starts else None
    dates = {
        wanted: tuple(day for name, options, value in named if name == wanted
                      for day in _in_zone(options, value, own, wanted))
        for wanted in ("RDATE", "EXDATE")
    }  # fmt: skip
    return Event(rules[0], start, zone, dates["RDATE"], dates["EXDATE"])


def _line(line: str) -> tuple[str, str, str]:
    head, colon, value = line.strip().partition(":")
    name, _, options = head.partition(";")
    known = ("DTSTART", "RRULE", "RDATE", "EXDATE")
    if name.upper() not in known or not colon:
        raise refused("rule", line, f"lines of {', '.join(known)}", name.upper(), known)
    return name.upper(), options, value


def _zone_of(options: str, value: str) -> tzinfo | None:
    named = re.search(r"TZID=([^;]+)", options, re.IGNORECASE)
    if named is not None:
        return astimezone(named[1])
    return UTC if value.strip().upper().endswith("Z") else None


def _in_zone(options: str, value: str, zone: tzinfo, field: str) -> list[datetime]:
    own = _zone_of(options, "") or zone
    walls = [read_moment(item.upper(), own, field) for item in value.split(",")]
    return walls if own is zone else [on_the_wall(wall.replace(tzinfo=own), zone) for wall in walls]


def period_start(parts: Parts, start: datetime, earliest: datetime) -> datetime:
    """Return where a period of the rule begins that has none of its times from ``earliest`` on before it.

    Periods are counted from the one that ``start`` lies in. Where times are counted, it is that one.
    """
    first = _begin_of_period(parts, start)
    if parts.count is not None or earliest <= start:
        return first
    if parts.freq in ("YEARLY", "MONTHLY"):
        months = parts.interval * (12 if parts.freq == "YEARLY" else 1)
        passed = (earliest.year - first.year) * 12 + earliest.month - first.month
        number = first.year * 12 + first.month - 1 + max(0, passed // months - 1) * months
        return first.replace(year=number // 12, month=number % 12 + 1)
    length = {"WEEKLY": timedelta(weeks=1), "DAILY": timedelta(days=1), "HOURLY": timedelta(hours=1),
              "MINUTELY": timedelta(minutes=1), "SECONDLY": timedelta(seconds=1)}[parts.freq]  # fmt: skip
    step = length * parts.interval
    return first + max(0, (earliest - first) // step - 1) * step


def _begin_of_period(parts: Parts, start: datetime) -> datetime:
    day = datetime.combine(start.date(), time())
    if parts.freq == "YEARLY":
        return day.replace(month=1, day=1)
    if parts.freq == "MONTHLY":
        return day.replace(day=1)
    if parts.freq == "WEEKLY":
        return day - timedelta(days=min((day.weekday() - parts.week_start) % 7, (day - datetime.min).days))
    if parts.freq == "DAILY":
        return day
    begin = start.replace(minute=0, second=0, microsecond=0)
    if parts.freq == "HOURLY":
        return begin
    return start.replace(second=0, microsecond=0) if parts.freq == "MINUTELY" else start.replace(microsecond=0)


def walk_options(parts: Parts, start: datetime) -> dict[str, Any]:
    """Return the parts as ``dateutil`` takes them, with what the start stands for where a part is left out."""
    names = {"BYMONTH": "bymonth", "BYWEEKNO": "byweekno", "BYYEARDAY": "byyearday", "BYMONTHDAY": "bymonthday",
             "BYHOUR": "byhour", "BYMINUTE": "byminute", "BYSECOND": "bysecond", "BYSETPOS": "bysetpos"}  # fmt: skip
    found: dict[str, Any] = {names[name]: numbers for name, numbers in parts.numbers.items()}
    level = FREQUENCIES.index(parts.freq)
    for unit, (name, of_start) in enumerate((("byhour", start.hour), ("byminute", start.minute),
                                             ("bysecond", start.second)), start=4):  # fmt: skip
        if level < unit:
            found.setdefault(name, (of_start,))
    if not parts.weekdays and not any(name in parts.numbers for name in _DAYS_OF):
        if parts.freq == "YEARLY":
            found.setdefault("bymonth", (start.month,))
        if parts.freq in ("YEARLY", "MONTHLY"):
            found["bymonthday"] = (start.day,)
        if parts.freq == "WEEKLY":
            found["byweekday"] = (start.weekday(),)
    return found


def refused(
    field: str, value: object, expected: str, name: str = "", known: tuple[str, ...] = ()
) -> InvalidArgument:
    """Return the error about a part of a rule."""
    near = nearest(name, known) if name else None
    hint = f'; did you mean "{near}"?' if near and near != name else ""
    return InvalidArgument(f"{field} must be {expected}, got {shown(value)}{hint}", field=field, value=value)


def wall_of(value: datetime | date | str, zone: tzinfo, field: str) -> datetime:
    """Return a date, a moment or a text as clocks in the zone show it."""
    if isinstance(value, str):
        return _wall_of_text(value, zone, field)
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else on_the_wall(value, zone)).replace(microsecond=0)
    if isinstance(value, date):
        return datetime.combine(value, time())
    raise refused(field, value, "a date, a date and time, or a text of one")


def _wall_of_text(text: str, zone: tzinfo, field: str) -> datetime:
    if _MOMENT.fullmatch(text.strip()):
        return read_moment(text, zone, field)
    try:
        return wall_of(datetime.fromisoformat(text.strip().replace("Z", "+00:00")), zone, field)
    except ValueError as error:
        raise refused(field, text, "a date and time such as 2026-01-31 09:00") from error
