"""A scheduler that is the program: ``start()`` returns when it is shut down."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from goscheduler.schedulers.base import STATE_STOPPED, BaseScheduler

__all__ = ["BaseScheduler", "BlockingScheduler"]


class BlockingScheduler(BaseScheduler):
    """Fires on the thread that calls ``start()``, which blocks until ``shutdown()`` is complete.

    An exception that a signal raises in there, such as KeyboardInterrupt, comes out of ``start()``; nothing fires after
    that, and ``shutdown()`` does the rest.
    """

    def __init__(self, gconfig: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._new_loop()
        super().__init__(gconfig, **options)

    def start(self, paused: bool = False) -> None:
        if not self.running:
            self._new_loop()
        super().start(paused)

    def wakeup(self) -> None:
        self._wake.set()

    def _new_loop(self) -> None:
        self._wake = threading.Event()
        self._loop_begun = False
        self._loop_ended = threading.Event()
        self._loop_thread: threading.Thread | None = None

    def _begin_loop(self) -> None:
        if self._claim_loop():
            self._main_loop()
        self._stopped.wait()

    def _claim_loop(self) -> bool:
        """Say that the loop begins, unless the scheduler has been shut down before it could."""
        with self._lock:
            self._loop_begun = self.state != STATE_STOPPED
            return self._loop_begun

    def _main_loop(self) -> None:
        self._loop_thread = threading.current_thread()
        try:
            while self.state != STATE_STOPPED:
                wait = self._process_jobs()
                self._wake.wait(wait)
                self._wake.clear()
        finally:
            self._loop_ended.set()

    def _end_loop(self, timeout: float | None) -> None:
        self._wake.set()
        with self._lock:
            begun = self._loop_begun
        if begun and not self._loop_ended.wait(timeout):
            self._logger.warning("A round of the scheduler did not end in %s seconds; it is left behind", timeout)

    def _is_called_from_inside(self) -> bool:
        """Count the loop as inside: a signal can call ``shutdown()`` in the middle of a round."""
        in_loop = self._loop_thread is threading.current_thread() and not self._loop_ended.is_set()
        return in_loop or super()._is_called_from_inside()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._new_loop()
