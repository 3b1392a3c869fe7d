"""Leases: what lets a scheduler have runs in a store that others share.

An owner, one start of a scheduler, tells each shared store every quarter of a lease that it lives, on a thread that
does nothing else. Who has not been heard of for a lease is given up by the others, who settle its runs by what their
jobs say about crashes. So an owner that cannot renew has to stop in time by itself:

=====================================  ============================================================================
what happens                           what the scheduler does
=====================================  ============================================================================
a renewal fails                        says that it is degraded; goes on trying
no renewal for half a lease            claims and fires nothing from that store
no renewal for three quarters of it    gives its runs up: they are told to end, and nothing that waits is started
the store says that we were given up   the same
a renewal works again                  goes on, as somebody new if the runs were given up
=====================================  ============================================================================
"""

from __future__ import annotations

import math
import os
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from goscheduler.errors import described, survivable
from goscheduler.events import EventCode
from goscheduler.runs.model import OutcomeKind, Owner, Run

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine

#: Shares of a lease.
RENEW_AFTER = 1 / 4
CLAIM_WITHIN = 1 / 2
GIVE_UP_AFTER = 3 / 4


class Lease:
    """Who this scheduler is to one shared store."""

    def __init__(self, owner: str, since: float) -> None:
        self.owner = owner
        self.since = since
        """When the last renewal that worked was begun, or else when the lease was first wanted (monotonic)."""
        self.held = False
        self.failing = False


class Leases:
    """The leases of one scheduler, by the alias of the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.length = math.inf
        """How long a lease is, in seconds."""
        self._leases: dict[str, Lease] = {}
        self._lost: set[str] = set()
        self._started_at: datetime | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Be nobody to any store, at the start of a scheduler."""
        self._leases, self._lost = {}, set()
        self._stopping, self._thread = threading.Event(), None
        self._started_at = self._engine.clock.now()

    def start(self) -> None:
        """Take the leases, and renew them on a thread of our own from now on, if there is a shared store."""
        self.renew_all()
        if self._thread is None and any(store.shared for store in self._engine.stores.values()):
            self._thread = threading.Thread(
                target=self._keep_renewing, args=(self._stopping,), name="goscheduler-lease", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Renew no more, and leave each store in good order unless runs of ours still go on."""
        self._stopping.set()
        busy = {run.owner for run in self._engine.endings.going_on()}
        for alias, lease in self._leases.items():
            store = self._engine.stores.get(alias)
            if store is not None and lease.owner not in busy:
                self._retire(alias, store, lease.owner)

    def owner_of(self, alias: str) -> str:
        """Return who we are to a store."""
        lease = self._leases.get(alias)
        return self._engine.owner if lease is None else lease.owner

    def may_claim(self, alias: str, store: BaseJobStore) -> bool:
        """Tell whether runs that we claim now could not be given to somebody else while we start them."""
        if not store.shared:
            return True
        lease = self._leases.get(alias)
        return lease is not None and lease.held and self._age(lease) < CLAIM_WITHIN * self.length

    def has_lost(self, run: Run) -> bool:
        """Tell whether a run is not ours any more."""
        return bool(self._lost) and run.owner in self._lost

    def is_ours(self, owner: str | None) -> bool:
        """Tell whether an owner is us, now or before."""
        return owner is not None and (
            owner == self._engine.owner
            or owner in self._lost
            or any(owner == lease.owner for lease in self._leases.values())
        )

    def seconds_until_due(self) -> float:
        """Return when the next renewal is due."""
        ages = [self._age(lease) for lease in self._leases.values()]
        return max(0.0, RENEW_AFTER * self.length - max(ages)) if ages else math.inf

    def renew_all(self) -> None:
        """Renew the lease of every shared store."""
        for alias, store in self._engine.stores.items():
            if store.shared:
                self._renew(alias, store)

    def _keep_renewing(self, stopping: threading.Event) -> None:
        while not stopping.wait(RENEW_AFTER * self.length):
            try:
                self.renew_all()
            except BaseException:
                self._engine.logger.exception("A round of renewals failed")

    def _renew(self, alias: str, store: BaseJobStore) -> None:
        now = self._engine.clock.monotonic()
        lease = self._leases.get(alias)
        if lease is None:
            lease = self._leases[alias] = Lease(uuid4().hex, now)
        try:
            alive = store.renew_owner(self._account_of(lease), self._engine.clock.now(), timedelta(seconds=self.length))
        except BaseException as error:
            if not survivable(error):
                raise
            self._could_not(alias, lease, error)
            return
        if not alive:
            self._lose(alias, lease, "its lease had lapsed and it was given to somebody else")
            return
        lease.since, lease.held = now, True
        if lease.failing:
            lease.failing = False
            self._engine.logger.info('The lease in job store "%s" is renewed again', alias)
            self._engine.tell_of_scheduler(EventCode.SCHEDULER_RECOVERED, alias)
            self._engine.wake()

    def _could_not(self, alias: str, lease: Lease, error: BaseException) -> None:
        self._engine.logger.warning(
            'The lease in job store "%s" could not be renewed: %s', alias, described(error),
            exc_info=None if lease.failing else error,
        )
        if not lease.failing:
            lease.failing = True
            self._engine.tell_of_scheduler(EventCode.SCHEDULER_DEGRADED, alias)
        if lease.held and self._age(lease) >= GIVE_UP_AFTER * self.length:
            self._lose(alias, lease, "its lease could not be renewed")

    def _lose(self, alias: str, lease: Lease, reason: str) -> None:
        """Stop being who we were to a store."""
        self._engine.logger.error('Lease lost in job store "%s": what was claimed from it is given up', alias)
        self._lost.add(lease.owner)
        replacement = Lease(uuid4().hex, self._engine.clock.monotonic())
        replacement.failing = lease.failing
        self._leases[alias] = replacement
        for run in self._engine.endings.going_on():
            if run.owner == lease.owner:
                self._engine.endings.end(run, OutcomeKind.LOST, reason)

    def _retire(self, alias: str, store: BaseJobStore, owner: str) -> None:
        try:
            store.retire_owner(owner)
        except BaseException as error:
            if not survivable(error):
                raise
            self._engine.logger.warning(
                'Job store "%s" does not answer: it learns from the end of the lease that we have gone', alias
            )

    def _account_of(self, lease: Lease) -> Owner:
        engine = self._engine
        return Owner(
            lease.owner, engine.host, os.getpid(), self._started_at, tuple(engine.executors), engine.tasks.names()
        )

    def _age(self, lease: Lease) -> float:
        return self._engine.clock.monotonic() - lease.since
