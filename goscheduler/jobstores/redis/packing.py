"""Many jobs, firings or ends at once, in the form in which the script is quickest with them.

New jobs are lists that the commands of Redis take as they are. Firings and ends are tables: cells of text with NUL
between them, which need neither quoting nor reading; ``lua/firing.lua`` and ``lua/settling.lua`` name their
columns. Only what is plain can be part of one, as nearly everything is; the rest goes as items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.jobstores._shared.records import STARTED, history_text, zone_text
from goscheduler.jobstores.redis.rows import JobHead, digits, dumps, life_text
from goscheduler.runs.model import NO_STATS, OutcomeKind, Settlement
from goscheduler.runs.records import record_of
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.plan import FiringPlan

_SUCCEEDED = OutcomeKind.SUCCEEDED


def new_jobs_text(jobs: Iterable[tuple[Job, JobHead, str]]) -> str:
    """Return jobs, with their heads and definitions, as the step that adds them takes them."""
    ids: list[str] = []
    heads: list[str] = []
    definitions: list[str] = []
    lives: list[str] = []
    suspended: list[str] = []
    finished: list[str] = []
    due: dict[str, list[str]] = {}
    for job, head, definition in jobs:
        ids.append(job.id)
        heads += job.id, head.text
        definitions += job.id, definition
        if job.stats is not NO_STATS:
            lives += job.id, life_text(job.stats)
        if head.due:
            due.setdefault(head.lane, []).extend((head.due, job.id))
        if head.suspended:
            suspended.append(job.id)
        if head.finished:
            finished += head.finished, job.id
    return dumps({
        "ids": ids, "heads": heads, "definitions": definitions, "lives": lives, "due": due, "suspended": suspended,
        "finished": finished,
    })  # fmt: skip


class Firings:
    """Plain firings of one owner: one run of the job starts, and nothing else happens."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, bool, str, int], _Group] = {}

    def add(self, based_on: str, head: JobHead, plan: FiringPlan, definition: str) -> None:
        """Add a firing; ``based_on`` is the head as it is stored."""
        (run,) = plan.start
        following, fence = plan.next_run_time, run.fence
        key = head.lane, following is not None, head.zone, fence
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group([], {})
        number = group.definitions.setdefault(definition, len(group.definitions) + 1)
        group.cells.extend((run.job.id, based_on, run.id, head.next_run, str(number)))
        if following is not None:
            time = str(to_micros(following))
            new = head._replace(due=time, next_run=time, zone=zone_text(following), fence=str(fence))
            group.cells.extend((new.text, time))

    def arguments(self) -> list[str]:
        """Return all of it as the script takes it."""
        groups = [
            {
                "lane": lane, "goes_on": goes_on, "zone": zone, "fence": str(fence),
                "definitions": list(group.definitions), "started": STARTED,
            }
            for (lane, goes_on, zone, fence), group in self._groups.items()
        ]  # fmt: skip
        return [dumps(groups), *(table(group.cells) for group in self._groups.values())]


class _Group(NamedTuple):
    """Firings that have their lane, their zone and their fence in common, and whether the job goes on."""

    cells: list[str]
    definitions: dict[str, int]
    """Each once, with its number."""


class Ends:
    """Plain ends of the runs of one owner: they have succeeded, and nothing follows."""

    def __init__(self) -> None:
        self._owner: str | None = None
        self._groups: dict[tuple[int, datetime], list[str]] = {}
        """Fence and end → the cells of runs that have both in common: those that were fired and have ended together."""
        self._fence = 0
        self._finished: datetime | None = None
        self._cells: list[str] = []
        """The group of the end that was added last."""

    def has_room_for(self, settlement: Settlement) -> bool:
        """Tell whether an end is plain, and of the owner that the others are of."""
        attempt, follow_up, dead = settlement
        run, outcome = attempt[:2]
        return (
            outcome.kind is _SUCCEEDED
            and follow_up is None
            and dead is None
            and outcome.started_at is not None
            and run.owner is not None
            and (run.owner == self._owner or self._owner is None)
            and not run.job.options.limits
            and "\0" not in run.job.id
        )

    def add(self, settlement: Settlement) -> None:
        """Add the end of a run."""
        attempt = settlement.attempt
        run, record = attempt.run, record_of(attempt)
        self._owner = run.owner
        finished = record.finished_at
        started = finished if record.started_at is None else record.started_at
        if run.fence != self._fence or finished is not self._finished:  # else as the one before
            self._fence, self._finished = run.fence, finished
            self._cells = self._groups.setdefault((run.fence, finished), [])
        self._cells.extend((run.id, run.job.id, str(to_micros(started)), history_text(record)))

    def arguments(self) -> list[str]:
        """Return all of it as the script takes it."""
        ends = [(str(fence), to_micros(finished)) for fence, finished in self._groups]
        groups = [{"fence": fence, "ended": str(ended), "digits": digits(ended)} for fence, ended in ends]
        return [self._owner or "", dumps(groups), *map(table, self._groups.values())]


def table(cells: Sequence[str]) -> str:
    """Return cells as the script takes the rows of a table."""
    return "\0".join([*cells, ""])
