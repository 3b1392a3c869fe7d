"""An executor on the GUI thread of a Qt program, the only thread that may touch widgets.

What is called there is sent as a queued signal to an object that lives there, so it comes between other events of the
program. PySide6, PyQt6, PySide2 and PyQt5 do; a binding that the program has imported goes first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

from goscheduler.executors._foreign_loop import ForeignLoopExecutor, Handed
from goscheduler.executors._workers import LOOK_SECONDS
from goscheduler.executors.base import BaseExecutor, ExecutorHost, run_job
from goscheduler.executors.call import call

__all__ = ["BaseExecutor", "GuiThread", "QtExecutor", "run_job"]

BINDINGS = ("PySide6", "PyQt6", "PySide2", "PyQt5")


def _qtcore() -> Any:
    """Return the QtCore module of the binding in use."""
    for binding in sorted(BINDINGS, key=lambda name: f"{name}.QtCore" not in sys.modules):
        try:
            return import_module(f"{binding}.QtCore")
        except ImportError:
            continue
    raise ImportError(
        f'QtScheduler and QtExecutor need one of {", ".join(BINDINGS)}; install one with: pip install "goscheduler[qt]"'
    )


QtCore: Any = _qtcore()
_Signal = getattr(QtCore, "Signal", None) or QtCore.pyqtSignal


class _Receiver(QtCore.QObject):  # type: ignore[misc]
    """Lives on the GUI thread and calls what it is sent."""

    sent = _Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.quitting = False
        self.sent.connect(self.receive, QtCore.Qt.ConnectionType.QueuedConnection)

    def receive(self, callback: Callable[[], object]) -> None:
        self.quitting = False
        callback()

    def quit(self) -> None:
        self.quitting = True


class GuiThread:
    """Calls functions on the thread of the Qt application that there is now.

    :raises RuntimeError: if there is none yet
    """

    def __init__(self) -> None:
        application = QtCore.QCoreApplication.instance()
        if application is None:
            raise RuntimeError("there is no Qt application; make a QApplication before the scheduler is started")
        self._thread = application.thread()
        self._receiver = _Receiver()
        self._receiver.moveToThread(self._thread)
        application.aboutToQuit.connect(self._receiver.quit)
        self._sent = threading.Event()
        self._is_coming_by = False

    def call(self, callback: Callable[[], object]) -> None:
        """Have ``callback``, which must not raise, called there, after all that was sent before."""
        self._receiver.sent.emit(callback)
        self._sent.set()

    @staticmethod
    def exists() -> bool:
        """Tell whether there is a Qt application."""
        return QtCore.QCoreApplication.instance() is not None

    def turns(self) -> bool:
        """Tell whether what is sent will be called, as far as that can be told."""
        return self.exists() and not self._receiver.quitting

    def is_current(self) -> bool:
        return self.exists() and bool(QtCore.QThread.currentThread() == self._thread)

    def let_signals_in(self) -> None:
        """Have Python come by: what ``signal.signal`` has set is called by Python code only, and Qt runs none."""
        if not self._is_coming_by:
            self._is_coming_by = True
            self.call(self._came_by)

    def _came_by(self) -> None:
        self._is_coming_by = False

    def serve_until(self, done: threading.Event) -> None:
        """Call what is sent here, on the GUI thread, until ``done``; no other event of the program is looked at."""
        self._receiver.quitting = False
        while not done.is_set():
            self._sent.wait(LOOK_SECONDS)
            self._sent.clear()
            QtCore.QCoreApplication.sendPostedEvents(self._receiver)

    def stop_waiting(self, done: threading.Event) -> None:
        """Set ``done`` and have :meth:`serve_until` look at it."""
        done.set()
        self._sent.set()


class QtExecutor(ForeignLoopExecutor):
    """Runs jobs one after the other on the GUI thread, so they may touch widgets; nothing else happens there meanwhile.

    A run that is cancelled or out of time sees it in ``current_run().cancelled``; nothing can end it from outside. If
    it goes on it is given up, but the GUI thread is free again only when it ends.
    """

    loop_name = "the Qt application"

    def start(self, scheduler: ExecutorHost, alias: str) -> None:
        """Get ready.

        :raises RuntimeError: if there is no Qt application
        """
        self._gui: GuiThread = getattr(scheduler, "_gui", None) or GuiThread()
        super().start(scheduler, alias)

    def _call_on_loop(self, callback: Callable[..., object], *args: object) -> None:
        if not self._gui.exists():
            raise RuntimeError("the Qt application has ended")
        self._gui.call(lambda: callback(*args))

    def _why_not(self) -> str:
        return "" if self._gui.exists() else "the Qt application has ended"

    def _turns(self) -> bool:
        return self._gui.turns()

    def _is_on_loop(self) -> bool:
        return self._gui.is_current()

    def _launch(self, handed: Handed) -> None:
        refusal = self._refusal(handed)
        self._end(handed, refusal or call(handed.run, self._host.clock, None, self._arounds()))
