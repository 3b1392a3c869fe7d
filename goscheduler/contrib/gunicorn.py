"""Hooks for ``gunicorn.conf.py``: they start schedulers in each worker, and shut them down when it ends.

::

    from goscheduler.contrib.gunicorn import post_worker_init, worker_exit

``post_worker_init`` comes after the fork and after gevent has patched the standard library, which ``post_fork`` does
not. With gunicorn's ``--preload`` the application is loaded in a process whose threads no worker has.

The configuration file is read before gevent patches, so this module imports nothing of the package before a hook is
called: what took a queue or a lock from the standard library too early would stop all greenlets when it waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goscheduler.schedulers.base import BaseScheduler

__all__ = ["post_worker_init", "start_in_workers", "worker_exit"]

#: So many seconds before gunicorn kills a worker, its scheduler waits no longer for running jobs.
RESERVE = 2.0


def start_in_workers(scheduler: BaseScheduler, role: str = "run") -> None:
    """Have :func:`post_worker_init` start a scheduler in each worker: to run jobs, or only to add them.

    Flask's and Django's schedulers do this by themselves.

    :raises InvalidArgument: if ``role`` is not "run", "add" or "off"
    """
    from goscheduler.contrib import _starting
    from goscheduler.contrib._roles import check_role

    _starting.register(scheduler, check_role(role))


def post_worker_init(worker: Any) -> None:
    """Start the schedulers that are to run in each worker, unless they run already."""
    from goscheduler.contrib import _starting
    from goscheduler.contrib._roles import Place

    place = Place(workers=worker.cfg.workers)
    for scheduler, role in _starting.registered():
        _starting.begin(scheduler, role, place)


def worker_exit(server: Any, worker: Any) -> None:
    """Shut down the schedulers of a worker that ends, and let running jobs end as long as gunicorn lets it live."""
    from goscheduler.contrib import _starting

    limits = [limit for limit in (worker.cfg.timeout, worker.cfg.graceful_timeout) if limit]
    patience = max(1.0, min(limits) - RESERVE) if limits else None
    for scheduler, _ in _starting.registered():
        if scheduler.running:
            scheduler.shutdown(timeout=patience)
