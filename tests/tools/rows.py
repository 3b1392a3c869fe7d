"""Tables of cases that are one test: to set up, report and hand out a test costs more than most rows do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def each_row(names: Sequence[str], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator like ``parametrize`` that tries all rows in one test and names all that fail.

    The rows share the fixtures of the test: a row must leave them as they were, or say so by failing.
    """
    table = list(rows)
    assert table, "a table without rows proves nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def whole(**fixtures: Any) -> None:
            wrong: list[tuple[str, BaseException]] = []
            for row in table:
                try:
                    test(**fixtures, **dict(zip(names, _values(row), strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    wrong.append((_name(row), error))
            if wrong:
                told = "\n".join(f"{name}: {type(error).__name__}: {error}"[:500] for name, error in wrong)
                raise AssertionError(f"{len(wrong)} of {len(table)} rows:\n{told}") from wrong[0][1]

        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in names]
        whole.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return whole

    return decorate


def _values(row: Any) -> Sequence[Any]:
    return row.values if hasattr(row, "marks") else row


def _name(row: Any) -> str:
    return getattr(row, "id", None) or repr(row)[:100]
