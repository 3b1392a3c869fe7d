"""A function together with its arguments, so that a type checker compares them where they are written.

``args=[...]`` and ``kwargs={...}`` of ``add_job`` cannot be typed: Python knows the parameters of a function only where
they are passed as ``*args, **kwargs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from goscheduler.errors import InvalidArgument, shown

_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Call(Generic[_R_co]):
    """A function and its arguments, made by :func:`call`. ``add_job`` and ``modify_job`` take it as ``func``."""

    func: Callable[..., _R_co]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def call(func: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> Call[_R]:
    """Return a call for a job to make: ``scheduler.add_job(call(send, order.id, urgent=True), "date")``.

    Nothing is called here. A type checker compares the arguments with the function.

    :raises TypeError: if ``func`` is no function; the name of a task has no parameters to compare with
    """
    if not callable(func):
        raise TypeError(f"call() takes a function and its arguments, got {shown(func)}; give a name to add_job itself")
    return Call(func, args, kwargs)


def spread(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a job with a :class:`Call` among them taken apart into ``func``, ``args`` and ``kwargs``.

    :raises InvalidArgument: if there are other arguments beside it
    """
    whole = given.get("func")
    if not isinstance(whole, Call):
        return given
    for name in ("args", "kwargs"):
        if given.get(name):
            raise InvalidArgument(
                f"{name} is given beside a call() that has its own arguments, got {shown(given[name])}; "
                "pass all of them to call()",
                field=name,
                value=given[name],
            )
    return {**given, "func": whole.func, "args": whole.args, "kwargs": dict(whole.kwargs)}
