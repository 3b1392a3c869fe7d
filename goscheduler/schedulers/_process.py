"""Handles schedulers when the process forks or ends."""

from __future__ import annotations

import atexit
import os
import queue
import sys
from queue import SimpleQueue  # as the rest of this package has it
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from goscheduler.schedulers._lifecycle import SchedulerLifecycle

_schedulers: WeakSet[SchedulerLifecycle] = WeakSet()


def remember(scheduler: SchedulerLifecycle) -> None:
    """Look after a scheduler until it is garbage."""
    _schedulers.add(scheduler)


def refuse_unfit_process() -> None:
    """Raise if nothing would ever run in this process, because of what others have made of it."""
    _refuse_uwsgi_without_threads()
    _refuse_late_patching()


def _refuse_uwsgi_without_threads() -> None:
    """Raise if this is uWSGI with threads switched off: nothing would ever run."""
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is not None and not getattr(uwsgi, "has_threads", True):
        raise RuntimeError(
            "The scheduler seems to be running under uWSGI, but threads have been disabled. You must run uWSGI with "
            "the --enable-threads option for the scheduler to work."
        )


def _refuse_late_patching() -> None:
    """Raise if gevent has patched the standard library after this package had taken its queues from there."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("queue") or SimpleQueue is queue.SimpleQueue:
        return
    raise RuntimeError(
        "gevent has patched the standard library after goscheduler was imported, and the scheduler would block the "
        "hub; call gevent.monkey.patch_all() at the very top of the program, before goscheduler is imported"
    )


def _stop_in_forked_child() -> None:
    for scheduler in list(_schedulers):
        scheduler._after_fork()


def _shut_down_at_exit() -> None:
    """Let running jobs end, as a thread pool does when the interpreter ends."""
    for scheduler in list(_schedulers):
        try:
            if scheduler.running:
                scheduler.shutdown()
        except Exception:  # the others are to be shut down all the same
            scheduler._logger.exception("The shutdown of a scheduler at the exit of the process failed")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stop_in_forked_child)
atexit.register(_shut_down_at_exit)
