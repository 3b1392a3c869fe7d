"""What modules that a test writes wait for while they are imported, and what they have to say."""

from __future__ import annotations

import threading

began = threading.Event()
go_on = threading.Event()
calls: list[str] = []


def reset() -> None:
    """Be as new."""
    for event in (began, go_on):
        event.clear()
    calls.clear()
