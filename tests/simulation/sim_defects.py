"""Deliberate defects of engine and store, each of which a simulation has to find: they show that the checks bite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from goscheduler.jobstores._local.runs import LocalRuns
from goscheduler.runs import transitions
from goscheduler.runs.limits import Ledger
from goscheduler.schedulers._lease import Leases
from goscheduler.schedulers._reconciliation import Reconciler
from goscheduler.schedulers._removal import Removal
from goscheduler.schedulers._settle import Settler


def _no_fence(settle: Any) -> Any:
    def mutant(self: Any, settlements: Any) -> Any:
        current = [self._live.get(settlement.attempt.run.id) for settlement in settlements]
        shown = [
            settlement if live is None
            else settlement._replace(attempt=settlement.attempt._replace(
                run=settlement.attempt.run._replace(fence=live.fence)))
            for settlement, live in zip(settlements, current, strict=True)
        ]  # fmt: skip
        refused = set(map(id, settle(self, shown)))
        return [given for given, asked in zip(settlements, shown, strict=True) if id(asked) in refused]

    return mutant


def _no_renewal(renew_all: Any) -> Any:
    return lambda self: None


def _outcome_lost(write: Any) -> Any:
    def mutant(self: Any, alias: str, settlements: Any) -> None:
        write(self, alias, settlements)
        self._unwritten.pop(alias, None)

    return mutant


def _counted_twice(retried: Any) -> Any:
    def mutant(run: Any, due_at: Any) -> Any:
        return retried(run, due_at)._replace(attempt=run.attempt + 2)

    return mutant


def _lease_ignored(recover: Any) -> Any:
    return lambda self, now, decide: recover(self, now + timedelta(hours=1), decide)


def _never_in_doubt(mark_uncertain: Any) -> Any:
    return lambda self, alias: None


def _not_called_off(call_off: Any) -> Any:
    return lambda self, runs: None


def _lease_trusted(has_lost: Any) -> Any:
    return lambda self, run: False


def _instances_not_counted(standing: Any) -> Any:
    return lambda self, job_id: standing(self, job_id)._replace(live=0)


def _limit_leaks(give_back: Any) -> Any:
    return lambda self, limits: None


#: Name → where it is, and what becomes of it.
DEFECTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "no fence": (LocalRuns, "settle", _no_fence),
    "no renewal": (Leases, "renew_all", _no_renewal),
    "outcome lost in an outage": (Settler, "_write", _outcome_lost),
    "retry counted twice": (transitions, "retried", _counted_twice),
    "lease ignored": (LocalRuns, "recover", _lease_ignored),
    "lost answers not doubted": (Reconciler, "mark_uncertain", _never_in_doubt),
    "removed runs not called off": (Removal, "call_off", _not_called_off),
    "own lease trusted for ever": (Leases, "has_lost", _lease_trusted),
    "instances not counted": (LocalRuns, "concurrency", _instances_not_counted),
    "limit leaks": (Ledger, "give_back", _limit_leaks),
}


@contextmanager
def defect(name: str) -> Iterator[None]:
    """Have the package work wrongly meanwhile."""
    where, attribute, make = DEFECTS[name]
    original = getattr(where, attribute)
    setattr(where, attribute, make(original))
    try:
        yield
    finally:
        setattr(where, attribute, original)
