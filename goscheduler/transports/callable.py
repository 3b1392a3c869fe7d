"""A transport that is a function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from goscheduler.errors import shown
from goscheduler.transports.base import BaseTransport, Delivery


class CallableTransport(BaseTransport):
    """Calls ``function(event_name, message)``, which delivers by returning and fails by raising.

    A coroutine function is run to its end on an event loop of its own.
    """

    def __init__(self, function: Callable[[str, Delivery], object]) -> None:
        if not callable(function):
            raise TypeError(f"function must be a callable, got {shown(function)}")
        self._function = function

    def publish(self, event_name: str, message: Delivery) -> None:
        result = self._function(event_name, message)
        if isinstance(result, Coroutine):
            asyncio.run(result)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({shown(self._function)})>"
