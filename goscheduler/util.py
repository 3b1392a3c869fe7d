"""The small functions that APScheduler 3 offers under this name, and the value that means "not given"."""

from __future__ import annotations

from typing import Any, Literal

from goscheduler.errors import InvalidArgument, shown
from goscheduler.references import (
    check_callable_args,
    get_callable_name,
    iscoroutinefunction_partial,
    maybe_ref,
    obj_to_ref,
    ref_to_obj,
)
from goscheduler.times import (
    asdate,
    astimezone,
    convert_to_datetime,
    datetime_ceil,
    datetime_repr,
    datetime_to_utc_timestamp,
    datetime_utc_add,
    localize,
    normalize,
    timedelta_seconds,
    timezone_repr,
    utc_timestamp_to_datetime,
)

__all__ = [
    "Undefined",
    "asbool",
    "asdate",
    "asint",
    "astimezone",
    "check_callable_args",
    "convert_to_datetime",
    "datetime_ceil",
    "datetime_repr",
    "datetime_to_utc_timestamp",
    "datetime_utc_add",
    "get_callable_name",
    "iscoroutinefunction_partial",
    "localize",
    "maybe_ref",
    "normalize",
    "obj_to_ref",
    "ref_to_obj",
    "timedelta_seconds",
    "timezone_repr",
    "undefined",
    "utc_timestamp_to_datetime",
]

_TRUE = frozenset({"true", "yes", "on", "y", "t", "1"})
_FALSE = frozenset({"false", "no", "off", "n", "f", "0"})


class Undefined:
    """The type of :data:`undefined`. There is one instance; copying and pickling give it back."""

    __slots__ = ()
    _instance: Undefined | None = None

    def __new__(cls) -> Undefined:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "<undefined>"

    def __reduce__(self) -> str:
        return "undefined"


#: "Not given", where None means something.
undefined = Undefined()


def asint(text: Any) -> int | None:
    """Return ``text`` as an integer; None stays None."""
    if text is None:
        return None
    try:
        return int(text)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"Expected an integer, got {shown(text)}", value=text) from None


def asbool(obj: Any) -> bool:
    """Return ``obj`` as a truth value; strings are read as configuration files spell them."""
    if not isinstance(obj, str):
        return bool(obj)
    word = obj.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise InvalidArgument(
        f'Unable to interpret value "{shown(obj)[1:-1]}" as boolean; expected true or false, yes or no, on or off',
        value=obj,
    )
