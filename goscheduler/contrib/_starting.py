"""Starts schedulers as the place asks for, and those that wait for the workers of a server to be forked."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from goscheduler._program import PROGRAM
from goscheduler.contrib._roles import Place, count_workers, decide, problem_with_workers
from goscheduler.logs import guarded_logger
from goscheduler.schedulers.base import BaseScheduler

_SERVERS = ("gunicorn", "uvicorn", "hypercorn", "granian")

_logger = guarded_logger("goscheduler.contrib")
_registered: WeakKeyDictionary[BaseScheduler, str] = WeakKeyDictionary()


def start(
    scheduler: BaseScheduler, role: str, command: str | None = None, *, reloads: bool = False, paused: bool = False
) -> str:
    """Start a scheduler as far as this process is to have it, and return the role that it plays.

    ``command`` is the command of Flask or Django that goes on; ``reloads`` tells whether it has a reloader.

    :raises InvalidArgument: for a role that is none
    """
    place = look_around(command, reloads)
    shared = is_shared(scheduler)
    decision = decide(role, place, shared)
    if decision.reason:
        level = logging.WARNING if decision.problem else logging.INFO
        started = "runs no jobs" if decision.role == "add" else "is not started"
        _logger.log(level, "The scheduler %s: %s", started, decision.reason)
    if role != "off":
        register(scheduler, role)
    begin(scheduler, decision.role, place, paused)
    return decision.role


def begin(scheduler: BaseScheduler, role: str, place: Place, paused: bool = False) -> None:
    """Start a scheduler in a role, unless it runs."""
    if role == "off" or scheduler.running:
        return
    if role == "add":
        scheduler.start(only_adds=True)
        if scheduler.engine.late_stores is not None:
            scheduler.engine.late_stores.leave_waiting()  # declarations, which the processes make that serve
        return
    problem = problem_with_workers(place, is_shared(scheduler))
    if problem:
        _logger.warning("%s", problem)
    scheduler.start(paused)


def register(scheduler: BaseScheduler, role: str) -> None:
    """Have the hooks of a server start a scheduler in each of its workers."""
    _registered[scheduler] = role


def registered() -> list[tuple[BaseScheduler, str]]:
    """Return the schedulers that are to be started in each worker, with their roles."""
    return list(_registered.items())


def is_shared(scheduler: BaseScheduler) -> bool:
    """Tell whether other processes see all job stores of a scheduler."""
    stores = scheduler.engine.known_stores
    return bool(stores) and all(store.shared for store in stores.values())


def look_around(command: str | None = None, reloads: bool = False) -> Place:
    """Return what is seen of this process."""
    arbiter = _gunicorn_arbiter()
    forks = "gunicorn" if arbiter is not None and not _is_in_worker() else "uwsgi" if _is_uwsgi_master() else ""
    return Place(
        command, reloads and not is_reloaded(), forks, "goscheduler.contrib.gunicorn" in sys.modules,
        arbiter.cfg.workers if arbiter is not None else _workers(), PROGRAM.is_target,
    )  # fmt: skip


def is_reloaded() -> bool:
    """Tell whether a reloader of Flask or Django has started this process to serve."""
    return "true" in (os.environ.get("WERKZEUG_RUN_MAIN"), os.environ.get("RUN_MAIN"))


def _workers() -> int:
    uwsgi: Any = sys.modules.get("uwsgi")
    if uwsgi is not None:
        return int(getattr(uwsgi, "numproc", 1))
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    server = program.removesuffix(".py") in _SERVERS or any(f"/{name}/__main__.py" in sys.argv[0] for name in _SERVERS)
    return count_workers(sys.argv if server else (), os.environ)


def _is_uwsgi_master() -> bool:
    uwsgi: Any = sys.modules.get("uwsgi")
    return uwsgi is not None and hasattr(uwsgi, "worker_id") and uwsgi.worker_id() == 0


def _gunicorn_arbiter() -> Any:
    """Return the process of gunicorn that is loading the application, or has forked the worker that does."""
    if not os.environ.get("SERVER_SOFTWARE", "").startswith("gunicorn"):
        return None
    return next((frame.f_locals.get("self") for frame in _frames_of_gunicorn()), None)


def _is_in_worker() -> bool:
    return any(frame.f_code.co_name == "spawn_worker" for frame in _frames_of_gunicorn())


def _frames_of_gunicorn() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "gunicorn.arbiter" and hasattr(frame.f_locals.get("self"), "cfg"):
            yield frame
        frame = frame.f_back
