"""Executors and stores of a scheduler: how they are added, removed, started and shut down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from goscheduler.clock import Deadline
from goscheduler.events import EventCode
from goscheduler.executors.base import BaseExecutor, stop
from goscheduler.executors.enclosure import refuse_unnamed
from goscheduler.options import check_alias
from goscheduler.plugins import Kind, base_class, create_plugin
from goscheduler.schedulers._only_adds import refuse_to_add_in_vain

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._patience import Patience


class Components:
    """The executors and stores of one scheduler. They stand in the engine, by alias."""

    def __init__(self, engine: Engine, scheduler: Any) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._running = False
        self._lock = threading.Lock()
        self._being_added: set[tuple[str, str]] = set()

    def add_executor(self, alias: str, executor: BaseExecutor) -> None:
        """Add an executor, and start it if the scheduler runs."""
        with self._reserved("an executor", alias, self._engine.executors):
            refuse_unnamed(self._engine.arounds, {alias: executor})
            if self._running and not self._engine.observing:
                executor.start(self._scheduler, alias)
            self._engine.put_executor(alias, executor)
        self._engine.emit_scheduler_event(EventCode.EXECUTOR_ADDED, alias)

    def remove_executor(self, alias: str, shutdown: bool) -> None:
        """Take an executor out, and shut it down if wanted."""
        executor = self._engine.put_executor(alias, None)
        if executor is None:
            raise KeyError(f"No such executor: {alias}")
        if shutdown and self._running and not self._engine.observing:
            stop(executor)
        self._engine.emit_scheduler_event(EventCode.EXECUTOR_REMOVED, alias)

    def add_store(self, alias: str, store: BaseJobStore, patience: Patience) -> None:
        """Add a store, and start it if the scheduler runs; one whose server is down is waited for."""
        with self._reserved("a job store", alias, self._engine.stores):
            if self._engine.late_stores is not None:
                refuse_to_add_in_vain({alias: store})
            if self._running:
                self._start_store(alias, store, patience)
            self._engine.put_store(alias, store)
        self._engine.emit_scheduler_event(EventCode.JOBSTORE_ADDED, alias)

    def remove_store(self, alias: str, shutdown: bool) -> None:
        """Take a store out, and shut it down if wanted."""
        store = self._engine.put_store(alias, None)
        if store is None:
            raise KeyError(f"No such job store: {alias}")
        self._engine.leases.leave(alias, store)
        if shutdown and self._running:
            store.shutdown()
        self._engine.emit_scheduler_event(EventCode.JOBSTORE_REMOVED, alias)

    @contextmanager
    def _reserved(self, noun: str, alias: str, taken: Mapping[str, object]) -> Iterator[None]:
        """Keep an alias for the caller while it starts what is to have it; no lock is held meanwhile."""
        check_alias(alias)
        with self._lock:
            if alias in taken or (noun, alias) in self._being_added:
                raise ValueError(f'This scheduler already has {noun} by the alias of "{alias}"')
            self._being_added.add((noun, alias))
        try:
            yield
        finally:
            self._being_added.discard((noun, alias))

    def start(self, patience: Patience) -> None:
        """Start all of them. If one fails, those that were started are shut down, and the error is raised."""
        refuse_unnamed(self._engine.arounds, self._engine.executors)
        started: list[Callable[[], object]] = []
        try:
            for alias, executor in self._engine.executors.items():
                executor.start(self._scheduler, alias)
                started.append(executor.shutdown)
            self.start_stores(self._engine.stores, patience)
        except BaseException:
            self._undo(started)
            raise

    def start_stores(self, stores: Mapping[str, BaseJobStore], patience: Patience) -> None:
        """Start stores. If one fails, those that were started are shut down, and the error is raised."""
        started: list[Callable[[], object]] = []
        try:
            for alias, store in stores.items():
                self._start_store(alias, store, patience)
                started.append(store.shutdown)
        except BaseException:
            self._undo(started)
            raise
        self._running = True

    def _undo(self, started: Sequence[Callable[[], object]]) -> None:
        for undo in reversed(started):
            self._guard("what was started", undo)

    def _start_store(self, alias: str, store: BaseJobStore, patience: Patience) -> None:
        patience.reach(alias, store, partial(store.start, self._scheduler, alias))
        if self._engine.observing:
            return
        if not store.shared:
            store.forget_live_runs()
            if not store.keeps_objects:
                self._engine.logger.info('Job store "%s" is not shared: let only one scheduler at a time use it', alias)
            return
        try:
            patience.reach(alias, store, partial(store.subscribe, self._engine.wake))
        except BaseException:
            self._guard(f'job store "{alias}"', store.shutdown)
            raise

    def stop_executors(self, wait: bool, deadline: Deadline) -> None:
        """Shut the executors down, all of them before the deadline."""
        for alias, executor in self._engine.executors.items():
            self._guard(f'executor "{alias}"', partial(stop, executor, wait, deadline.left()))

    def stop_stores(self) -> None:
        """Shut the stores down."""
        self._running = False
        for alias, store in self._engine.stores.items():
            self._guard(f'job store "{alias}"', store.shutdown)

    def forget(self) -> None:
        """Be as before the start, without shutting anything down: a forked child has copies of no use."""
        self._running = False
        self._lock = threading.Lock()
        self._being_added = set()
        for store in self._engine.known_stores.values():
            if not store.shared:
                store.forget_live_runs()

    def _guard(self, what: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            self._engine.logger.exception("Error shutting down %s; shutting down the rest", what)


def component(kind: Kind, value: Any, options: Mapping[str, Any]) -> Any:
    """Return an executor or store that was given as an instance, or as a name with options."""
    if isinstance(value, str):
        return create_plugin(kind, value, {**options, "type": value})
    if not isinstance(value, base_class(kind)):
        noun = "an executor" if kind == "executor" else "a job store"
        raise TypeError(f"Expected {noun} instance or a string, got {type(value).__name__} instead")
    return value
