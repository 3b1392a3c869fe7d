"""How much work one question to a trigger may take, counted in steps and not in seconds.

A trigger is asked while a store holds its job, so a search that does not end would hold up everybody. The loops of the
built-in triggers count their steps, and those of all triggers that are asked inside of one question add up: a
combination of combinations multiplies the work of its parts, and has no more room for it than any other trigger.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from goscheduler.errors import GoSchedulerError

#: How many steps one question may take. A fire time of a sound schedule is found in a few, or a few hundred.
MOST_STEPS = 200_000


class TooManySteps(GoSchedulerError, RuntimeError):
    """A trigger has not found its next fire time within :data:`MOST_STEPS` steps."""


class _Count(threading.local):
    left: int | None = None
    """None where nobody counts."""


_count = _Count()


@contextmanager
def bounded() -> Iterator[None]:
    """Let what is asked inside take :data:`MOST_STEPS` steps. Inside another such block, the count of that goes on."""
    if _count.left is not None:
        yield
        return
    _count.left = MOST_STEPS
    try:
        yield
    finally:
        _count.left = None


def step() -> None:
    """Count a step.

    :raises TooManySteps: if it is one too many
    """
    left = _count.left
    if left is None:
        return
    if left <= 0:
        raise TooManySteps(f"its next fire time was not found within {MOST_STEPS} steps")
    _count.left = left - 1


def half_spent() -> bool:
    """Tell whether more than half of the steps have been taken."""
    return _count.left is not None and _count.left < MOST_STEPS // 2
