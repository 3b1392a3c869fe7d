"""What a scheduler asks of a store, and what a store answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Attempt, Run, Settlement
    from goscheduler.runs.plan import ConcurrencyState, FiringPlan, Refusal


class FireRequest(NamedTuple):
    """What a scheduler asks of ``fire_due`` and ``claim_runs``."""

    now: datetime
    """The scheduler's idea of the present; a store with a clock of its own goes by that one."""
    owner: str
    room: Mapping[str, int]
    """Executor alias → how many runs it can take. Jobs of an executor without room are left alone. So are, in a shared
    store, those of an executor that is not named here: another process may have it. Who cannot serve all of them
    serves those that are named first."""
    plan: Callable[[Job, ConcurrencyState, datetime], FiringPlan]
    """``plan(job, concurrency, now)`` says what to write for a due job; ``now`` by the store's clock."""
    admit: Callable[[Run, ConcurrencyState, datetime], Refusal | None]
    """``admit(run, concurrency, now)`` says what a pending run has to wait for, or None if it may start."""
    tasks: Sequence[str] = ()
    """Names of the tasks that are known here. In a shared store, jobs of other tasks are left to other processes."""

    def after(self, runs: Sequence[Run]) -> FireRequest:
        """Return it with the room that is left when ``runs`` have been handed over."""
        taken = Counter([run.job.executor for run in runs])
        return self._replace(room={alias: free - taken[alias] for alias, free in self.room.items()})


class Suspended(NamedTuple):
    """A job that could not be run, and why."""

    job: Job
    reason: str


class Fired(NamedTuple):
    """What ``fire_due`` has written."""

    runs: Sequence[Run] = ()
    """Ours now; to be handed to their executors."""
    records: Sequence[Attempt] = ()
    """Fire times that were not run, as they stand in the history."""
    finished: Sequence[Job] = ()
    """Jobs without a next fire time that are gone from the store."""
    suspended: Sequence[Suspended] = ()
    next_due: datetime | None = None
    """When to come back; None if nothing is scheduled. Jobs that wait for room do not count."""
    more: bool = False
    """Whether due jobs were left because an executor has no room."""
    error: Exception | None = None
    """What stopped the store halfway. What was written until then is in the other fields."""
    now: datetime | None = None
    """The present moment, where the store goes by a clock of its own: what ``next_due`` is to be compared with."""


class Claimed(NamedTuple):
    """What ``claim_runs`` has written."""

    runs: Sequence[Run] = ()
    next_due: datetime | None = None
    """When the next pending run comes due."""
    more: bool = False
    """Whether due runs were left because an executor has no room or they have to wait for others to end."""
    to_cancel: Sequence[tuple[Run, str]] = ()
    """Live runs of this owner that are to be ended, and why; the same ones each time until they have ended."""
    error: Exception | None = None
    """What stopped the store halfway. What was claimed until then is in ``runs``."""


class PartlySettled(Exception):
    """``settle`` has written some ends. The rest waits for other processes, which hold rows that it needs."""

    def __init__(self, refused: Sequence[Settlement], left: Sequence[Settlement]) -> None:
        super().__init__(f"other processes hold the rows of {len(left)} runs")
        self.refused = refused
        """The ends that ``settle`` would have returned: their runs have been handed out again."""
        self.left = left
        """The ends that were not written, and that the caller writes again in a moment."""


class Requeued(NamedTuple):
    """What ``requeue_orphans`` has written."""

    ids: Sequence[str] = ()
    """Of the jobs and runs that nobody would have found any more."""
    more: bool = False
    """Whether there are jobs or runs that were not looked at; the next call goes on with them."""
