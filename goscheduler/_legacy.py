"""Jobs as APScheduler 3.11 exports them, read without trusting them.

APScheduler writes objects that tell their state, such as triggers, as ``{"__apscheduler_class__": reference,
"__apscheduler_state__": state}`` and all else that JSON lacks as ``{"__apscheduler_pickle__": base64}``. Here a
reference is looked up in a table and never imported, and a pickle may build dates, times, zones, numbers and containers
and nothing else.
"""

from __future__ import annotations

import base64
import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from goscheduler.codec import MAX_DEPTH, CodecError
from goscheduler.errors import shown
from goscheduler.times import astimezone
from goscheduler.triggers.base import BaseTrigger
from goscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from goscheduler.triggers.combining import AndTrigger, OrTrigger
from goscheduler.triggers.cron import CronTrigger
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

_CLASS, _STATE, _PICKLE = "__apscheduler_class__", "__apscheduler_state__", "__apscheduler_pickle__"

#: How many values one pickle may hold. A few bytes of a pickle can stand for a value larger than any memory.
_MAX_VALUES = 1_000_000


def read_legacy_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a job with our trigger in it.

    :raises ValueError: if it contains anything that is not known to be harmless
    """
    read: dict[str, Any] = _read(dict(state), MAX_DEPTH)
    return read | {"args": tuple(read["args"])}


def _read(value: Any, room: int) -> Any:
    if room <= 0:
        raise CodecError(f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, list):
        return [_read(item, room - 1) for item in value]
    if not isinstance(value, dict):
        return value
    if _PICKLE in value:
        return _unpickle(value[_PICKLE])
    if _CLASS in value:
        return _revive(value[_CLASS], _read(value[_STATE], room - 1))
    return {key: _read(item, room - 1) for key, item in value.items()}


def _revive(reference: Any, state: dict[str, Any]) -> Any:
    build = _CLASSES.get(reference) if isinstance(reference, str) else None
    if build is None:
        raise CodecError(f"it names the class {shown(reference)}, which is no trigger of APScheduler")
    return build(state)


def _date(state: dict[str, Any]) -> BaseTrigger:
    return DateTrigger(state["run_date"])


def _interval(state: dict[str, Any]) -> BaseTrigger:
    return IntervalTrigger(seconds=state["interval"].total_seconds(), **_limits(state))


def _calendar_interval(state: dict[str, Any]) -> BaseTrigger:
    years, months, weeks, days = state["interval"]
    hour, minute, second = state["time"]
    return CalendarIntervalTrigger(
        years=years, months=months, weeks=weeks, days=days, hour=hour, minute=minute, second=second, **_limits(state)
    )


def _cron(state: dict[str, Any]) -> BaseTrigger:
    given = [field.__dict__ for field in state["fields"]]
    fields = {field["name"]: _expressions(field["expressions"]) for field in given if not field["is_default"]}
    return CronTrigger(**{name: fields.get(name) for name in CronTrigger.FIELD_NAMES}, **_limits(state))


def _expressions(expressions: Iterable[Any]) -> str:
    return ",".join(expression.text() for expression in expressions)


def _limits(state: dict[str, Any]) -> dict[str, Any]:
    return {name: state.get(name) for name in ("start_date", "end_date", "timezone", "jitter")}


def _and(state: dict[str, Any]) -> BaseTrigger:
    return AndTrigger(_children(state), jitter=state["jitter"])


def _or(state: dict[str, Any]) -> BaseTrigger:
    return OrTrigger(_children(state), jitter=state["jitter"])


def _children(state: dict[str, Any]) -> list[BaseTrigger]:
    return [_revive(reference, child) for reference, child in state["triggers"]]


_CLASSES: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "apscheduler.triggers.date:DateTrigger": _date,
    "apscheduler.triggers.interval:IntervalTrigger": _interval,
    "apscheduler.triggers.calendarinterval:CalendarIntervalTrigger": _calendar_interval,
    "apscheduler.triggers.cron:CronTrigger": _cron,
    "apscheduler.triggers.combining:AndTrigger": _and,
    "apscheduler.triggers.combining:OrTrigger": _or,
    "uuid:UUID": lambda state: UUID(int=state["int"]),
}


def _unpickle(text: Any) -> Any:
    try:
        value = _Unpickler(io.BytesIO(base64.b64decode(text, validate=True))).load()
    except CodecError:
        raise
    except Exception as error:  # a broken pickle can fail in any way
        raise CodecError(f"it contains a pickle that cannot be read ({error!r})") from error
    if not isinstance(value, _Field):
        _check_values(value)
    return value


class _Unpickler(pickle.Unpickler):
    """Builds harmless values only.

    Classes that are written in Python are replaced by stand-ins of this one unpickler, because a pickle can set
    attributes on a class that it gets hold of.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._found = {
            ("uuid", "UUID"): type("_NewUUID", (_NewUUID,), {}),
            ("zoneinfo", "ZoneInfo"): _ZONE,
            ("builtins", "getattr"): _zone_by_getattr,
            **{(_FIELDS, name): type(name, (_Field,), {}) for name in _FIELD_CLASSES},
            **{(_EXPRESSIONS, name): type(name, (base,), {}) for name, base in _EXPRESSION_CLASSES.items()},
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self._found:
            return self._found[module, name]
        if (module, name) in _SAFE:
            return _SAFE[module, name]
        raise CodecError(f"it contains a pickle of {shown(f'{module}.{name}')}, which is not allowed")


class _NewUUID:
    def __new__(cls) -> UUID:  # type: ignore[misc]
        return object.__new__(UUID)


#: Stands for the class ZoneInfo, of which a pickle needs one method and gets nothing else.
_ZONE = object()


def _zone_by_getattr(owner: object, name: str) -> Callable[..., tzinfo]:
    if owner is not _ZONE or name != "_unpickle":
        raise CodecError("it contains a pickle that looks up an attribute, which is not allowed")
    return _zone


def _zone(key: str, _from_cache: object = True) -> tzinfo:
    zone = ZoneInfo("UTC") if key == "UTC" else astimezone(key)
    if zone is None:
        raise CodecError("it contains a time zone without a name")
    return zone


class _Field:
    """A field of a cron trigger, as pickled: ``name``, ``is_default``, ``expressions``."""


class _All:
    step: int | None

    def text(self) -> str:
        return "*" if self.step is None else f"*/{self.step}"


class _Range:
    first: int
    last: int | None
    step: int | None

    def text(self) -> str:
        single = self.last is None or (self.last == self.first and self.step is None)
        values = str(self.first) if single else f"{self.first}-{self.last}"
        return values if self.step is None else f"{values}/{self.step}"


class _Position:
    option_num: int
    weekday: int

    def text(self) -> str:
        option = ("1st", "2nd", "3rd", "4th", "5th", "last")[self.option_num]
        return f"{option} {('mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun')[self.weekday]}"


class _LastDay:
    def text(self) -> str:
        return "last"


_FIELDS, _EXPRESSIONS = "apscheduler.triggers.cron.fields", "apscheduler.triggers.cron.expressions"
_FIELD_CLASSES = ("BaseField", "WeekField", "DayOfMonthField", "DayOfWeekField", "MonthField")
_EXPRESSION_CLASSES: Mapping[str, type] = {
    "AllExpression": _All,
    "RangeExpression": _Range,
    "MonthRangeExpression": _Range,
    "WeekdayRangeExpression": _Range,
    "WeekdayPositionExpression": _Position,
    "LastDayOfMonthExpression": _LastDay,
}
_SAFE: Mapping[tuple[str, str], type] = {
    **{("datetime", cls.__name__): cls for cls in (datetime, date, time, timedelta, timezone)},
    **{("builtins", cls.__name__): cls for cls in (set, frozenset)},
    ("decimal", "Decimal"): Decimal,
}
_VALUES = frozenset(
    {type(None), bool, int, float, str, bytes, bytearray, datetime, date, time, timedelta, timezone, ZoneInfo, Decimal}
)


def _check_values(value: Any) -> None:
    """Refuse what is too large, contains itself, or is a class or function rather than a value."""
    waiting, count = [value], 1
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            parts: list[Any] = [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            parts = list(item)
        elif type(item) in _VALUES or (type(item) is UUID and type(item.int) is int):
            continue
        else:
            raise CodecError(f"it contains a pickle of {shown(item)}, which is not allowed")
        count += len(parts)
        if count > _MAX_VALUES:
            raise CodecError(f"it contains a pickle of more than {_MAX_VALUES} values")
        waiting.extend(parts)
