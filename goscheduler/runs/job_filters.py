"""Reads what a person asks of the jobs, and returns a :class:`~goscheduler.runs.queries.JobQuery`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from goscheduler.errors import UnknownOption, shown
from goscheduler.job import Job
from goscheduler.options import InvalidOption, is_control
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import NEVER, SORTS, STORED_STATES, JobPosition, JobQuery
from goscheduler.times import convert_to_datetime

#: The longest page, and the longest text of a filter.
MOST_JOBS = 1000
LONGEST_FILTER = 1000

#: The filters of the methods of a scheduler that are about several jobs.
FILTERS = frozenset({"tag", "state", "executor", "task", "text", "due_before", "last_outcome", "pause_id"})


def job_query(
    filters: Mapping[str, Any], zone: tzinfo, sort: Any = "next_run", limit: Any = MOST_JOBS, after: Any = None
) -> JobQuery:
    """Return the query for ``filters``; None stands for no filter. ``after`` is the last job of the page before, or the
    cursor of its end.

    :raises InvalidArgument: for a value that makes no sense, with the field's name
    :raises UnknownOption: for a filter that there is not
    """
    for name in filters:
        if name not in FILTERS:
            raise UnknownOption(name, FILTERS, where="the filters of jobs")
    given = {name: value for name, value in filters.items() if value is not None}
    due_before = given.pop("due_before", None)
    checked: dict[str, Any] = {name: _CHECKS.get(name, _text)(name, value) for name, value in given.items()}
    if due_before is not None:
        checked["due_before"] = _moment(due_before, zone)
    query = JobQuery(**checked, sort=_sort(sort), limit=_limit(limit))
    return query if after is None else query._replace(after=_position(query, after))


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _refused(field, "a nonempty string", value)
    if len(value) > LONGEST_FILTER:
        raise _refused(field, f"a text of at most {LONGEST_FILTER} characters", value)
    if not value.isprintable() and any(map(is_control, value)):
        raise _refused(field, "a text without control characters", value)
    return value


def _state(field: str, value: Any) -> JobState:
    known = sorted(state.value for state in STORED_STATES)
    try:
        state = JobState(value)
    except ValueError:
        raise _refused(field, f"one of {', '.join(known)}", value) from None
    if state not in STORED_STATES:
        raise _refused(field, f"one that a store can tell: {', '.join(known)}", value)
    return state


def _outcome(field: str, value: Any) -> OutcomeKind:
    try:
        return OutcomeKind(value.replace("_", " ") if type(value) is str else value)
    except ValueError:
        raise _refused(field, f"one of {', '.join(kind.value for kind in OutcomeKind)}", value) from None


_CHECKS = {"state": _state, "last_outcome": _outcome}


def _moment(value: Any, zone: tzinfo) -> datetime:
    moment = convert_to_datetime(value, zone, "due_before")
    if moment is None:
        raise _refused("due_before", "a date and time", value)
    return moment


def _sort(value: Any) -> str:
    if value not in SORTS:
        raise _refused("sort", f"one of {', '.join(SORTS)}", value)
    return str(value)


def _limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_JOBS:
        raise _refused("limit", f"a whole number from 1 to {MOST_JOBS}", value)
    return value


def _position(query: JobQuery, value: Any) -> JobPosition:
    if isinstance(value, Job):
        return query.place(value)
    if isinstance(value, JobPosition):
        return value
    if not isinstance(value, str) or len(value) > 2 * LONGEST_FILTER:
        raise _refused("after", "a job, or the cursor that a page ended with", value)
    try:
        position = query.position_of(value)
    except (ValueError, OverflowError):
        raise _refused("after", "a job, or the cursor that a page ended with", value) from None
    if position is None:
        raise _refused("after", "the cursor of a page of the same filters and order", value)
    if abs(position.due) > NEVER or any(map(is_control, position.id)):
        raise _refused("after", "a job, or the cursor that a page ended with", value)
    return position


def _refused(field: str, expected: str, value: object) -> InvalidOption:
    return InvalidOption(f"{field} must be {expected}, got {shown(value)}", field=field, value=value)
