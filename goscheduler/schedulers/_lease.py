"""Leases: the right of a scheduler to own runs in a shared store.

An owner, one start of a scheduler, tells each shared store every quarter of a lease that it lives, on a thread for each
store that does nothing else, so that neither a busy job nor another store that hangs is in the way. Who has not been
heard of for a lease is given up by the others, who settle its runs by what their jobs say about crashes. So an owner
that cannot renew has to stop in time by itself:

=====================================  ============================================================================
what happens                           what the scheduler does
=====================================  ============================================================================
a renewal fails                        says that it is degraded; goes on trying, more often
no renewal for half a lease            claims and fires nothing from that store
no renewal for three quarters of it    gives its runs up, also while a renewal hangs: they are told to end, and what was
                                       not started goes back
the store says that we were given up   the same
a renewal works again                  goes on at once, as somebody new if the runs were given up
=====================================  ============================================================================
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from goscheduler.errors import described, survivable
from goscheduler.events import EventCode
from goscheduler.runs.model import OutcomeKind, Owner, Run
from goscheduler.schedulers._report import carry_out_request, report_of
from goscheduler.schedulers._statistics import write_statistics

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine
    from goscheduler.schedulers._patience import Patience

#: Shares of a lease.
RENEW_AFTER = 1 / 4
CLAIM_WITHIN = 1 / 2
GIVE_UP_AFTER = 3 / 4
#: Seconds after which a renewal is tried again that failed: the one that works ends the outage.
TRY_AGAIN_AFTER = 3.0

NOT_RENEWED = "its lease could not be renewed"


class Lease:
    """Who this scheduler is to one shared store."""

    def __init__(self, owner: str, since: float) -> None:
        self.owner = owner
        self.since = since
        """When the last renewal that worked was begun, or else when the lease was first wanted (monotonic)."""
        self.tried = since
        """When the last renewal was begun, whatever came of it (monotonic)."""
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
        self._lock = threading.Lock()
        self._stopping: dict[str, threading.Event] = {}
        """Alias of a store → what ends the thread that renews its lease."""

    def begin(self) -> None:
        """Reset all leases when the scheduler starts."""
        self._leases, self._lost = {}, set()
        self._lock, self._stopping = threading.Lock(), {}
        self._started_at = self._engine.clock.now()

    def start(self, patience: Patience) -> None:
        """Take the leases of the shared stores that are new, and renew each on a thread of its own from now on."""
        for alias, store in self._engine.stores.items():
            if store.shared and alias not in self._stopping:
                stopping = self._stopping[alias] = threading.Event()
                try:
                    patience.reach(alias, store, partial(self._renew, alias, store, first=True))
                except BaseException:
                    del self._stopping[alias]
                    raise
                threading.Thread(
                    target=self._keep_renewing, args=(alias, store, stopping), name="goscheduler-lease", daemon=True
                ).start()

    def stop(self, untold: Collection[str] = ()) -> None:
        """Renew no more, and leave each store in good order, unless runs of ours still go on.

        ``untold`` names the stores that have not learnt how some of our runs ended. What becomes of these runs is left
        to the end of the lease: they are not to be run again as if they had never begun.
        """
        write_statistics(self._engine, everything=True, without=untold)
        for alias, store in self._engine.stores.items():
            self.leave(alias, store, retire=alias not in untold)

    def leave(self, alias: str, store: BaseJobStore, retire: bool = True) -> None:
        """Be nobody to a store any more; what was claimed from it and not started is not started here."""
        stopping = self._stopping.pop(alias, None)
        if stopping is not None:
            stopping.set()
        lease = self._leases.pop(alias, None)
        if lease is None:
            return
        self._lost.add(lease.owner)
        if retire and not any(run.owner == lease.owner for run in self._engine.running.running()):
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
        """Tell whether a run is not ours any more, or may not be: who stood still has not noticed it yet."""
        if self._lost and run.owner in self._lost:
            return True
        lease = self._leases.get(run.job._jobstore_alias or "")
        return lease is not None and lease.owner == run.owner and self._age(lease) >= GIVE_UP_AFTER * self.length

    def is_ours(self, owner: str | None) -> bool:
        """Tell whether an owner is us, now or before."""
        return owner is not None and (
            owner == self._engine.owner
            or owner in self._lost
            or any(owner == lease.owner for lease in list(self._leases.values()))
        )

    def seconds_until_due(self) -> float:
        """Return when the next renewal is due."""
        due = [lease.tried + self._pause(alias) for alias, lease in list(self._leases.items())]
        return max(0.0, min(due) - self._engine.clock.monotonic()) if due else math.inf

    def seconds_left(self) -> dict[str, float]:
        """Return alias of a shared store → for how many seconds its lease lasts if it is not renewed."""
        return {alias: max(0.0, self.length - self._age(lease)) for alias, lease in list(self._leases.items())}

    def look(self) -> float:
        """Give up what is too old, a renewal may be hanging; return the seconds until that could be the next time."""
        wait = math.inf
        for alias, lease in list(self._leases.items()):
            left = GIVE_UP_AFTER * self.length - self._age(lease)
            if not lease.held or alias not in self._engine.stores:
                continue
            if left <= 0:
                self._lose(alias, lease, NOT_RENEWED)
            wait = min(wait, max(0.0, left))
        return wait

    def renew_all(self) -> None:
        """Renew the lease of every shared store."""
        for alias, store in self._engine.stores.items():
            if store.shared:
                self._renew(alias, store)

    def _keep_renewing(self, alias: str, store: BaseJobStore, stopping: threading.Event) -> None:
        while not stopping.wait(self._pause(alias)):
            try:
                self._renew(alias, store)
                self._carry_out_request(alias, store)
            except BaseException:
                self._engine.logger.exception('The renewal of the lease in job store "%s" failed', alias)

    def _carry_out_request(self, alias: str, store: BaseJobStore) -> None:
        """Do what another process has asked for, and tell at once that it is done."""
        lease = self._leases.get(alias)
        if lease is None or lease.failing:
            return
        try:
            asked = carry_out_request(self._engine, alias, store, lease.owner)
        except BaseException as error:
            if not survivable(error):
                raise
            self._engine.logger.debug('Job store "%s" could not say what others ask: %s', alias, described(error))
            return
        if asked and self._leases.get(alias) is lease:
            self._renew(alias, store)

    def _pause(self, alias: str) -> float:
        """Return the seconds between two renewals."""
        lease, pause = self._leases.get(alias), RENEW_AFTER * self.length
        return min(pause, TRY_AGAIN_AFTER) if lease is not None and lease.failing else pause

    def _renew(self, alias: str, store: BaseJobStore, first: bool = False) -> None:
        if not self._try_to_renew(alias, store, first):
            self._try_to_renew(alias, store, first)  # as somebody new

    def _try_to_renew(self, alias: str, store: BaseJobStore, first: bool) -> bool:
        """Renew if the store answers; false if it says that we were given up.

        The first time, a store that cannot be reached raises: the start waits for it.
        """
        now = self._engine.clock.monotonic()
        lease = self._leases.setdefault(alias, Lease(uuid4().hex, now))
        lease.tried = now
        try:
            account, length = self._account_of(alias, lease), timedelta(seconds=self.length)
            alive = self._engine.statistics.timed(
                alias, store.renew_owner, account, self._engine.clock.now(), length
            )
        except BaseException as error:
            if not survivable(error):
                raise
            if first and store.is_outage(error):
                del self._leases[alias]  # somebody new the next time: this one may be known, and lapse meanwhile
                raise
            self._could_not(alias, lease, error)
            return True
        if not alive:
            self._lose(alias, lease, "its lease had lapsed and it was given to somebody else")
            return False
        if self._leases.get(alias) is lease:  # else it came too late: we are somebody else by now
            self._renewed(alias, lease, now)
        return True

    def _renewed(self, alias: str, lease: Lease, since: float) -> None:
        goes_on, lease.since, lease.held = not lease.held or lease.failing, since, True
        if lease.failing:
            lease.failing = False
            self._engine.logger.info('The lease in job store "%s" is renewed again', alias)
            self._engine.emit_scheduler_event(EventCode.SCHEDULER_RECOVERED, alias)
            self._engine.outages.may_be_over(alias, self._engine.clock.monotonic())
        if goes_on:
            self._engine.wake()

    def _could_not(self, alias: str, lease: Lease, error: BaseException) -> None:
        self._engine.statistics.count_store_error(alias)
        self._engine.logger.warning(
            'The lease in job store "%s" could not be renewed: %s', alias, described(error),
            exc_info=None if lease.failing else error,
        )
        if not lease.failing:
            lease.failing = True
            self._engine.emit_scheduler_event(EventCode.SCHEDULER_DEGRADED, alias)
        if lease.held and self._age(lease) >= GIVE_UP_AFTER * self.length:
            self._lose(alias, lease, NOT_RENEWED)

    def _lose(self, alias: str, lease: Lease, reason: str) -> None:
        """Give up the lease in a store, and go on there as a new owner."""
        with self._lock:
            if self._leases.get(alias) is not lease:
                return  # lost already, or left
            self._lost.add(lease.owner)
            replacement = self._leases[alias] = Lease(uuid4().hex, self._engine.clock.monotonic())
            replacement.failing = lease.failing
        self._engine.logger.error('Lease lost in job store "%s"; the runs claimed from it are given up', alias)
        for run in self._engine.running.running():
            if run.owner == lease.owner:
                self._engine.running.end(run, OutcomeKind.LOST, reason)
        self._engine.wake()  # the loop watches that they end

    def _retire(self, alias: str, store: BaseJobStore, owner: str) -> None:
        try:
            store.retire_owner(owner)
        except BaseException as error:
            if not survivable(error):
                raise
            self._engine.logger.warning(
                'Job store "%s" does not answer; other processes take over our runs when the lease ends', alias
            )

    def _account_of(self, alias: str, lease: Lease) -> Owner:
        engine = self._engine
        return Owner(
            lease.owner, engine.host, os.getpid(), self._started_at, tuple(engine.executors), engine.tasks.names(),
            report_of(engine, alias, lease.owner),
        )  # fmt: skip

    def _age(self, lease: Lease) -> float:
        return self._engine.clock.monotonic() - lease.since
