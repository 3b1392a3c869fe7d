from __future__ import annotations

import functools
import gc
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from apscheduler.util import check_callable_args as apscheduler_check
from hypothesis import given
from hypothesis import strategies as st

from goscheduler.references import check_callable_args


def none() -> None: ...
def one(x: Any) -> None: ...
def optional(x: Any, y: Any = 1) -> None: ...
def keyword_only(x: Any, *, k: Any, j: Any = 1) -> None: ...
def positional_only(x: Any, /, y: Any) -> None: ...
def everything(*args: Any, **kwargs: Any) -> None: ...
def positional_and_any(x: Any, /, **kwargs: Any) -> None: ...


class Target:
    def method(self, x: Any) -> None: ...

    @classmethod
    def class_method(cls, x: Any) -> None: ...


@functools.wraps(one)
def wrapper(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "text"),
    [
        (one, [1], {"x": 1}, "The following arguments are supplied in both args and kwargs: x"),
        (positional_only, [], {"x": 1, "y": 1}, "The following arguments cannot be given as keyword arguments: x"),
        (one, [], {}, "The following arguments have not been supplied: x"),
        (positional_and_any, [], {"x": 1}, "The following arguments have not been supplied: x"),
        (keyword_only, [1], {}, "The following keyword-only arguments have not been supplied in kwargs: k"),
        (
            optional,
            [1, 2, 3],
            {},
            "The list of positional arguments is longer than the target callable can handle "
            "(allowed: 2, given in args: 3)",
        ),
        (
            Target().method,
            [1, 2],
            {},
            "The list of positional arguments is longer than the target callable can handle "
            "(allowed: 1, given in args: 2)",
        ),
        (optional, [1], {"q": 1, "r": 2}, "The target callable does not accept the following keyword arguments: q, r"),
        (everything, [], {1: 2}, "Keyword argument names must be strings, got 1"),
        (
            functools.partial(one, 1),
            [2],
            {},
            "The list of positional arguments is longer than the target callable can "
            "handle (allowed: 0, given in args: 1)",
        ),
    ],
)
def test_a_call_that_would_fail_is_refused_with_the_reason(
    func: Callable[..., Any], args: list[Any], kwargs: dict[Any, Any], text: str
) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="argument") as caught:
            check_callable_args(func, args, kwargs)
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "reported"),
    [
        (lambda a, b, /, c: None, [1], {"b": 2}, "cannot be given as keyword"),
        (lambda a, b: None, [1], {"a": 2}, "both args and kwargs"),
        (lambda a, *, k: None, [], {}, "have not been supplied: a"),
        (lambda a, *, k: None, [1, 2], {}, "keyword-only"),
        (lambda a: None, [1, 2], {"z": 1}, "longer than"),
    ],
)
def test_the_gravest_problem_is_reported_first(
    func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], reported: str
) -> None:
    with pytest.raises(ValueError, match=reported):
        check_callable_args(func, args, kwargs)


@pytest.mark.parametrize(
    ("func", "args", "kwargs"),
    [
        (everything, [1, 2], {"x": 1}),
        (positional_and_any, [1], {"x": 2}),
        (Target().method, [1], {}),
        (Target.class_method, [1], {}),
        (functools.partial(keyword_only, k=1), [1], {"k": 2}),
        (object().__setattr__, ["a", 1], {}),
        (dict, [1], {"a": 1}),
        (wrapper, [], {}),
        (optional, (n for n in [1]), {}),
    ],
)
def test_a_call_that_can_be_made_passes(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> None:
    assert check_callable_args(func, args, kwargs) is None


def test_what_cannot_be_called_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="is not a callable object"):
        check_callable_args(object(), [], {})


def test_remembering_a_signature_does_not_keep_the_function_alive() -> None:
    def short_lived(x: Any) -> None: ...

    check_callable_args(short_lived, [1], {})
    watch = weakref.ref(short_lived)
    del short_lived
    gc.collect()
    assert watch() is None


FUNCTIONS = [none, one, optional, keyword_only, positional_only, everything, positional_and_any, Target().method]


@given(st.sampled_from(FUNCTIONS), st.integers(0, 3), st.sets(st.sampled_from("xykjz")))
def test_exactly_those_calls_are_refused_that_python_refuses(func: Any, count: int, names: set[str]) -> None:
    args, kwargs = [0] * count, dict.fromkeys(sorted(names), 0)
    try:
        inspect.signature(func).bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(ValueError, match="argument"):
            check_callable_args(func, args, kwargs)
    else:
        check_callable_args(func, args, kwargs)


COMPARED = [func for func in FUNCTIONS if func is not positional_and_any]  # which APScheduler 3 refuses wrongly


@given(st.sampled_from(COMPARED), st.integers(0, 3), st.sets(st.sampled_from("xykjz")))
def test_the_words_are_those_of_apscheduler(func: Any, count: int, names: set[str]) -> None:
    args, kwargs = [0] * count, dict.fromkeys(sorted(names), 0)
    assert _verdict(check_callable_args, func, args, kwargs) == _verdict(apscheduler_check, func, args, kwargs)


def _verdict(check: Callable[..., None], func: Any, args: list[Any], kwargs: dict[str, Any]) -> str:
    try:
        check(func, args, kwargs)
    except ValueError as error:
        return str(error).partition(": ")[0]  # APScheduler 3 also names arguments that are fine
    return "fine"
