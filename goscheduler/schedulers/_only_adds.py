"""The stores of a process that adds jobs and asks for them, and leaves it to others to run them.

Nothing is opened at the start, so that a web server may fork afterwards. The first call that looks at ``engine.stores``
opens all of them, and adds what was waiting for that; a forked child does so for itself. What fails raises in that
call, and the next call tries again. Where no call comes, the shutdown adds what was waiting, also that at the exit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from goscheduler.errors import InvalidArgument, shown

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._components import Components
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._patience import Patience


class LateStores:
    """The stores of one scheduler that only adds, while they are closed and while they are open."""

    def __init__(self, engine: Engine, components: Components, new_patience: Callable[[], Patience]) -> None:
        self._engine = engine
        self._components = components
        self._new_patience = new_patience
        self._lock = threading.RLock()
        self._is_open = False
        """Whether anybody may use the stores; not before what was waiting is in them."""
        self._is_opening = False
        """Whether the thread that has the lock is about to add what was waiting, and uses them for that."""
        self._has_to_add = True
        """Whether the end adds what was waiting if nobody has; in a forked child that is left to the parent."""

    def begin(self, in_child: bool = False) -> None:
        """Have the stores opened by whoever asks for them next."""
        engine = self._engine
        self._lock = threading.RLock()  # in a forked child somebody may hold it who is not there
        self._is_open, self._is_opening, self._has_to_add = False, False, not in_child
        engine.begin_life()
        engine.observing, engine.late_stores = True, self
        engine.jobs.started = True

    def leave_waiting(self) -> None:
        """Have the end drop what nobody has asked for: a command that loads a program is not to write what it declares.
        """
        self._has_to_add = False

    def open(self) -> None:
        """Open the stores, unless they are open, and add all jobs to them that were waiting.

        :raises StoreUnavailable: if one cannot be reached; without ``start_timeout`` that is found out at once
        """
        if self._is_open:
            return
        with self._lock:
            if self._is_open or self._is_opening:  # another thread was quicker, or this one adds what was waiting
                return
            patience = self._new_patience()
            self._components.start_stores(self._engine.known_stores, patience)
            self._is_opening = True
            try:
                self._engine.jobs.begin(patience)
                self._engine.jobs.carry_out_deferred(patience)
                self._is_open = True
            except BaseException:
                self._components.stop_stores()
                raise
            finally:
                self._is_opening = False
            patience.tell_of_recovery()

    def end(self) -> None:
        """Add what still waits, close what is open, and be as before the start.

        :raises StoreUnavailable: if something waits and its store cannot be reached; it goes on waiting
        """
        try:
            if self._has_to_add and self._engine.jobs.has_waiting():
                self.open()
        finally:
            with self._lock:
                if self._is_open:
                    self._components.stop_stores()
                self._is_open = False
                self._engine.observing, self._engine.late_stores = False, None
                self._engine.jobs.end()


def refuse_to_add_in_vain(stores: Mapping[str, BaseJobStore]) -> None:
    """Raise if what this process adds could be run by no other."""
    if not stores:
        raise InvalidArgument(
            "start(only_adds=True) needs a job store that the processes share which run the jobs, and there is only "
            "the default, the memory of this process: give jobstores={'default': 'postgresql://…'} or the like",
            field="only_adds",
        )
    for alias, store in stores.items():
        if not store.shared:
            raise InvalidArgument(
                "start(only_adds=True) needs job stores that the processes share which run the jobs, and "
                f"{shown(alias)} is a {type(store).__name__}, for one process alone: its jobs would never run",
                field="only_adds",
                value=alias,
            )
