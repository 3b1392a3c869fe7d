"""A scheduler for Qt programs.

It fires on a thread of its own, and jobs run on threads, as in APScheduler 3. A job that touches widgets takes the
executor "qt", which runs it on the GUI thread; with ``event_dispatch="qt"`` listeners are called there too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

from goscheduler.events import SchedulerEvent
from goscheduler.executors.qt import GuiThread, QtExecutor
from goscheduler.schedulers.background import BackgroundScheduler
from goscheduler.schedulers.base import BaseScheduler

__all__ = ["BaseScheduler", "QtScheduler"]

#: How often somebody who waits for the GUI thread looks whether it still works, in seconds.
LOOK_SECONDS = 0.25


class QtScheduler(BackgroundScheduler):
    """Runs jobs on threads, and those with ``executor="qt"`` on the GUI thread of a Qt application."""

    _gui: GuiThread | None = None
    _listeners_on_gui = False

    def _configure(self, config: dict[str, Any]) -> None:
        on_gui = config.get("event_dispatch") == "qt"
        super()._configure({**config, "event_dispatch": "thread"} if on_gui else config)
        self._listeners_on_gui = on_gui

    def start(self, paused: bool = False, *, only_adds: bool = False) -> None:
        """Start.

        :raises RuntimeError: if an executor or ``event_dispatch`` is "qt" and there is no Qt application
        """
        if not self.running:
            self._gui = GuiThread() if self._listeners_on_gui or GuiThread.exists() else None
        super().start(paused, only_adds=only_adds)

    def ensure_default_executor(self) -> None:
        """Add the executors "default" and, where there is a Qt application, "qt", unless they were configured."""
        super().ensure_default_executor()
        if "qt" not in self.engine.executors and self._gui is not None:
            self._components.add_executor("qt", QtExecutor())

    def _process_jobs(self) -> float | None:
        """Do a round, which in APScheduler is one on the GUI thread: programs count on Ctrl-C being noticed by it."""
        if self._gui is not None:
            self._gui.let_signals_in()
        return super()._process_jobs()

    def _shut_down(self, finish: Callable[[], None]) -> None:
        gui = self._gui
        if gui is None or not gui.is_current() or self._is_called_from_inside():
            super()._shut_down(finish)
            return
        errors: list[BaseException] = []
        done = threading.Event()

        def shut_down() -> None:
            try:
                finish()
            except BaseException as error:
                errors.append(error)
            finally:
                gui.stop_waiting(done)

        threading.Thread(target=shut_down, name="goscheduler-shutdown").start()
        gui.serve_until(done)  # the last jobs and listeners have only this thread to run on
        if errors:
            raise errors[0]

    def _after_fork(self) -> None:
        super()._after_fork()
        self._gui = None  # the thread stayed with the parent

    def _dispatch_event(self, event: SchedulerEvent) -> None:
        """Call the listeners, on the GUI thread if that is wanted, and return when they have ended."""
        gui = self._gui
        if gui is None or not self._listeners_on_gui or gui.is_current():
            super()._dispatch_event(event)
            return
        delivered = threading.Event()
        gui.call(partial(copy_context().run, self._deliver, event, delivered))
        while not delivered.wait(LOOK_SECONDS) and gui.turns():
            pass

    def _deliver(self, event: SchedulerEvent, delivered: threading.Event) -> None:
        try:
            super()._dispatch_event(event)
        finally:
            delivered.set()
