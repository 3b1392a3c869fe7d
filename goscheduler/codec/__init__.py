"""Values as JSON and back, from a closed set of types, so that stored data cannot run code.

Plain JSON stays what it is. Everything else is an object with the key ``@type``:

==================  ====================================================================================
``datetime, time``  ``value`` in ISO form, ``zone`` unless naive, ``fold`` if it is 1
``date``            ``value`` in ISO form
``timedelta``       ``value`` = [days, seconds, microseconds]
``zone``            ``value`` = ``Z`` (UTC), ``+02:00`` with an optional name, or a name of the IANA database
``decimal, uuid``   ``value`` as text
``bytes``           ``value`` in base64; ``bytearray`` likewise
``tuple, set``      ``value`` = [items]; ``frozenset`` likewise
``dict``            ``value`` = [[key, value], …], where a key is no string, or is ``@type``
``int``             ``value`` in hexadecimal, beyond 64 bits
``float``           ``value`` = ``nan``, ``inf`` or ``-inf``
``object``          ``name`` of a registered type, ``value`` = its state
==================  ====================================================================================

Decoding builds these and the registered types, looked up by name, and nothing else: it never imports what the data
names. It takes time in proportion to the length of the record, whatever is in it. Refused both ways is therefore what
is nested deeper than :data:`MAX_DEPTH` or longer than :data:`MAX_SIZE`, a number of more than :data:`MAX_DIGITS`
digits, and a set or a dict of which more than :data:`MAX_ALIKE` members have the same hash: such members are found by
comparing each with each.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from goscheduler.codec import types
from goscheduler.errors import GoSchedulerError, InvalidArgument, shown
from goscheduler.times import astimezone, in_standard_zone, standard_zone

MAX_DEPTH = 100
MAX_SIZE = 16 * 1024 * 1024
MAX_DIGITS = 4300
MAX_ALIKE = 8

_Moment = TypeVar("_Moment", datetime, time)

_TAG = "@type"
_SMALL = 2**63
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_HEX = re.compile(r"-?[0-9a-f]+")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{6}))?)?(?: (.+))?", re.ASCII | re.DOTALL)


class CodecError(GoSchedulerError, ValueError):
    """Stored data cannot be read: it is malformed, or names a type that is not registered here."""


def register_type(
    cls: type[Any],
    name: str,
    to_state: Callable[[Any], Any] | None = None,
    from_state: Callable[[Any], Any] | None = None,
) -> None:
    """Let values of exactly this class be stored, under ``name``, which must stay the same for as long as records live.

    ``to_state`` turns a value into something that can be stored, ``from_state`` turns that back. Enums, dataclasses and
    classes with ``__getstate__`` and ``__setstate__`` need neither.
    """
    if not isinstance(cls, type):
        raise TypeError(f"Expected a class to register, got {shown(cls)}")
    if cls in _ENCODERS:
        raise InvalidArgument(f"{cls.__qualname__} can be stored already", field="cls", value=cls)
    types.register(cls, name, to_state, from_state)


_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def dumps(value: Any, path: str = "value", limit: int = MAX_SIZE) -> str:
    """Return ``value`` as JSON text, in ASCII; refused if it is longer than ``limit``."""
    text = _write(encode(value, path))
    if len(text) > limit:
        raise InvalidArgument(f"{path} takes {len(text)} bytes when stored, the limit is {limit}", field=path)
    return text


def loads(text: str | bytes, limit: int = MAX_SIZE) -> Any:
    """Return the value that :func:`dumps` wrote.

    :raises CodecError: if the text is anything else
    """
    if len(text) > limit:
        raise CodecError(f"The record has {len(text)} bytes, the limit is {limit}")
    try:
        data = _read_json(text)
    except CodecError:
        raise
    except RecursionError:
        raise CodecError(f"The record is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise CodecError(f"The record is no JSON: {error}") from error
    return decode(data)


def _read_json(text: str | bytes) -> Any:
    text = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    return (_read if len(text) <= MAX_DIGITS else _read_long)(text)


def _refuse_constant(name: str) -> float:
    raise CodecError(f"The record is no JSON: it contains a bare {name}")


def _read_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise CodecError(f"The record has a number of {len(digits)} digits, the limit is {MAX_DIGITS}")
    return int(digits)


_read = json.JSONDecoder(parse_constant=_refuse_constant).decode
#: Not every version of Python limits the digits of a number, which are read in quadratic time.
_read_long = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_read_int).decode


def encode(value: Any, path: str = "value") -> Any:
    """Return ``value`` as something that ``json`` can write and :func:`decode` can read.

    :raises InvalidArgument: naming the place below ``path`` where something stands that cannot be stored
    """
    try:
        return _encode(value, MAX_DEPTH)
    except _Refused as refused:
        place = path + "".join(reversed(refused.steps))
        raise InvalidArgument(
            f"{place} cannot be stored: {refused}. Register its type with goscheduler.codec.register_type, in every "
            "process that uses the store, or use a store with a pickle serializer",
            field=place,
            value=refused.value,
        ) from None


class _Refused(Exception):
    """A value has no encoding. The steps that lead to it gather on the way up."""

    def __init__(self, reason: str, value: object) -> None:
        super().__init__(reason)
        self.value = value
        self.steps: list[str] = []

    def below(self, step: str) -> _Refused:
        self.steps.append(step)
        return self


def _encode(value: Any, room: int) -> Any:
    encoder = _ENCODERS.get(type(value))
    return _encode_object(value, room) if encoder is None else encoder(value, room)


def _encode_items(items: Iterable[Any], room: int) -> list[Any]:
    _check_room(items, room)
    encoded = []
    for index, item in enumerate(items):
        try:
            encoded.append(_encode(item, room - 1))
        except _Refused as refused:
            raise refused.below(f"[{index}]") from None
    return encoded


def _encode_members(name: str, members: Collection[Any], room: int) -> dict[str, Any]:
    """Sets have no order; theirs is made up, so that equal sets give equal records."""
    _refuse_alike(members)
    return {_TAG: name, "value": sorted(_encode_items(members, room), key=json.dumps)}


def _encode_dict(mapping: dict[Any, Any], room: int, *, attributes: bool = False) -> dict[str, Any]:
    _check_room(mapping, room)
    pairs = []
    plain = _TAG not in mapping
    for key, value in mapping.items():
        plain = plain and type(key) is str
        try:
            pairs.append((key if type(key) is str else _encode(key, room - 1), _encode(value, room - 1)))
        except _Refused as refused:
            raise refused.below(f".{key}" if attributes else f"[{shown(key)}]") from None
    if plain:
        return dict(pairs)
    _refuse_alike(mapping)
    return {_TAG: "dict", "value": [list(pair) for pair in pairs]}


def _encode_object(value: Any, room: int) -> dict[str, Any]:
    known = types.of_class(type(value))
    if known is None and isinstance(value, tzinfo):
        return _encode_zone(value, room)
    if known is None:
        raise _Refused(f"{shown(value)} is of type {type(value).__module__}.{type(value).__qualname__}", value)
    _check_room(value, room)
    state = known.to_state(value)
    encoded = _encode_dict(state, room - 1, attributes=True) if type(state) is dict else _encode(state, room - 1)
    return {_TAG: "object", "name": known.name, "value": encoded}


def _check_room(value: object, room: int) -> None:
    if room <= 0:
        raise _Refused(f"it is nested deeper than {MAX_DEPTH} levels, or contains itself", value)


def _refuse_alike(members: Collection[Any]) -> None:
    if _too_many_alike(members):
        raise _Refused(f"more than {MAX_ALIKE} of its members have the same hash", members)


def _too_many_alike(members: Collection[Any]) -> bool:
    return len(members) > MAX_ALIKE and max(Counter(map(hash, members)).values()) > MAX_ALIKE


def _encode_int(value: int, _room: int) -> Any:
    if -_SMALL <= value < _SMALL:
        return value
    digits = format(value, "x")
    _refuse_long(digits, value)
    return {_TAG: "int", "value": digits}


def _encode_decimal(value: Decimal, _room: int) -> dict[str, Any]:
    text = str(value)
    _refuse_long(text, value)
    return {_TAG: "decimal", "value": text}


def _refuse_long(digits: str, value: object) -> None:
    if len(digits) > MAX_DIGITS:
        raise _Refused(f"it is a number of {len(digits)} digits, the limit is {MAX_DIGITS}", value)


def _encode_float(value: float, _room: int) -> Any:
    return value if math.isfinite(value) else {_TAG: "float", "value": str(value)}


def _encode_moment(name: str, value: datetime | time) -> dict[str, Any]:
    encoded: dict[str, Any] = {_TAG: name, "value": value.replace(tzinfo=None).isoformat()}
    if value.tzinfo is not None:
        encoded["zone"] = zone_text(value.tzinfo)
    if value.fold:
        encoded["fold"] = value.fold
    return encoded


def _encode_zone(value: tzinfo, _room: int) -> dict[str, Any]:
    return {_TAG: "zone", "value": zone_text(value)}


def zone_text(zone: tzinfo) -> str:
    """Return the name under which :func:`read_zone` finds a zone again."""
    if zone is timezone.utc:
        return "Z"
    zone = standard_zone(zone)
    if isinstance(zone, ZoneInfo) and zone.key is not None:
        return zone.key
    if not isinstance(zone, timezone):
        raise _Refused(f"{shown(zone)} is a time zone without a name; use zoneinfo.ZoneInfo", zone)
    offset = zone.utcoffset(None)
    ahead, behind = divmod(abs(offset), timedelta(seconds=1))
    text = f"{'-' if offset < timedelta(0) else '+'}{ahead // 3600:02}:{ahead // 60 % 60:02}"
    if ahead % 60 or behind:
        text += f":{ahead % 60:02}" + (f".{behind.microseconds:06}" if behind else "")
    name = zone.tzname(None)
    return text if name == timezone(offset).tzname(None) and offset else f"{text} {name}"


_ENCODERS: dict[type, Callable[[Any, int], Any]] = {
    type(None): lambda value, _room: value,
    bool: lambda value, _room: value,
    str: lambda value, _room: value,
    int: _encode_int,
    float: _encode_float,
    list: _encode_items,
    dict: _encode_dict,
    tuple: lambda value, room: {_TAG: "tuple", "value": _encode_items(value, room)},
    set: lambda value, room: _encode_members("set", value, room),
    frozenset: lambda value, room: _encode_members("frozenset", value, room),
    datetime: lambda value, _room: _encode_moment("datetime", in_standard_zone(value)),
    time: lambda value, _room: _encode_moment("time", value),
    date: lambda value, _room: {_TAG: "date", "value": value.isoformat()},
    timedelta: lambda value, _room: {_TAG: "timedelta", "value": [value.days, value.seconds, value.microseconds]},
    timezone: _encode_zone,
    ZoneInfo: _encode_zone,
    Decimal: _encode_decimal,
    UUID: lambda value, _room: {_TAG: "uuid", "value": str(value)},
    bytes: lambda value, _room: {_TAG: "bytes", "value": base64.b64encode(value).decode()},
    bytearray: lambda value, _room: {_TAG: "bytearray", "value": base64.b64encode(value).decode()},
}


def decode(data: Any) -> Any:
    """Return the value that :func:`encode` was given.

    :raises CodecError: if the data is not what :func:`encode` returns
    """
    return _decode(data, MAX_DEPTH)


def _decode(data: Any, room: int) -> Any:
    if isinstance(data, dict):
        return _decode_tagged(data, room) if _TAG in data else _decode_plain_dict(data, room)
    if isinstance(data, list):
        return _decode_items(data, room)
    if data is None or isinstance(data, (str, int)) or (isinstance(data, float) and math.isfinite(data)):
        return data
    raise CodecError(f"Expected JSON, got {shown(data)}")


def _decode_tagged(data: dict[str, Any], room: int) -> Any:
    tag = data[_TAG]
    decoder = _DECODERS.get(tag) if isinstance(tag, str) else None
    if decoder is None:
        raise CodecError(f"Unknown type {shown(tag)}")
    try:
        return decoder(data, room)
    except CodecError:
        raise
    except Exception as error:  # a registered type may raise anything when its state is not what it wrote
        raise CodecError(f"Malformed {tag} {shown(data)}: {error!r}") from error


def _decode_plain_dict(data: dict[str, Any], room: int) -> dict[str, Any]:
    _check_depth(room)
    return {key: _decode(value, room - 1) for key, value in data.items()}


def _decode_items(items: Any, room: int) -> list[Any]:
    _check_depth(room)
    if not isinstance(items, list):
        raise CodecError(f"Expected a list, got {shown(items)}")
    return [_decode(item, room - 1) for item in items]


def _decode_pairs(data: dict[str, Any], room: int) -> dict[Any, Any]:
    _check_depth(room)
    pairs = [(_decode(key, room - 1), _decode(value, room - 1)) for key, value in data["value"]]
    _check_alike([key for key, _ in pairs])
    return dict(pairs)


def _decode_members(data: dict[str, Any], room: int) -> list[Any]:
    members = _decode_items(data["value"], room)
    _check_alike(members)
    return members


def _check_alike(members: list[Any]) -> None:
    if _too_many_alike(members):
        raise CodecError(f"More than {MAX_ALIKE} members of a set or dict have the same hash")


def _check_depth(room: int) -> None:
    if room <= 0:
        raise CodecError(f"The record is nested deeper than {MAX_DEPTH} levels")


def _decode_object(data: dict[str, Any], room: int) -> Any:
    name = data["name"]
    known = types.named(name) if isinstance(name, str) else None
    if known is None:
        raise CodecError(f"No type is registered under the name {shown(name)}")
    _check_depth(room)
    return known.from_state(_decode(data["value"], room - 1))


def _decode_int(data: dict[str, Any], _room: int) -> int:
    if not _HEX.fullmatch(_checked_digits(data)):
        raise CodecError(f"Malformed int {shown(data['value'])}")
    return int(data["value"], 16)


def _decode_decimal(data: dict[str, Any], _room: int) -> Decimal:
    return Decimal(_checked_digits(data))


def _checked_digits(data: dict[str, Any]) -> str:
    digits = data["value"]
    if not isinstance(digits, str) or len(digits) > MAX_DIGITS:
        raise CodecError(f"Malformed {data[_TAG]} {shown(digits)}: expected at most {MAX_DIGITS} digits")
    return digits


def _decode_timedelta(data: dict[str, Any], _room: int) -> timedelta:
    days, seconds, microseconds = data["value"]
    return timedelta(days, seconds, microseconds)


def _decode_datetime(data: dict[str, Any], _room: int) -> datetime:
    return _with_zone(datetime.fromisoformat(data["value"]), data)


def _decode_time(data: dict[str, Any], _room: int) -> time:
    return _with_zone(time.fromisoformat(data["value"]), data)


def _with_zone(naive: _Moment, data: dict[str, Any]) -> _Moment:
    if naive.tzinfo is not None:
        raise CodecError(f"Malformed {data[_TAG]} {shown(data['value'])}: its zone must stand beside it")
    zone = read_zone(data["zone"]) if "zone" in data else None
    return naive.replace(tzinfo=zone, fold=data.get("fold", 0))


def read_zone(text: str) -> tzinfo:
    """Return the zone that :func:`zone_text` named."""
    if text == "Z":
        return timezone.utc
    if text == "UTC":
        return ZoneInfo("UTC")
    if match := _OFFSET.fullmatch(text):
        sign, hours, minutes, seconds, microseconds, name = match.groups()
        size = timedelta(0, int(seconds or 0), int(microseconds or 0), 0, int(minutes), int(hours))
        offset = -size if sign == "-" else size
        return timezone(offset) if name is None else timezone(offset, name)
    zone = astimezone(text)
    assert zone is not None
    return zone


_DECODERS: Mapping[str, Callable[[dict[str, Any], int], Any]] = {
    "int": _decode_int,
    "float": lambda data, _room: _FLOATS[data["value"]],
    "dict": _decode_pairs,
    "tuple": lambda data, room: tuple(_decode_items(data["value"], room)),
    "set": lambda data, room: set(_decode_members(data, room)),
    "frozenset": lambda data, room: frozenset(_decode_members(data, room)),
    "datetime": _decode_datetime,
    "time": _decode_time,
    "date": lambda data, _room: date.fromisoformat(data["value"]),
    "timedelta": _decode_timedelta,
    "zone": lambda data, _room: read_zone(data["value"]),
    "decimal": _decode_decimal,
    "uuid": lambda data, _room: UUID(data["value"]),
    "bytes": lambda data, _room: base64.b64decode(data["value"], validate=True),
    "bytearray": lambda data, _room: bytearray(base64.b64decode(data["value"], validate=True)),
    "object": _decode_object,
}
