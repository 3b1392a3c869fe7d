"""Hears from other processes that something has changed: a thread with a connection of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.jobstores.redis.rows import as_text
from goscheduler.jobstores.redis.scripts import Link

#: Seconds between two signs of life that are asked for, after which a silent connection is dead, and before another.
ASK_AFTER = 5.0
DEAD_AFTER = 12.0
TRY_AGAIN_AFTER = 1.0


class Listener:
    """Calls ``wake`` when another process says that there is something to look at."""

    def __init__(self, link: Link, wake: Callable[[], None], logger: logging.Logger) -> None:
        self._link = link
        self._wake = wake
        self._logger = logger
        self._stopping = threading.Event()
        self._subscription: Any = None
        self.hears = False
        """Whether others are heard at the moment; else the store has to be asked."""
        self._thread = threading.Thread(target=self._run, name="goscheduler-redis-listener", daemon=True)

    def start(self) -> None:
        """Listen from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no more."""
        self._stopping.set()
        connection = getattr(self._subscription, "connection", None)
        if connection is not None:
            connection.disconnect()  # what the thread waits for ends with this
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except (redis.RedisError, OSError, ValueError, AttributeError) as error:
                # The last two: the connection was closed under it by stop().
                if self._stopping.is_set():
                    return
                log = self._logger.warning if self.hears else self._logger.debug
                log("Other processes are not heard for now, Redis is asked instead: %s", error)
            self.hears = False
            self._stopping.wait(TRY_AGAIN_AFTER)

    def _listen(self) -> None:
        self._subscription = self._link.client.pubsub()
        with self._subscription as subscription:
            subscription.subscribe(self._link.channel)
            last_heard = last_asked = SYSTEM_CLOCK.monotonic()
            while not self._stopping.is_set():
                message = subscription.get_message(timeout=1.0)
                now = SYSTEM_CLOCK.monotonic()
                if message is not None:
                    last_heard = now
                    self._take(message)
                elif now - last_heard > DEAD_AFTER:
                    raise ConnectionError("the connection is silent")
                elif now - last_asked > ASK_AFTER:
                    last_asked = now
                    subscription.ping()

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self.hears = True
            self._wake()  # for what was said while nobody listened
        elif message["type"] == "message" and as_text(message["data"]) != self._link.sender:
            with suppress(RuntimeError):  # an event loop that has just ended
                self._wake()
