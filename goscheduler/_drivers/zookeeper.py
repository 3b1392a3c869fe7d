"""Hears the bell of a store in ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.client import KazooState  # type: ignore[import-untyped]
from kazoo.exceptions import NoNodeError  # type: ignore[import-untyped]


class BellWatch:
    """Watches a node, across lost connections. kazoo's own watch waits for its first answer without a deadline."""

    def __init__(self, client: Any, path: str, heard: Callable[[str], None]) -> None:
        self._client, self._path, self._heard = client, path, heard
        self._going_on = True

    def begin(self) -> Any:
        """Watch from now on; return the promise of the first answer."""
        self._client.add_listener(self._connection_changed)
        promise = self._ask()
        promise.rawlink(self._answered)
        return promise

    def end(self) -> None:
        self._going_on = False
        self._client.remove_listener(self._connection_changed)

    def _ask(self) -> Any:
        return self._client.get_async(self._path, watch=self._changed)  # which the server calls once

    def _connection_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:  # the server may have forgotten the watch
            self._changed()

    def _changed(self, _event: Any = None) -> None:
        if self._going_on:
            self._ask().rawlink(self._answered)

    def _answered(self, promise: Any) -> None:
        if self._going_on and promise.successful():
            self._heard(promise.value[0].decode("utf-8", "replace"))
        elif self._going_on and isinstance(promise.exception, NoNodeError):
            self._client.exists_async(self._path, watch=self._changed)
