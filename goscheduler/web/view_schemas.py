"""The views that operations return, as JSON Schema, made of their annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from goscheduler.ops.redact import USERS_OWN

Schema = dict[str, Any]
Binding = Mapping[Any, Any]
_PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
    type(None): {"type": "null"}, datetime: {"type": "string", "format": "date-time"}, timedelta: {"type": "number"},
}  # fmt: skip


class ViewSchemas:
    """Makes schemas of types; those of views are kept by name, and referred to."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}

    def of(self, hint: Any, bound: Binding | None = None) -> Schema:
        """Return the schema of the JSON that a value of a type becomes."""
        bound = bound or {}
        hint = bound.get(hint, hint)
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each, bound) for each in arguments]}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1], bound)}
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"type": "array", "items": self.of(arguments[0], bound)}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"type": "string", "enum": [each.value for each in hint]}
        return self._of_view(origin or hint, arguments, bound) if is_dataclass(origin or hint) else {}

    def _of_view(self, view: Any, arguments: tuple[Any, ...], bound: Binding) -> Schema:
        given = [bound.get(each, each) for each in arguments]
        name = view.__name__ + "".join(f"Of{getattr(each, '__name__', 'Any')}" for each in given)
        if name not in self.named:
            self.named[name] = {}  # a view may hold views of its own kind
            self.named[name] = self._described(view, _binding(view, given))
        return {"$ref": f"#/components/schemas/{name}"}

    def _described(self, view: Any, bound: Binding) -> Schema:
        hints = get_type_hints(view)
        names = [each.name for each in fields(view)]
        properties = {name: {} if name in USERS_OWN else self.of(hints[name], bound) for name in names}
        description = (view.__doc__ or "").partition("\n")[0]
        return {"type": "object", "description": description, "properties": properties, "required": names}


def _binding(view: Any, given: Sequence[Any]) -> Binding:
    """Return type variable → type, also of those of the bases."""
    bound: dict[Any, Any] = dict(zip(getattr(view, "__parameters__", ()), given, strict=False))
    for base in getattr(view, "__orig_bases__", ()):
        parameters = getattr(get_origin(base), "__parameters__", ())
        bound.update(zip(parameters, get_args(base), strict=False))
    return {variable: kind for variable, kind in bound.items() if isinstance(variable, TypeVar) and kind != variable}
