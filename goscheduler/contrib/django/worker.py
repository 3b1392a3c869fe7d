"""The process that runs the jobs of a Django project, and starts itself anew when code changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from django.utils import autoreload

from goscheduler.contrib.django import scheduler
from goscheduler.logs import guarded_logger
from goscheduler.schedulers.base import BaseScheduler

#: The exit code by which Django's own reloader knows that it has to start the program again.
AGAIN = 3

_logger = guarded_logger("goscheduler.django")


def project_scheduler() -> BaseScheduler:
    """Return the scheduler that runs the jobs of this project, not started yet."""
    return scheduler.for_worker()


def run_with_reloader(run: Callable[[], None]) -> None:
    """Run a worker, and run it anew in another process whenever code has changed.

    Its running jobs come to their end first. It has the main thread, because it hears signals.
    """
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) != "true":
        sys.exit(_watch_over_child())
    changed = threading.Event()
    threading.Thread(target=_watch_code, args=(changed,), name="goscheduler-reloader", daemon=True).start()
    run()
    if changed.is_set():
        sys.exit(AGAIN)


def _watch_over_child() -> int:
    """Start the worker in a child again and again, until it ends for another reason than changed code."""
    environment = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true"}
    while True:
        child = subprocess.Popen([*autoreload.get_child_arguments()], env=environment, close_fds=False)
        # Ctrl-C reaches the whole group; the child ends when its jobs have, and this process after it.
        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_, told=child: told.terminate()),
        }
        try:
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if code != AGAIN:
            return code


def _watch_code(changed: threading.Event) -> None:
    """Tell this process to end when a file of its code has changed."""
    try:
        autoreload.get_reloader().run(threading.main_thread())
    except SystemExit:  # how Django's reloader says that something has changed
        changed.set()
        _logger.info("Code has changed; letting running jobs end and starting the worker anew")
        os.kill(os.getpid(), signal.SIGTERM)
