"""Reads what a program asks for that has no Python: a job or a message, as JSON.

A request never names code. It names a task that a process has announced; what this task runs is that process's own
business. Everything is checked before anything is made of it, and what is wrong is said of the field that is wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any, NamedTuple, NoReturn

from goscheduler.errors import GoSchedulerError, InvalidArgument, nearest, shown
from goscheduler.options import CHECKS, check_name_of
from goscheduler.runs.limits import Limit
from goscheduler.runs.retry import Retry, exponential, fixed, linear
from goscheduler.tasks import UnknownTask
from goscheduler.times import convert_to_datetime

#: The longest request in characters, and how deep it may be nested.
MAX_REQUEST = 262_144
MAX_DEPTH = 50
#: A job of the past is meant if it says how late it may run. Else its time may have passed while the request waited,
#: for so long at most; earlier than that, it is taken for a mistake.
LATE_BY = timedelta(hours=1)
#: How the names of tasks begin that are no tasks of users: those of message schedulers.
OWN_TASKS = "goscheduler."

OPTIONS = frozenset(CHECKS)
#: The fields of a request for a job.
JOB_FIELDS = frozenset({"task", "args", "kwargs", "run_at", "trigger", "id", "name", "by"}) | OPTIONS


class RequestedJob(NamedTuple):
    """What is to be given to ``add_job``, checked as far as that needs no scheduler."""

    definition: Mapping[str, Any]
    """Its trigger is one, or what describes one: a moment, a text, an object; None for once, now."""
    by: str | None
    """Who asks for it, if the request says so."""


def read_request(text: str) -> dict[str, Any]:
    """Return the fields of a request.

    :raises InvalidArgument: if it is no JSON object, too long, or nested too deep
    """
    if len(text) > MAX_REQUEST:
        raise _refused("request", f"at most {MAX_REQUEST} characters long, it has {len(text)}")
    try:
        fields = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError:
        raise _refused("request", f"nested at most {MAX_DEPTH} deep") from None
    except InvalidArgument:
        raise
    except ValueError as error:
        raise _refused("request", f"JSON: {error}") from None
    return check_fields(fields)


def check_fields(fields: Any) -> dict[str, Any]:
    """Return fields that consist of what JSON can express, and that every store can keep.

    :raises InvalidArgument: if they do not
    """
    if not isinstance(fields, Mapping):
        raise _refused("request", f"an object, got {shown(fields)}")
    level: list[tuple[str, Any]] = [("request", fields)]
    for _ in range(MAX_DEPTH):
        level = [inner for name, value in level for inner in _inner(name, value)]
        if not level:
            return dict(fields)
    raise _refused("request", f"nested at most {MAX_DEPTH} deep")


def _inner(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return what is in a value, with the field that it is part of; raise for what is no value of JSON."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise _refused(name, f"an object whose names are texts, got {shown(key)}")
            _check_text(name, key)
        return [(key if name == "request" else name, inner) for key, inner in value.items()]
    if isinstance(value, (list, tuple)):
        return [(name, inner) for inner in value]
    if isinstance(value, str):
        _check_text(name, value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _refused(name, f"a finite number, got {shown(value)}")
    elif value is not None and not isinstance(value, (bool, int, float)):
        raise _refused(name, f"a value of JSON, got {shown(value)}")
    return []


def _check_text(name: str, text: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _refused(name, f"without halves of characters, got {shown(text)}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"{shown(twice)} is given twice", field=twice)
    return found


def _no_constant(name: str) -> NoReturn:
    raise _refused("request", f"JSON, which has no {name}")


def requested_job(
    fields: Mapping[str, Any], announced: Collection[str], zone: tzinfo, now: datetime
) -> RequestedJob:
    """Return what is asked for by ``fields``, which :func:`check_fields` has checked.

    ``announced`` are the names of the tasks that some process has. What has no zone is read in ``zone``.

    :raises InvalidArgument: naming the field that is unknown, or has a value that makes no sense
    """
    if "message" in fields:
        raise InvalidArgument("message: no process that is known here delivers messages", field="message")
    refuse_unknown(fields, JOB_FIELDS, "a job")
    task = checked_task(fields, announced)
    definition: dict[str, Any] = {"func": UnknownTask(task), "id": fields.get("id"), "name": fields.get("name")}
    for name, kind, noun in (("args", list, "a list"), ("kwargs", Mapping, "an object")):
        value = fields.get(name)
        if value is not None and not isinstance(value, kind):
            raise _refused(name, f"{noun}, got {shown(value)}", value)
        definition[name] = value
    for name in OPTIONS & fields.keys():
        definition[name] = CHECKS[name](_READERS.get(name, _as_it_is)(fields[name]))
    definition["trigger"] = _schedule(fields, zone, now)
    return RequestedJob(definition, requested_by(fields))


def requested_by(fields: Mapping[str, Any]) -> str | None:
    """Return who asks, if the fields say so."""
    return None if fields.get("by") is None else check_name_of("by", fields["by"])


def refuse_unknown(fields: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Raise InvalidArgument for the first field that there is not."""
    for name in fields:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known))}"
            raise InvalidArgument(f"unknown field {shown(name)} of {what}; {hint}", field=name)


def checked_task(fields: Mapping[str, Any], announced: Collection[str]) -> str:
    """Return the name of the task that is asked for."""
    task = fields.get("task")
    if not isinstance(task, str) or not task:
        raise _refused("task", f"the name of a task, got {shown(task)}", task)
    known = [name for name in announced if not name.startswith(OWN_TASKS)]
    if task not in known:
        near = nearest(task, known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise InvalidArgument(f"task: no process has announced a task {shown(task)}{hint}", field="task", value=task)
    return task


def _schedule(fields: Mapping[str, Any], zone: tzinfo, now: datetime) -> Any:
    """Return what describes the trigger: a moment, or what the request has; None for once, now."""
    run_at, trigger = fields.get("run_at"), fields.get("trigger")
    if run_at is not None and trigger is not None:
        raise _refused("run_at", "given without trigger", run_at)
    if run_at is None:
        return trigger
    if not isinstance(run_at, str):
        raise _refused("run_at", f"a date and time as text, got {shown(run_at)}", run_at)
    moment = convert_to_datetime(run_at, zone, "run_at")
    assert moment is not None, "a text stands for a moment"
    if moment < now - LATE_BY and "misfire_grace_time" not in fields:
        raise _refused(
            "run_at", f"in the future, got {shown(run_at)}; a job of the past needs misfire_grace_time", run_at
        )
    return moment


def _retry(value: Any) -> Any:
    """Return a retry policy: a number of attempts, or an object with the fields of one."""
    if not isinstance(value, Mapping):
        return value
    refuse_unknown(value, ("max_attempts", "backoff", "jitter", "deadline"), "retry")
    given = dict(value)
    if isinstance(given.get("backoff"), Mapping):
        given["backoff"] = _backoff(given["backoff"])
    return made("retry", lambda: Retry(**given))


_BACKOFFS: Mapping[str, Callable[..., Any]] = {"fixed": fixed, "linear": linear, "exponential": exponential}


def _backoff(value: Mapping[str, Any]) -> Any:
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _BACKOFFS:
        raise _refused("retry", f'a policy whose backoff has a "type" of {", ".join(_BACKOFFS)}, got {shown(value)}')
    options = {name: option for name, option in value.items() if name != "type"}
    return made("retry", lambda: _BACKOFFS[kind](**options))


def _limits(value: Any) -> Any:
    """Return limits, each given as an object with the fields of one."""
    if not isinstance(value, list):
        raise _refused("limits", f"a list, got {shown(value)}", value)
    limits = []
    for each in value:
        if not isinstance(each, Mapping):
            raise _refused("limits", f"a list of objects, got {shown(each)}", value)
        refuse_unknown(each, ("name", "concurrency", "rate"), "a limit")
        limits.append(made("limits", partial(Limit, **each)))
    return limits


def _texts(value: Any) -> Any:
    if not isinstance(value, list):
        raise _refused("tags", f"a list of texts, got {shown(value)}", value)
    return value


def _metadata(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _refused("metadata", f"an object of texts, got {shown(value)}", value)
    return value


def _as_it_is(value: Any) -> Any:
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "retry": _retry, "limits": _limits, "tags": _texts, "metadata": _metadata,
}  # fmt: skip


def made(field: str, make: Callable[[], Any]) -> Any:
    """Return what is made of values; whatever is wrong about them is wrong about ``field``.

    :raises InvalidArgument: then
    """
    try:
        return make()
    except (GoSchedulerError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise InvalidArgument(f"{field}: {error}", field=field) from error


def _refused(field: str, expected: str, value: object = None) -> InvalidArgument:
    return InvalidArgument(f"{field} must be {expected}", field=field, value=value)
