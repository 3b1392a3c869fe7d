"""Jobs as APScheduler 3 writes them, read without trusting them.

In a store a job is one pickle. In a file that APScheduler 3.11 exports, objects that tell their state, such as
triggers, are ``{"__apscheduler_class__": reference, "__apscheduler_state__": state}`` and all else that JSON lacks is
``{"__apscheduler_pickle__": base64}``. Here a reference is looked up in a table and never imported, and a pickle may
build dates, times, zones, numbers, containers and, in a store, a trigger of APScheduler, and nothing else. What it
builds can still take all time and memory there is, so this is called in a process of its own (``movein/_child.py``).
"""

from __future__ import annotations

import base64
import io
import pickle
import pickletools
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


def read_legacy_pickle(pickled: bytes) -> dict[str, Any]:
    """Return the state of a job that a store of APScheduler 3 keeps, with our trigger in it.

    :raises ValueError: if it contains anything that is not known to be harmless
    """
    record = _load(pickled)
    state = record.get("job_state", record) if type(record) is dict else None  # some stores put it into a record
    if type(state) is not dict:
        raise CodecError("it is no job of APScheduler 3")
    missing = [name for name in _REQUIRED if name not in state]
    if missing or state.get("version") != 1:
        raise CodecError(f"it is no job of APScheduler 3: {f'it has no {missing[0]}' if missing else 'its version'}")
    return _checked_state(state)


_REQUIRED = ("id", "func", "trigger", "args", "kwargs", "name", "next_run_time")


def _checked_state(state: dict[str, Any]) -> dict[str, Any]:
    trigger = state["trigger"]
    if not isinstance(trigger, _Trigger):
        raise CodecError(f"{shown(trigger)} is no trigger of APScheduler")
    values = {name: value for name, value in state.items() if name != "trigger"}
    _check_values(values)
    _check_values(trigger.state, also=_Part)
    for name, expected in (("id", str), ("func", str), ("args", (list, tuple)), ("kwargs", dict), ("name", str)):
        if not isinstance(values[name], expected):
            raise CodecError(f"{shown(values[name])} is no {name}")
    return values | {"args": tuple(values["args"]), "trigger": _built(trigger)}


def _built(trigger: _Trigger) -> BaseTrigger:
    try:
        built: BaseTrigger = _revive(trigger.reference, trigger.state)
    except ValueError:
        raise
    except Exception as error:  # a state that no trigger has written can be wrong in any way
        raise CodecError(f"its trigger cannot be read ({error!r})") from error
    return built


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
        pickled = base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise CodecError(f"it contains a pickle that cannot be read ({error!r})") from error
    value = _load(pickled)
    _check_values(value, also=_Part if isinstance(value, _Field) else ())
    return value


def _load(pickled: bytes) -> Any:
    try:
        _check_opcodes(pickled)
        return _Unpickler(io.BytesIO(pickled)).load()
    except (CodecError, MemoryError):
        raise
    except Exception as error:  # a broken pickle can fail in any way
        raise CodecError(f"it contains a pickle that cannot be read ({error!r})") from error


def _check_opcodes(pickled: bytes) -> None:
    """Refuse a pickle that asks for more memory than its length justifies, before any of it is built."""
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= int(argument or 0) <= len(pickled):
            raise CodecError("it contains a pickle that numbers its parts beyond its length")


class _Unpickler(pickle.Unpickler):
    """Builds harmless values only.

    Classes that are written in Python are replaced by stand-ins of this one unpickler, because a pickle can set
    attributes on a class that it gets hold of.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._found: dict[tuple[str, str], Any] = {
            ("uuid", "UUID"): type("_NewUUID", (_NewUUID,), {}),
            **{(module, name): _trigger_class(module, name) for module, name in _TRIGGERS},
            **{(_FIELDS, name): type(name, (_Field,), {}) for name in _FIELD_CLASSES},
            **{(_EXPRESSIONS, name): type(name, (base,), {}) for name, base in _EXPRESSION_CLASSES.items()},
        }

    def find_class(self, module: str, name: str) -> Any:
        module = _OLD_MODULES.get(module, module)
        if (module, name) in self._found:
            return self._found[module, name]
        if (module, name) in _SAFE:
            return _SAFE[module, name]
        raise CodecError(f"it contains a pickle of {shown(f'{module}.{name}')}, which is not allowed")


class _NewUUID:
    def __new__(cls) -> UUID:  # type: ignore[misc]
        return object.__new__(UUID)


class _Closed:
    """Stands for a function. It has no attributes, so that a pickle cannot set any on it, as it could on a function."""

    __slots__ = ("_call",)

    _call: Callable[..., Any]

    def __init__(self, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_call", call)

    def __setattr__(self, name: str, value: object) -> None:
        raise CodecError("it contains a pickle that changes a function, which is not allowed")

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


#: Stands for the class ZoneInfo, of which a pickle needs one method and gets nothing else.
_ZONE = object()


def _zone_by_getattr(owner: object, name: str) -> Callable[..., tzinfo]:
    if owner is not _ZONE or name != "_unpickle":
        raise CodecError("it contains a pickle that looks up an attribute, which is not allowed")
    return _Closed(_zone)


def _zone(key: str, _from_cache: object = True) -> tzinfo:
    zone = ZoneInfo("UTC") if key == "UTC" else astimezone(key)
    if zone is None:
        raise CodecError("it contains a time zone without a name")
    return zone


def _pytz_zone(key: str, *_offsets: object) -> tzinfo:
    return _zone(key)


def _pytz_offset(minutes: int) -> tzinfo:
    return timezone(timedelta(minutes=minutes))


def _unwrapped(zone: tzinfo, _key: object = None) -> tzinfo:
    """Return the zone that a wrapper around it, for programs made for pytz, was pickled with."""
    return zone


def _new(cls: Any, base: object, state: object) -> Any:
    """Make an empty object, as pickles of the oldest kinds ask for it."""
    if not (isinstance(cls, type) and issubclass(cls, (_Part, _Trigger, _NewUUID))) or base is not object or state:
        raise CodecError("it contains a pickle that makes an object in a way that is not allowed")
    return cls()


def _bytes(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise CodecError("it contains a pickle that encodes text, which is not allowed")
    return text.encode(encoding)


class _Trigger:
    """A trigger, as pickled: the reference to its class, and its state."""

    reference: str
    state: dict[str, Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state


def _trigger_class(module: str, name: str) -> type[_Trigger]:
    return type(name, (_Trigger,), {"reference": f"{module}:{name}", "state": {}})


class _Part:
    """What a cron trigger consists of."""


class _Field(_Part):
    """A field of a cron trigger, as pickled: ``name``, ``is_default``, ``expressions``."""


class _All(_Part):
    step: int | None

    def text(self) -> str:
        return "*" if self.step is None else f"*/{self.step}"


class _Range(_Part):
    first: int
    last: int | None
    step: int | None

    def text(self) -> str:
        values = self.word(self.first)
        if self.last is not None and (self.last != self.first or self.step is not None):
            values += f"-{self.word(self.last)}"
        return values if self.step is None else f"{values}/{self.step}"

    def word(self, value: int) -> str:
        return str(value)


class _Weekdays(_Range):
    """Weekdays that were given by name, and stay names: with numbers, people differ in what they count from."""

    def word(self, value: int) -> str:
        return _WEEKDAYS[value]


class _Position(_Part):
    option_num: int
    weekday: int

    def text(self) -> str:
        option = ("1st", "2nd", "3rd", "4th", "5th", "last")[self.option_num]
        return f"{option} {_WEEKDAYS[self.weekday]}"


class _LastDay(_Part):
    def text(self) -> str:
        return "last"


_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TRIGGERS = [tuple(reference.split(":")) for reference in _CLASSES if reference.startswith("apscheduler.")]
_FIELDS, _EXPRESSIONS = "apscheduler.triggers.cron.fields", "apscheduler.triggers.cron.expressions"
_FIELD_CLASSES = ("BaseField", "WeekField", "DayOfMonthField", "DayOfWeekField", "MonthField")
_EXPRESSION_CLASSES: Mapping[str, type] = {
    "AllExpression": _All,
    "RangeExpression": _Range,
    "MonthRangeExpression": _Range,
    "WeekdayRangeExpression": _Weekdays,
    "WeekdayPositionExpression": _Position,
    "LastDayOfMonthExpression": _LastDay,
}
#: Names of modules in pickles that Python 2 can read, and of what stood in for a module in older versions.
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg", "backports.zoneinfo": "zoneinfo"}
_SAFE: Mapping[tuple[str, str], Any] = {
    **{("datetime", cls.__name__): cls for cls in (datetime, date, time, timedelta, timezone)},
    **{("builtins", cls.__name__): cls for cls in (set, frozenset)},
    ("builtins", "object"): object,
    ("decimal", "Decimal"): Decimal,
    ("zoneinfo", "ZoneInfo"): _ZONE,
    ("builtins", "getattr"): _Closed(_zone_by_getattr),
    ("pytz", "_UTC"): _Closed(lambda: _zone("UTC")),
    ("pytz", "_p"): _Closed(_pytz_zone),
    ("pytz", "_FixedOffset"): _Closed(_pytz_offset),
    ("pytz", "FixedOffset"): _Closed(_pytz_offset),
    ("pytz_deprecation_shim._impl", "wrap_zone"): _Closed(_unwrapped),
    ("copyreg", "_reconstructor"): _Closed(_new),
    ("_codecs", "encode"): _Closed(_bytes),
}
_VALUES = frozenset(
    {type(None), bool, int, float, str, bytes, bytearray, datetime, date, time, timedelta, timezone, ZoneInfo, Decimal}
)


def _check_values(value: Any, also: type | tuple[()] = ()) -> None:
    """Refuse what is too large, contains itself, or is neither a plain value nor an object of the class ``also``."""
    waiting, count = [value], 1
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            parts: list[Any] = [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            parts = list(item)
        elif isinstance(item, also):
            parts = list(vars(item).values())
        elif type(item) in _VALUES or (type(item) is UUID and type(item.int) is int):
            continue
        else:
            raise CodecError(f"it contains a pickle of {shown(item)}, which is not allowed")
        count += len(parts)
        if count > _MAX_VALUES:
            raise CodecError(f"it contains a pickle of more than {_MAX_VALUES} values")
        waiting.extend(parts)
