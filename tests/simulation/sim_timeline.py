"""What happened in a simulation, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim_world import World

    from goscheduler.runs.model import Attempt, Run

#: Calls that are told of only when something came of them.
_QUIET = frozenset({
    "fire_due", "claim_runs", "recover_runs", "requeue_orphans", "prune_history", "prune_finished_jobs", "owners",
    "count_due_beside", "suspensions", "renew_owner",
})  # fmt: skip


def timeline(world: World, quiet: bool = True) -> Iterator[str]:
    """Yield the lines; ``quiet`` leaves out the calls of the store that found nothing to do."""
    for moment, who, what, about in world.trace:
        text = about if isinstance(about, str) else _told(what, *about)
        if not (quiet and what in _QUIET and not text):
            yield f"{moment:8.3f}  {who:6} {what:16} {text}".rstrip()


def _told(name: str, args: tuple[Any, ...], answer: Any, error: Exception | None) -> str:
    """Return what a call of the store was about."""
    if error is not None:
        return type(error).__name__
    if name == "settle":
        refused = set(map(id, answer or ()))
        return ", ".join(_end(each.attempt) + " REFUSED" * (id(each) in refused) for each in args[0])
    if name == "recover_runs":
        return ", ".join(_end(settlement.attempt) for settlement in answer or ())
    if name in ("fire_due", "claim_runs"):
        parts = [f"{run.job.id} {_short(run)}" for run in getattr(answer, "runs", ())]
        parts += [f"{run.job.id} {_short(run)} is to end" for run, _ in getattr(answer, "to_cancel", ())]
        parts += [f"{each.run.job.id} {each.outcome.kind.value}" for each in getattr(answer, "records", ())]
        return ", ".join(parts)
    if name == "renew_owner":
        return "" if answer else f"{args[0].id[-4:]} was given up"
    if name == "add_run":
        return f"{args[0].job.id} {_short(args[0])}"
    if name in ("add_job", "update_job"):
        return str(args[0].id)
    return ", ".join(arg.strip()[-12:] for arg in args if isinstance(arg, str))


def _short(run: Run) -> str:
    owner, _, number = run.id.partition("-")
    return f"{owner.lstrip('0')}-{number}/{run.fence} try {run.attempt}"


def _end(attempt: Attempt) -> str:
    return f"{attempt.run.job.id} {_short(attempt.run)} {attempt.outcome.kind.value}"
