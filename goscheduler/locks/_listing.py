"""What people ask about locks: who has which, and to end one that its holder does not release."""

from __future__ import annotations

from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.locks._acquiring import LONGEST_NAME, check_name
from goscheduler.locks._find import backend_for
from goscheduler.locks.base import HeldLock

MOST_LOCKS = 10_000


def held_locks(place: Any, prefix: str = "", limit: int = 100) -> list[HeldLock]:
    """Return at most ``limit`` of the locks that somebody has and whose names begin with ``prefix``, in their order.

    ``place`` is what :func:`~goscheduler.locks.acquire` takes.

    :raises StoreUnavailable: if the server did not answer
    :raises InvalidArgument: if prefix or limit make no sense
    """
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be a string, got {type(prefix).__name__}")
    if len(prefix) > LONGEST_NAME:
        raise InvalidArgument(
            f"prefix must have at most {LONGEST_NAME} characters, got {len(prefix)}", field="prefix", value=prefix
        )
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LOCKS:
        raise InvalidArgument(
            f"limit must be a whole number from 1 to {MOST_LOCKS}, got {shown(limit)}", field="limit", value=limit
        )
    return backend_for(place).locks(prefix, limit)


def break_lock(place: Any, name: str, fence: int) -> bool:
    """End the lock ``name`` for whoever has it under this ``fence``, and tell whether that was so.

    Its holder may not notice before it extends or releases the lock, so what it writes to is to refuse older fences.

    :raises StoreUnavailable: if the server did not answer; the lock may be broken or not
    """
    check_name(name)
    if isinstance(fence, bool) or not isinstance(fence, int) or not 0 <= fence < 1 << 63:
        raise InvalidArgument(f"fence must be the fence of a lock, got {shown(fence)}", field="fence", value=fence)
    return backend_for(place).break_lock(name, fence)
