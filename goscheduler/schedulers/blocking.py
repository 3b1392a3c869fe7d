"""A scheduler that is the program: ``start()`` returns when it is shut down."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from goscheduler.schedulers.base import STATE_STOPPED, BaseScheduler

__all__ = ["BaseScheduler", "BlockingScheduler"]


class _Loop:
    """The loop of one start of a scheduler."""

    def __init__(self) -> None:
        self.wake = threading.Event()
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None
        self.begun = False


class BlockingScheduler(BaseScheduler):
    """Fires on the thread that calls ``start()``, which blocks until ``shutdown()`` is complete.

    An exception that a signal raises in there, such as KeyboardInterrupt, comes out of ``start()``; nothing fires after
    that, and ``shutdown()`` does the rest.
    """

    def __init__(self, gconfig: Mapping[str, Any] | None = None, **options: Any) -> None:
        self._loop = _Loop()
        super().__init__(gconfig, **options)

    def start(self, paused: bool = False, *, only_adds: bool = False) -> None:
        try:
            super().start(paused, only_adds=only_adds)
        except KeyboardInterrupt as interrupt:
            # Where in the loop Ctrl-C was heard says nothing to the user, who pressed it.
            raise interrupt.with_traceback(None) from None

    def wakeup(self) -> None:
        self._loop.wake.set()

    def _prepare_loop(self) -> None:
        self._loop = _Loop()

    def _begin_loop(self) -> None:
        loop = self._claim_loop()
        if loop is not None:
            self._turn(loop)
        self.engine.stopped.wait()

    def _claim_loop(self) -> _Loop | None:
        """Return the loop for the caller to turn; None if the scheduler was shut down before, or another has it."""
        with self._lock:
            loop = self._loop
            if self.state == STATE_STOPPED or loop.begun:
                return None
            loop.begun = True
            return loop

    def _turn(self, loop: _Loop) -> None:
        loop.thread = threading.current_thread()
        try:
            while self.state != STATE_STOPPED and self._loop is loop:
                wait = self._process_jobs()
                loop.wake.wait(wait)
                loop.wake.clear()
        finally:
            loop.ended.set()

    def _end_loop(self, timeout: float | None) -> None:
        with self._lock:
            loop = self._loop
        loop.wake.set()
        if loop.begun and not loop.ended.wait(timeout):
            self._logger.warning("A round of the scheduler did not end in time; its thread is left behind")

    def _is_called_from_inside(self) -> bool:
        """Count the loop as inside: a signal can call ``shutdown()`` in the middle of a round."""
        in_loop = self._loop.thread is threading.current_thread() and not self._loop.ended.is_set()
        return in_loop or super()._is_called_from_inside()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._loop = _Loop()
