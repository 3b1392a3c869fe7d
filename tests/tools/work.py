"""Counts what something costs, so that a test can tell quick from slow on a machine of any speed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def calls_of(action: Callable[[], T]) -> tuple[T, int]:
    """Return what an action returns, and how many functions were called for it in this thread."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    usual = sys.getprofile()
    sys.setprofile(count)
    try:
        result = action()
    finally:
        sys.setprofile(usual)
    return result, calls
