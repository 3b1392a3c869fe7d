"""Time zones of the standard library, pytz and dateutil, and the wall times that a clock change leaves out."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from goscheduler.errors import InvalidArgument, shown
from goscheduler.logs import guarded_logger
from goscheduler.times.micros import SECOND, UTC, from_micros, micros_of, to_micros

_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,32}){0,3}")
#: The path of a file as dateutil knows it, on this machine or in the archive that it brings along.
_ZONE_FILE = re.compile(rf"(?:^|/zoneinfo/(?:posix/)?)({_ZONE_NAME.pattern})$")

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
        _logger.warning("The time zone of this machine cannot be determined; using UTC: %s", error)
        return UTC


def timezone_repr(timezone: tzinfo) -> str:
    """Return the name of a zone as triggers print it."""
    return timezone.key if isinstance(timezone, ZoneInfo) and timezone.key else repr(timezone)


def zone_name(timezone: tzinfo) -> str:
    """Return the name of a zone for people."""
    return getattr(timezone, "key", None) or str(timezone)


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
