"""What operations take: one object for each kind of value, which checks it and describes it to programs.

A parameter of an operation is annotated with one: ``tag: Annotated[str | None, TEXT] = None``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, NamedTuple, get_args, get_type_hints

from goscheduler.errors import InvalidArgument, UnknownOption, shown

#: The longest text of a parameter, and the longest JSON value.
LONGEST_TEXT = 1000
LONGEST_JSON = 262_144
MOST_NAMES = 1000


@dataclass(frozen=True)
class Kind:
    """Takes any value; the base of the other kinds."""

    help: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """This kind as JSON Schema."""
        return {"description": self.help} if self.help else {}

    def read(self, field: str, value: Any) -> Any:
        """Return a value as the operation takes it.

        :raises InvalidArgument: naming the field
        """
        return value

    def read_text(self, field: str, text: str) -> Any:
        """Return the value that a text stands for: of a query string, or of a command line."""
        return self.read(field, text)


@dataclass(frozen=True)
class Text(Kind):
    """A nonempty text."""

    longest: int = LONGEST_TEXT

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest, **super().schema}

    def read(self, field: str, value: Any) -> Any:
        if not isinstance(value, str) or not value:
            raise refused(field, "a nonempty string", value)
        if len(value) > self.longest:
            raise refused(field, f"a text of at most {self.longest} characters", value)
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise refused(field, "a text without NUL and without halves of characters, which no store keeps", value)
        return value


@dataclass(frozen=True)
class Choice(Kind):
    """One of several words."""

    words: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words), **super().schema}

    def read(self, field: str, value: Any) -> Any:
        if not isinstance(value, str) or value not in self.words:
            raise refused(field, f"one of {', '.join(self.words)}", value)
        return value


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number."""

    least: int = 1
    most: int = 1_000_000

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most, **super().schema}

    def read(self, field: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise refused(field, f"a whole number from {self.least} to {self.most}", value)
        return value

    def read_text(self, field: str, text: str) -> Any:
        digits = text.removeprefix("-")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 18
        return self.read(field, int(text) if is_number else text)


@dataclass(frozen=True)
class Number(Kind):
    """A number."""

    least: float = 0.0
    most: float = 1e9

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": self.most, **super().schema}

    def read(self, field: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.least <= value <= self.most:
            raise refused(field, f"a number from {self.least:g} to {self.most:g}", value)
        return float(value)

    def read_text(self, field: str, text: str) -> Any:
        try:
            return self.read(field, float(text))
        except ValueError:
            raise refused(field, "a number", text) from None


@dataclass(frozen=True)
class Flag(Kind):
    """Yes or no."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean", **super().schema}

    def read(self, field: str, value: Any) -> Any:
        if not isinstance(value, bool):
            raise refused(field, "true or false", value)
        return value

    def read_text(self, field: str, text: str) -> Any:
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return self.read(field, known.get(text.lower(), text))


@dataclass(frozen=True)
class Moment(Kind):
    """A date and time, or how long ago or ahead it is, such as "2h"."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": 100, "examples": ["2026-05-04T12:00:00Z", "2h"], **super().schema}

    def read(self, field: str, value: Any) -> Any:
        if isinstance(value, datetime):
            return value
        if not isinstance(value, str) or not 0 < len(value) <= 100:
            raise refused(field, 'a date and time, or a length of time such as "2h"', value)
        return value


@dataclass(frozen=True)
class Texts(Kind):
    """Several texts."""

    most: int = MOST_NAMES

    @property
    def schema(self) -> dict[str, Any]:
        items = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
        return {"type": "array", "items": items, "minItems": 1, "maxItems": self.most, **super().schema}

    def read(self, field: str, value: Any) -> Any:
        if isinstance(value, str) or not isinstance(value, Sequence) or not 1 <= len(value) <= self.most:
            raise refused(field, f"a list of 1 to {self.most} texts", value)
        return list(dict.fromkeys(TEXT.read(field, item) for item in value))

    def read_text(self, field: str, text: str) -> Any:
        return self.read(field, [text])


@dataclass(frozen=True)
class Choices(Choice):
    """Some of several words; one alone counts as a list of one."""

    @property
    def schema(self) -> dict[str, Any]:
        items = {"type": "string", "enum": list(self.words)}
        described = {"description": self.help} if self.help else {}
        return {"type": "array", "items": items, "minItems": 1, **described}

    def read(self, field: str, value: Any) -> Any:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, Sequence) or not 1 <= len(given) <= len(self.words):
            raise refused(field, f"some of {', '.join(self.words)}", value)
        return [super(Choices, self).read(field, word) for word in given]


@dataclass(frozen=True)
class JsonValue(Kind):
    """A value as JSON has it, of a bounded size."""

    type: str | None = None
    """The type that JSON Schema knows; None for any."""

    @property
    def schema(self) -> dict[str, Any]:
        return {**({} if self.type is None else {"type": self.type}), **super().schema}

    def read(self, field: str, value: Any) -> Any:
        expected = {"object": dict, "array": list, None: object}[self.type]
        if not isinstance(value, expected):
            raise refused(field, f"a JSON {self.type}", value)
        try:
            size = len(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            raise refused(field, "a value that JSON has", value) from None
        if size > LONGEST_JSON:
            raise InvalidArgument(f"{field} may have {LONGEST_JSON} characters as JSON, it has {size}", field=field)
        return value

    def read_text(self, field: str, text: str) -> Any:
        try:
            return self.read(field, json.loads(text))
        except (json.JSONDecodeError, RecursionError):
            raise refused(field, "JSON", text) from None


TEXT = Text()
FLAG = Flag()
MOMENT = Moment()
TEXTS = Texts()


class Param(NamedTuple):
    """One parameter of an operation."""

    name: str
    kind: Kind
    required: bool
    default: Any


def params_of(function: Callable[..., Any]) -> tuple[Param, ...]:
    """Return the parameters of the function of an operation, but for the first, which is the call.

    One that is a group counts as its fields.
    """
    hints = get_type_hints(function, include_extras=True)
    groups = groups_of(function)
    params: list[Param] = []
    for each in list(inspect.signature(function).parameters.values())[1:]:
        params += params_of_group(groups[each.name]) if each.name in groups else [_param_of(each, hints[each.name])]
    return tuple(params)


def groups_of(function: Callable[..., Any]) -> dict[str, type]:
    """Return the parameters that stand for several: dataclasses whose fields are annotated as parameters are."""
    hints = get_type_hints(function, include_extras=True)
    names = list(inspect.signature(function).parameters)[1:]
    return {name: hints[name] for name in names if is_dataclass(hints[name])}


def params_of_group(group: type) -> list[Param]:
    """Return the fields of a group as parameters; each can be left out."""
    hints = get_type_hints(group, include_extras=True)
    return [Param(each.name, _kind_of(hints[each.name]), False, each.default) for each in fields(group)]


def _param_of(parameter: inspect.Parameter, hint: Any) -> Param:
    required = parameter.default is inspect.Parameter.empty
    return Param(parameter.name, _kind_of(hint), required, None if required else parameter.default)


def _kind_of(hint: Any) -> Kind:
    return next(each for each in get_args(hint)[1:] if isinstance(each, Kind))


def read_arguments(params: Sequence[Param], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return checked arguments; a value of None counts as not given.

    :raises UnknownOption: for a name that is no parameter
    :raises InvalidArgument: for a value that makes no sense, or one that is missing
    """
    known = {param.name: param for param in params}
    for name in given:
        if name not in known:
            raise UnknownOption(name, known, where=where)
    found = {name: known[name].kind.read(name, value) for name, value in given.items() if value is not None}
    for param in params:
        if param.required and param.name not in found:
            raise InvalidArgument(f"{param.name} is missing", field=param.name)
    return found


def refused(field: str, expected: str, value: object) -> InvalidArgument:
    """Return the error for a value that makes no sense."""
    return InvalidArgument(f"{field} must be {expected}, got {shown(value)}", field=field, value=value)
