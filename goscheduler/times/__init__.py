"""Reading, converting and printing times, zones and durations.

Two aware datetimes that share a ``tzinfo`` are compared and subtracted by wall clock in Python, and the second pass of
a repeated hour is taken for the first. Whatever decides what comes earlier therefore counts in **instants**: whole
microseconds since 1970 in UTC (:func:`to_micros`, :func:`from_micros`). That also reaches the edges of the calendar,
where converting to UTC would overflow.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone, tzinfo
from numbers import Real
from zoneinfo import ZoneInfo

from goscheduler.errors import InvalidArgument, shown
from goscheduler.logs import guarded_logger

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
"""One second as a distance between instants."""

_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,32}){0,3}")
#: The path of a file as dateutil knows it, on this machine or in the archive that it brings along.
_ZONE_FILE = re.compile(rf"(?:^|/zoneinfo/(?:posix/)?)({_ZONE_NAME.pattern})$")
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

_logger = guarded_logger("goscheduler.times")


def astimezone(obj: str | tzinfo | None) -> tzinfo | None:
    """Return the zone that ``obj`` names or is; None stays None.

    Zones of pytz and dateutil become the ``zoneinfo`` zone of the same name, so that wall times can be built with them
    and stores can write them down.
    """
    if obj is None:
        return None
    if isinstance(obj, str):
        return _zone_by_name(obj)
    if not isinstance(obj, tzinfo):
        raise TypeError(f"Expected tzinfo, got {type(obj).__name__} instead")
    if isinstance(obj, (timezone, ZoneInfo)):
        return obj
    return _of_other_library(obj)


def _zone_by_name(name: str) -> tzinfo:
    if name.upper() == "UTC":
        return UTC
    if not _ZONE_NAME.fullmatch(name):
        raise _unknown_zone(name)
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        if not _zones_are_installed():
            raise InvalidArgument(
                f"No time zone data on this machine to look up timezone {name!r}; install the package tzdata",
                field="timezone",
                value=name,
            ) from error
        raise _unknown_zone(name) from error


def _unknown_zone(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"Unknown timezone {shown(name)}; expected a name of the IANA database such as 'Europe/Berlin'",
        field="timezone",
        value=name,
    )


def _zones_are_installed() -> bool:
    try:
        ZoneInfo("Europe/London")
    except (LookupError, ValueError, OSError):
        return False
    return True


def _of_other_library(zone: tzinfo) -> tzinfo:
    """Return the standard library's equivalent of a zone of pytz or dateutil; any other zone as it is."""
    if type(zone).__module__.startswith("dateutil."):
        return _of_dateutil(zone)
    name = getattr(zone, "zone", None)
    if name == "local" or _says_local(zone):
        raise InvalidArgument(
            "Unable to determine the name of the local timezone -- you must explicitly specify the name of the local "
            "timezone. Please refrain from using timezones like EST to prevent problems with daylight saving time. "
            "Instead, use a locale based timezone name (such as Europe/Helsinki).",
            field="timezone",
            value=zone,
        )
    if isinstance(name, str):
        return _zone_by_name(name)
    offset = zone.utcoffset(None) if hasattr(zone, "localize") else None
    return zone if offset is None else timezone(offset)


def _says_local(zone: tzinfo) -> bool:
    try:
        return zone.tzname(None) == "local"
    except (TypeError, AttributeError):  # without a moment, not every zone can answer
        return False


def _of_dateutil(zone: tzinfo) -> tzinfo:
    """Return the zone of the file that ``zone`` was read from, or its offset if it has one for ever, or ``zone``."""
    file = _ZONE_FILE.search(getattr(zone, "_filename", None) or "")
    if file is not None:
        with suppress(InvalidArgument):  # a file of the user's own may lie anywhere
            return _zone_by_name(file[1])
    offset = zone.utcoffset(None)
    return zone if offset is None else timezone(offset)


def in_standard_zone(moment: datetime) -> datetime:
    """Return the same instant in a zone that can be written down: the one that its own zone names, else its offset.

    What has no zone, or one that tells neither, stays as it is.
    """
    if moment.tzinfo is None or _can_be_written(moment.tzinfo):
        return moment
    zone = standard_zone(moment.tzinfo)
    with suppress(NotImplementedError):
        offset = moment.utcoffset()
        if offset is not None:
            return moment.astimezone(zone if _can_be_written(zone) else timezone(offset))
    return moment


def standard_zone(zone: tzinfo) -> tzinfo:
    """Return the zone that :func:`astimezone` makes of ``zone``, or ``zone`` itself if it makes nothing of it."""
    with suppress(InvalidArgument, NotImplementedError):
        return astimezone(zone) or zone
    return zone


def _can_be_written(zone: tzinfo | None) -> bool:
    return isinstance(zone, timezone) or (isinstance(zone, ZoneInfo) and zone.key is not None)


def local_timezone() -> tzinfo:
    """Return the zone of this machine, UTC if it cannot be told."""
    import tzlocal

    try:
        return astimezone(tzlocal.get_localzone()) or UTC  # earlier versions of tzlocal return zones of pytz
    # tzlocal announces "no configuration found" as a warning, which strict programs turn into an error.
    except (LookupError, ValueError, OSError, UserWarning) as error:
        _logger.warning("The time zone of this machine cannot be told, using UTC: %s", error)
        return UTC


def timezone_repr(timezone: tzinfo) -> str:
    """Return the name of a zone as triggers print it."""
    return timezone.key if isinstance(timezone, ZoneInfo) and timezone.key else repr(timezone)


def zone_name(timezone: tzinfo) -> str:
    """Return the name of a zone for people."""
    return getattr(timezone, "key", None) or str(timezone)


def to_micros(moment: datetime) -> int:
    """Return an aware datetime as microseconds since 1970 in UTC; exact, and true in repeated hours."""
    distance = moment - EPOCH
    return (distance.days * 86_400 + distance.seconds) * SECOND + distance.microseconds


def from_micros(microseconds: int, tz: tzinfo) -> datetime:
    """Return the instant as a datetime in ``tz``. Raises OverflowError outside the years 1 to 9999."""
    moment = EPOCH + timedelta(0, 0, microseconds)  # by name it would take twice as long, on the path of every firing
    return moment if tz is UTC else moment.astimezone(tz)


def micros_of(delta: timedelta) -> int:
    """Return a timedelta in microseconds, the unit of :func:`to_micros`."""
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds


def utc_timestamp(moment: datetime) -> float:
    """Return an aware datetime as seconds since 1970 in UTC."""
    return to_micros(moment) / SECOND


def datetime_to_utc_timestamp(timeval: datetime | None) -> float | None:
    """Return seconds since 1970 in UTC; a naive datetime is read as UTC, None stays None."""
    if timeval is None:
        return None
    return utc_timestamp(timeval if timeval.tzinfo is not None else timeval.replace(tzinfo=UTC))


def utc_timestamp_to_datetime(timestamp: float | None) -> datetime | None:
    """Return the moment ``timestamp`` seconds after 1970 as a datetime in UTC; None stays None."""
    return None if timestamp is None else EPOCH + timedelta(seconds=timestamp)


def timedelta_seconds(delta: timedelta) -> float:
    """Return the length of ``delta`` in seconds."""
    return delta.total_seconds()


def localize(dt: datetime, tzinfo: tzinfo) -> datetime:
    """Return the wall time ``dt`` in a zone; one that a clock change leaves out is shifted forward by the change.

    A zone of pytz does it in its own manner.
    """
    own = getattr(tzinfo, "localize", None)
    if own is None:
        return normalize(dt.replace(tzinfo=tzinfo))
    localized: datetime = own(dt)
    return localized


def normalize(dt: datetime) -> datetime:
    """Return ``dt`` with a wall time that exists: inside a gap it is shifted forward by the length of the gap.

    One in a zone of pytz gets the offset that is in force at its instant.
    """
    own = getattr(dt.tzinfo, "normalize", None)
    if own is not None:
        normalized: datetime = own(dt)
        return normalized
    gap = _gap_around(dt)
    return dt if gap is None else dt.replace(fold=0) + gap


def first_instant_at(wall: datetime, tz: tzinfo) -> datetime:
    """Return the first moment at which clocks in ``tz`` show the naive ``wall``.

    Where a clock change leaves that wall time out, it is the first moment after the change; where the wall time
    happens twice, the first of the two.
    """
    moment = wall.replace(tzinfo=tz, fold=0)
    gap = _gap_around(moment)
    return moment if gap is None else _end_of_gap(moment, gap, tz)


def _gap_around(moment: datetime) -> timedelta | None:
    """Return the length of the gap that ``moment`` falls into, None for a wall time that exists.

    In a gap the two readings of ``fold`` stand in reverse order: the later wall offset belongs to ``fold=1``.
    """
    zone = moment.tzinfo
    if isinstance(zone, (timezone, ZoneInfo)) and zone.utcoffset(None) is not None:
        return None  # The zone has one offset for ever; looking at both readings would be slow.
    here, there = moment.utcoffset(), moment.replace(fold=1 - moment.fold).utcoffset()
    if here is None or there is None or here == there:
        return None
    gap = here - there if moment.fold else there - here
    return gap if gap > timedelta(0) else None


def _end_of_gap(moment: datetime, gap: timedelta, tz: tzinfo) -> datetime:
    """Return the moment of the clock change that leaves ``moment`` out: the new offset is in force, not yet before."""
    late = -(-to_micros(moment) // SECOND)
    early = late - micros_of(gap) // SECOND - 1
    new_offset = from_micros(late * SECOND, tz).utcoffset()
    while late - early > 1:
        middle = (early + late) // 2
        if from_micros(middle * SECOND, tz).utcoffset() == new_offset:
            late = middle
        else:
            early = middle
    return from_micros(late * SECOND, tz)


def datetime_utc_add(dateval: datetime, tdelta: timedelta) -> datetime:
    """Return the moment that lies ``tdelta`` of elapsed time after ``dateval``, in the same zone."""
    if dateval.tzinfo is None:
        return dateval + tdelta
    return from_micros(to_micros(dateval) + micros_of(tdelta), dateval.tzinfo)


def datetime_ceil(dateval: datetime) -> datetime:
    """Return ``dateval`` rounded up to a whole second."""
    if not dateval.microsecond:
        return dateval
    return datetime_utc_add(dateval, timedelta(microseconds=SECOND - dateval.microsecond))


def datetime_repr(dateval: datetime | None) -> str:
    """Return ``dateval`` as triggers and jobs print it: ``2026-01-02 03:04:05 CET``."""
    if not dateval:
        return "None"
    return f"{dateval.replace(tzinfo=None, microsecond=0)} {dateval.tzname() or ''}".rstrip()


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
