"""Reads what a person asks of the history, and returns a :class:`~goscheduler.runs.records.HistoryQuery`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, shown
from goscheduler.options import InvalidOption
from goscheduler.runs.model import DeadLetter, OutcomeKind
from goscheduler.runs.records import HistoryQuery, Position, Record, type_name
from goscheduler.times import convert_to_datetime, parse_duration

MOST_AT_ONCE = 100_000
LONGEST_CURSOR = 1000

_A_DATE = re.compile(r"\s*\d+-")


class Filters(NamedTuple):
    """The filters of a scheduler's methods, as the caller gave them."""

    job_id: Any = None
    outcome: Any = None
    since: Any = None
    until: Any = None
    tag: Any = None
    error_type: Any = None
    before: Any = None
    limit: Any = 100


def history_query(filters: Filters, now: datetime, zone: tzinfo) -> HistoryQuery:
    """Return the query for ``filters``. Times without a zone are in ``zone``, lengths of time count back from ``now``.

    :raises InvalidArgument: for a value that makes no sense, with the field's name
    """
    return HistoryQuery(
        _text("job_id", filters.job_id),
        _outcomes(filters.outcome),
        moment_of("since", filters.since, now, zone),
        moment_of("until", filters.until, now, zone),
        _text("tag", filters.tag),
        _error_type(filters.error_type),
        _position(filters.before),
        _limit(filters.limit),
    )


def _text(field: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _refused(field, "a string", value)
    return value


def _outcomes(value: Any) -> frozenset[OutcomeKind] | None:
    if value is None:
        return None
    several = not isinstance(value, str) and isinstance(value, Iterable)
    return frozenset(_outcome(one) for one in (value if several else (value,)))


def _outcome(value: Any) -> OutcomeKind:
    try:
        return OutcomeKind(value.replace("_", " ") if type(value) is str else value)
    except ValueError:
        known = ", ".join(kind.value for kind in OutcomeKind)
        raise _refused("outcome", f"one or several of {known}", value) from None


def moment_of(field: str, value: Any, now: datetime, zone: tzinfo) -> datetime | None:
    """Return the moment that is meant by a date or by how long ago; None for None."""
    is_moment = value is None or isinstance(value, date) or (isinstance(value, str) and _A_DATE.match(value))
    if not is_moment and not isinstance(value, (str, timedelta)):
        raise _refused(field, "a datetime, or how long ago as a timedelta or as text such as '2h'", value)
    try:
        return convert_to_datetime(value, zone, field) if is_moment else now - parse_duration(value)
    except (InvalidArgument, OverflowError) as error:
        raise InvalidArgument(
            f"{field} must be a date and time, or how long ago such as '2h', got {shown(value)}: {error}",
            field=field, value=value,
        ) from None  # fmt: skip


def _error_type(value: Any) -> str | None:
    if isinstance(value, type) and issubclass(value, BaseException):
        return type_name(value)
    if value is not None and (not isinstance(value, str) or not value):
        raise _refused("error_type", 'an exception type or its full name as "module.Name"', value)
    return None if value is None else value.removeprefix("builtins.")


def _position(value: Any) -> Position | None:
    if value is None:
        return None
    if isinstance(value, DeadLetter):
        value = value.record
    if isinstance(value, Record):
        return value.position
    if isinstance(value, str) and len(value) <= LONGEST_CURSOR:
        try:
            return Position.of_cursor(value)
        except (ValueError, OverflowError):
            pass
    raise _refused("before", "a record, or the cursor of one", value)


def _limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_AT_ONCE:
        raise _refused("limit", f"a whole number from 1 to {MOST_AT_ONCE}", value)
    return value


def _refused(field: str, expected: str, value: object) -> InvalidOption:
    return InvalidOption(f"{field} must be {expected}, got {shown(value)}", field=field, value=value)
