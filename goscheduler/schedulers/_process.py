"""Handles schedulers when the process forks or ends."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from goscheduler.schedulers._lifecycle import SchedulerLifecycle

_schedulers: WeakSet[SchedulerLifecycle] = WeakSet()


def remember(scheduler: SchedulerLifecycle) -> None:
    """Look after a scheduler until it is garbage."""
    _schedulers.add(scheduler)


def refuse_uwsgi_without_threads() -> None:
    """Raise if this is uWSGI with threads switched off: nothing would ever run."""
    uwsgi = sys.modules.get("uwsgi")
    if uwsgi is not None and not getattr(uwsgi, "has_threads", True):
        raise RuntimeError(
            "The scheduler seems to be running under uWSGI, but threads have been disabled. You must run uWSGI with "
            "the --enable-threads option for the scheduler to work."
        )


def _stop_in_forked_child() -> None:
    for scheduler in list(_schedulers):
        scheduler._after_fork()


def _shut_down_at_exit() -> None:
    """Let running jobs end, as a thread pool does when the interpreter ends."""
    for scheduler in list(_schedulers):
        if scheduler.running:
            scheduler.shutdown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stop_in_forked_child)
atexit.register(_shut_down_at_exit)
