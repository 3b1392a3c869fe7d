"""Moments as whole microseconds since 1970 in UTC, which can be compared whatever their zones are.

Two aware datetimes that share a ``tzinfo`` are compared and subtracted by wall clock in Python, and the second pass of
a repeated hour is taken for the first. Code that decides what comes earlier therefore compares microseconds. They also
reach the edges of the calendar, where converting to UTC would overflow.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
"""One second in microseconds."""


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
