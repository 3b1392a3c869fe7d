"""Listens for changes by other processes, on a thread with its own connection."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.redis.rows import as_text
from goscheduler.jobstores.redis.scripts import ScriptClient

#: Seconds between two pings, until a silent connection counts as dead, and before the next connection.
PING_SECONDS = 5.0
SILENCE_SECONDS = 12.0
RECONNECT_SECONDS = 1.0


class Listener:
    """Calls ``wake`` when another process has published a change."""

    def __init__(self, scripts: ScriptClient, wake: Callable[[], None], logger: logging.Logger) -> None:
        self._scripts = scripts
        self._wake = wake
        self._logger = logger
        self._stopping = threading.Event()
        self._subscription: Any = None
        self.hears = False
        """Whether the subscription works; otherwise the scheduler polls the store."""
        self._thread = threading.Thread(target=self._run, name="goscheduler-redis-listener", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopping.set()
        connection = getattr(self._subscription, "connection", None)
        if connection is not None:
            connection.disconnect()  # ends the wait of the thread
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (redis.RedisError, OSError, ValueError, AttributeError) as error:
                # The last two errors: stop() has closed the connection.
                if self._stopping.is_set():
                    return
                log = self._logger.warning if self.hears else self._logger.debug
                log("Redis subscription lost; polling Redis until it is back: %s", error)
            self.hears = False
            self._stopping.wait(RECONNECT_SECONDS)

    def _listen(self) -> None:
        self._subscription = self._scripts.client.pubsub()
        with self._subscription as subscription:
            subscription.subscribe(self._scripts.channel)
            last_heard = last_asked = SYSTEM_CLOCK.monotonic()
            while not self._stopping.is_set():
                message = subscription.get_message(timeout=1.0)
                now = SYSTEM_CLOCK.monotonic()
                if message is not None:
                    last_heard = now
                    self._take(message)
                elif now - last_heard > SILENCE_SECONDS:
                    raise ConnectionError("the connection is silent")
                elif now - last_asked > PING_SECONDS:
                    last_asked = now
                    subscription.ping()

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self.hears = True
            self._wake()  # for changes that were published before the subscription
        elif message["type"] == "message" and as_text(message["data"]) != self._scripts.sender:
            with suppress(RuntimeError):  # the event loop has just ended
                self._wake()
