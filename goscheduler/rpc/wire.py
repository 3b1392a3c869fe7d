"""Plain values as operations have them, as protobuf messages, and back. The descriptors of the messages say how."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from goscheduler.errors import InvalidArgument
from goscheduler.ops.redact import HIDDEN

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct, Value

    from goscheduler.ops.schema import Param

M = TypeVar("M", bound=Message)
#: A field descriptor; the fast implementation of protobuf has a class of its own for them.
Field = Any

TIMESTAMP, VALUE, STRUCT = (f"google.protobuf.{name}" for name in ("Timestamp", "Value", "Struct"))
#: Beyond this a number that is a double is not exact.
EXACT = 1 << 53
MOST_INT64 = (1 << 63) - 1


def parsed(kind: type[M], request: bytes) -> M:
    """Return the message that bytes stand for.

    :raises InvalidArgument: if they stand for none
    """
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise InvalidArgument(f"the request is no {kind.DESCRIPTOR.full_name}: {error}") from error


def arguments_of(request: Message, params: Sequence[Param]) -> dict[str, Any]:
    """Return what a request gives, by the names of an operation's parameters."""
    found: dict[str, Any] = {}
    for param in params:
        field = request.DESCRIPTOR.fields_by_name[param.name]
        value = getattr(request, param.name)
        if field.is_repeated:
            given, value = bool(value) or param.required, list(value)
        else:
            given = not field.has_presence or request.HasField(param.name)
        if given:
            found[param.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    name = value.DESCRIPTOR.full_name if isinstance(value, Message) else ""
    if name == VALUE:
        return plain_value(value)
    return plain_struct(value) if name == STRUCT else value


def plain_struct(struct: Struct) -> dict[str, Any]:
    """Return a struct as a dict."""
    return {name: plain_value(value) for name, value in struct.fields.items()}


def plain_value(value: Value) -> Any:
    """Return a value as JSON has it. A number without a fraction is a whole number."""
    kind = value.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    if kind == "struct_value":
        return plain_struct(value.struct_value)
    if kind == "list_value":
        return [plain_value(item) for item in value.list_value.values]
    found = getattr(value, kind)
    is_whole = kind == "number_value" and math.isfinite(found) and found == int(found) and abs(found) <= EXACT
    return int(found) if is_whole else found


def answer_of(kind: type[M], view: Any) -> M:
    """Return the message of a view, which is a mapping, a list or a single value."""
    answer = kind()
    if isinstance(view, list):
        view = {"items": view}
    elif not isinstance(view, Mapping):
        view = {"value": view}
    elif (choice := kind.DESCRIPTOR.oneofs_by_name.get("result")) is not None:
        names = [field.name for field in choice.fields if view.keys() <= set(_names(field))]
        view = dict.fromkeys(names[:1], view)
    fill(answer, view)
    return answer


def _names(field: Field) -> Iterable[str]:
    """Return the names of the fields of the message that a field holds."""
    return () if field.message_type is None else field.message_type.fields_by_name


def fill(message: Message, view: Mapping[str, Any]) -> None:
    """Set the fields of a message to the values of the same names; None stays unset."""
    for field in message.DESCRIPTOR.fields:
        value = view.get(field.name)
        if value is None:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(getattr(message, field.name), field, value)
        elif field.is_repeated:
            _fill_list(getattr(message, field.name), field, value)
        elif field.message_type is not None:
            _fill_inner(getattr(message, field.name), value)
        else:
            setattr(message, field.name, _scalar(field, value))


def _fill_map(entries: Any, field: Field, value: Any) -> None:
    inner = next(each for each in field.message_type.fields if each.name == "value")
    for key, item in (value if isinstance(value, Mapping) else {HIDDEN: HIDDEN}).items():
        entries[_text(key)] = _scalar(inner, item)


def _fill_list(items: Any, field: Field, value: Any) -> None:
    for item in value:
        if field.message_type is not None:
            _fill_inner(items.add(), item)
        else:
            items.append(_scalar(field, item))


def _fill_inner(message: Any, value: Any) -> None:
    name = message.DESCRIPTOR.full_name
    if name == TIMESTAMP:
        message.FromDatetime(datetime.fromisoformat(value))
    elif name == VALUE:
        _set_value(message, value)
    elif name == STRUCT:
        _set_struct(message, value if isinstance(value, Mapping) else {HIDDEN: HIDDEN})
    else:
        message.SetInParent()
        fill(message, value)


def _set_struct(struct: Struct, value: Mapping[str, Any]) -> None:
    struct.SetInParent()
    for name, item in value.items():
        _set_value(struct.fields[_text(name)], item)


def _set_value(message: Value, value: Any) -> None:
    if value is None:
        message.null_value = 0  # type: ignore[assignment]
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, (int, float)):
        _set_number(message, value)
    elif isinstance(value, Mapping):
        _set_struct(message.struct_value, value)
    elif isinstance(value, list):
        message.list_value.SetInParent()
        for item in value:
            _set_value(message.list_value.values.add(), item)
    else:
        message.string_value = _text(value)


def _set_number(message: Value, value: float) -> None:
    if math.isfinite(value) and (isinstance(value, float) or abs(value) <= EXACT):
        message.number_value = value
    else:
        message.string_value = str(value)  # what JSON or a double does not have is told as text


def _scalar(field: Field, value: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _text(value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_INT64:
        return max(-MOST_INT64, min(int(value), MOST_INT64))
    return value


def _text(value: object) -> str:
    """Return a text that UTF-8 has: half a surrogate pair, which it has not, is escaped."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
