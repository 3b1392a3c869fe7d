"""Looks into job stores from outside, and acts on what is in them, without taking part.

An observer fires nothing, has no lease and is counted among no processes. It needs neither the code of the jobs nor
the scheduler that fires them: it imports nothing that a store names, and knows the processes by their reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from goscheduler.clock import Deadline
from goscheduler.errors import InvalidArgument, ReadOnly, shown
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.plugins import create_plugin
from goscheduler.schedulers._patience import Patience
from goscheduler.schedulers.base import BaseScheduler

#: Methods that change what is in a store.
CHANGING = (
    "add_job", "add_jobs", "add_request", "modify_job", "reschedule_job", "pause_job", "resume_job", "remove_job",
    "remove_all_jobs", "pause_jobs", "resume_jobs", "remove_jobs", "run_jobs", "stop_bulk", "run_now", "cancel_run",
    "redrive", "redrive_all", "discard_dead_letter", "ask_process", "sync", "import_jobs", "skip_next", "postpone",
    "add_calendar", "remove_calendar", "backfill", "cancel_backfill",
    "add_blackout", "import_ics", "remove_blackout",
)  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


class Observer(BaseScheduler):
    """Has the methods of a scheduler that ask and change, on the stores of others; ``with`` opens and closes it.

    ``stores`` is the URL of a job store, a store, or several by alias. With ``read_only`` nothing can be changed. It
    waits ``start_timeout`` seconds for a store that does not answer.
    """

    def __init__(
        self, stores: str | BaseJobStore | Mapping[str, Any], *, read_only: bool = False, start_timeout: float = 10.0,
        **options: Any,
    ) -> None:  # fmt: skip
        self.read_only = read_only
        given = stores if isinstance(stores, Mapping) else {"default": stores}
        if not given:
            raise InvalidArgument("an observer needs at least one job store", field="stores")
        found = {alias: create_plugin("jobstore", alias, value) for alias, value in given.items()}
        for alias, store in found.items():
            if store.keeps_objects:
                raise InvalidArgument(
                    f"job store {shown(alias)} lives in the memory of its process: nobody can look into it from "
                    "outside",
                    field="stores",
                )
        super().__init__({}, jobstores=found, registered_only=True, start_timeout=start_timeout, **options)
        self.engine.observing = True

    def start(self, paused: bool = True, *, only_adds: bool = False) -> None:
        """Open the stores. ``only_adds`` makes no difference: an observer fires nothing anyway.

        :raises StoreUnavailable: if one could not be reached within ``start_timeout``
        """
        super().start(paused=True)

    def __enter__(self) -> Observer:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    def wakeup(self) -> None:
        """Do nothing: there is no loop."""

    def resume(self) -> None:
        """Refuse: an observer never fires."""
        raise ReadOnly("An observer fires nothing; start a scheduler for that")

    def _start_parts(self, patience: Patience) -> None:
        self.engine.begin_life()
        self._components.start(patience)
        self.engine.jobs.begin(patience)

    def _stop_parts(self, wait: bool, deadline: Deadline) -> None:
        self.engine.jobs.end()
        self._components.stop_stores()


def _guarded(method: F) -> F:
    @wraps(method)
    def call(self: Observer, *args: Any, **kwargs: Any) -> Any:
        if self.read_only:
            raise ReadOnly(f"{method.__name__}() would change something, and this observer is read-only")
        return method(self, *args, **kwargs)

    return cast("F", call)


for _name in CHANGING:
    setattr(Observer, _name, _guarded(getattr(BaseScheduler, _name)))
