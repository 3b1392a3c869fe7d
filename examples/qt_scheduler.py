"""A job in a thread fetches, a job on the GUI thread shows: only that thread may touch widgets."""

from __future__ import annotations

import threading

from PySide6.QtCore import QCoreApplication

from goscheduler import QtScheduler

application = QCoreApplication([])  # a QApplication in a program with windows
scheduler = QtScheduler()


def on_gui_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def fetch() -> None:
    print(f"Fetched on the GUI thread: {on_gui_thread()}")
    scheduler.add_job(show, args=[42], executor="qt")


def show(number: int) -> None:
    print(f"Shown on the GUI thread: {on_gui_thread()}, {number}")  # label.setText(str(number))
    application.quit()


scheduler.add_job(fetch)
scheduler.start()
application.exec()
scheduler.shutdown()
print(f"Running: {scheduler.running}")
