"""Finds out what a shared store did when its response was lost.

A firing that was written and not heard of leaves runs that are ours and that nobody starts; their lease is renewed for
ever. So the runs that we know of are noted, and when a store answers again after an error, the ones that it says we
have and that we do not know of go back to it. That is looked for twice: at once, and again when a lease has passed,
because what was on its way when the connection broke may arrive later than the question about it. The same happens when
another server answers, which may not have what was confirmed: a run may be live there whose end was lost. An end of a
run that was written and not heard of is refused when it is written again; the history tells whether that is so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goscheduler.executors.call import snoozed
from goscheduler.jobstores.types import PartlySettled
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import settle

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import Run, Settlement
    from goscheduler.schedulers._engine import Engine


class Reconciler:
    """Tracks the runs of one scheduler in shared stores, and asks a store for its view after a lost response."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, dict[str, int]] = {}
        """Alias of a store → id of a run that we have → its fence."""
        self._looks: dict[str, list[float]] = {}
        """Alias of a store → at which moments it is still to be looked for runs that we do not know of."""

    def track(self, alias: str, runs: Sequence[Run]) -> None:
        """Note runs that a store has handed to us."""
        self._known.setdefault(alias, {}).update((run.id, run.fence) for run in runs)

    def untrack(self, alias: str, settlements: Sequence[Settlement]) -> None:
        """Note that a store knows how runs have ended."""
        known = self._known.get(alias)
        if known:
            for settlement in settlements:
                run = settlement.attempt.run
                if known.get(run.id) == run.fence:
                    del known[run.id]

    def has_runs(self, alias: str) -> bool:
        """Tell whether a shared store has handed runs to us that have not ended."""
        return bool(self._known.get(alias))

    def mark_uncertain(self, alias: str) -> None:
        """Note that a store may have done something that we do not know of."""
        now = self._engine.clock.monotonic()
        self._looks[alias] = [now, now + self._engine.leases.length]

    def reconcile(self, alias: str, store: BaseJobStore) -> None:
        """Return the runs that the store says we own but that we never received."""
        looks = self._looks.get(alias)
        if not looks or looks[0] > self._engine.clock.monotonic():
            return
        known = dict(self._known.get(alias, ()))  # first, so that nothing which ends meanwhile is missed
        owner = self._engine.leases.owner_of(alias)
        unreceived = [run for run in store.live_runs() if run.owner == owner and known.get(run.id) != run.fence]
        now, outcome = self._engine.clock.now(), snoozed("the answer of the job store was lost")
        if unreceived:
            self._engine.logger.warning(
                'Job store "%s" reports %d runs of this scheduler whose claim response was lost; returning them',
                alias, len(unreceived),
            )  # fmt: skip
            try:
                store.settle([settle(run, outcome, now, host=self._engine.host) for run in unreceived])
            except PartlySettled:
                return  # the next round tries again
        del looks[0]


def ends_found(store: BaseJobStore, refused: Sequence[Settlement]) -> list[Settlement]:
    """Return those of the refused ends of runs that stand in the history: they were written before."""
    found = []
    for settlement in refused:
        run, finished_at = settlement.attempt.run, settlement.attempt.finished_at
        page = HistoryQuery(job_id=run.job.id, since=finished_at, limit=1000)
        if any((record.run_id, record.fence) == (run.id, run.fence) for record in store.history(page)):
            found.append(settlement)
    return found
