"""Dates, times, lengths of time and numbers as users and configuration files write them."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta, timezone, tzinfo
from numbers import Real

from goscheduler.errors import InvalidArgument, shown
from goscheduler.times.micros import UTC
from goscheduler.times.zones import astimezone, localize, normalize

_DATE_TIME = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"([ T](?P<hour>\d{1,2}):(?P<minute>\d{2})(:(?P<second>\d{2})(\.(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d{2}(:?\d{2})?)?)?",
    re.ASCII,
)
_DATE_TIME_FORM = "YYYY-MM-DD[ HH:MM[:SS[.ffffff]][Z|+HH:MM]]"
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.ASCII)
_DURATION_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}


def asdate(obj: date | str | None) -> date | None:
    """Return the date that an ISO string names; a date, and None, stay as they are."""
    if not isinstance(obj, str):
        return obj
    try:
        return date.fromisoformat(obj)
    except ValueError as error:
        raise InvalidArgument(f"Invalid isoformat string: {shown(obj)}; expected YYYY-MM-DD", value=obj) from error


def convert_to_datetime(input: datetime | date | str | None, tz: tzinfo | str | None, arg_name: str) -> datetime | None:
    """Return the aware datetime that ``input`` stands for; None stays None.

    What has no zone of its own is read in ``tz``. A wall time that a clock change leaves out is shifted forward.
    ``arg_name`` is what error messages call the value.
    """
    if input is None:
        return None
    if isinstance(input, datetime):
        moment = input
    elif isinstance(input, date):
        moment = datetime(input.year, input.month, input.day)
    elif isinstance(input, str):
        moment = _parse_datetime(input, arg_name)
    else:
        raise TypeError(f"Unsupported type for {arg_name}: {type(input).__name__}")
    return _with_zone(moment, tz, arg_name)


def _with_zone(moment: datetime, tz: tzinfo | str | None, arg_name: str) -> datetime:
    if moment.tzinfo is not None:
        zone = astimezone(moment.tzinfo)
        return normalize(moment) if zone is moment.tzinfo else moment.astimezone(zone)
    zone = astimezone(tz)
    if zone is None:
        raise InvalidArgument(
            f'The "tz" argument must be specified if {arg_name} has no timezone information',
            field=arg_name,
            value=moment,
        )
    return localize(moment, zone)


def _parse_datetime(text: str, arg_name: str) -> datetime:
    match = _DATE_TIME.fullmatch(text.strip())
    if match is None:
        raise _invalid_date(text, arg_name, f"expected {_DATE_TIME_FORM}")
    numbers = [int(match[part] or 0) for part in ("year", "month", "day", "hour", "minute", "second")]
    fraction = (match["fraction"] or "")[:6].ljust(6, "0")
    try:
        return datetime(*numbers, int(fraction), tzinfo=_parse_offset(match["zone"]))  # type: ignore[misc, arg-type]
    except ValueError as error:
        raise _invalid_date(text, arg_name, str(error)) from error


def _parse_offset(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    minutes = int(text[-2:]) if len(text) > 3 else 0
    if minutes > 59:
        raise ValueError("minutes of the offset must be in 0..59")
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=minutes))


def _invalid_date(text: str, arg_name: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"Invalid date string for {arg_name}: {shown(text)}; {reason}", field=arg_name, value=text)


def parse_duration(value: timedelta | float | str) -> timedelta:
    """Return a length of time given as a timedelta, as seconds, or as text like ``"3d"``, ``"1h30m"``, ``"500ms"``."""
    if isinstance(value, timedelta):
        length = value
    elif isinstance(value, str):
        length = _parse_duration_text(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        length = _seconds(value)
    else:
        raise TypeError(f"Unsupported type for duration: {type(value).__name__}")
    if length < timedelta(0):
        raise _invalid_duration(value, "must not be negative")
    return length


def _seconds(value: float) -> timedelta:
    if not math.isfinite(value):
        raise _invalid_duration(value, "must be finite")
    try:
        return timedelta(seconds=value)
    except OverflowError as error:
        raise _invalid_duration(value, "is too long") from error


def _parse_duration_text(text: str) -> timedelta:
    rest = text.strip().lower()
    length = timedelta(0)
    while rest or not text.strip():
        match = _DURATION_PART.match(rest)
        if match is None or match[2] not in _DURATION_UNITS:
            raise _invalid_duration(text, f"expected numbers with units ({', '.join(_DURATION_UNITS)}) such as '1h30m'")
        try:
            length += _DURATION_UNITS[match[2]] * float(match[1])
        except OverflowError as error:
            raise _invalid_duration(text, "is too long") from error
        rest = rest[match.end() :]
    return length


def _invalid_duration(value: object, reason: str) -> InvalidArgument:
    return InvalidArgument(f"Invalid duration {shown(value)}: {reason}", field="duration", value=value)


def parse_number(value: float | str, field: str) -> float:
    """Return a finite number; configuration files hand numbers over as text, so ``"5"`` is accepted too."""
    if type(value) is int:
        return value
    if isinstance(value, str):
        number = _number_from_text(value, field)
    elif isinstance(value, Real) and not isinstance(value, bool):
        number = value if isinstance(value, int) else float(value)
    else:
        raise TypeError(f"Unsupported type for {field}: {type(value).__name__}; expected a number")
    if isinstance(number, float) and not math.isfinite(number):
        raise InvalidArgument(f"{field} must be a finite number, got {shown(value)}", field=field, value=value)
    return number


def _number_from_text(text: str, field: str) -> float:
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError as error:
        raise InvalidArgument(f"{field} must be a number, got {shown(text)}", field=field, value=text) from error
