"""Many jobs, firings or ends at once, as lists that the commands of Redis take as they are.

The script reads nothing in them one by one, which is what makes it quick; ``_redis_firing.lua`` and
``_redis_settling.lua`` say what the lists are. Only what is plain can be part of one, as nearly everything is; the rest
goes as items.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from goscheduler.jobstores._records import history_text, zone_text
from goscheduler.jobstores._redis_rows import (
    JobHead,
    Rows,
    digits,
    dumps,
    lane_of,
    life_text,
    live_head,
    quoted,
)
from goscheduler.runs.model import NEWBORN, OutcomeKind, Settlement
from goscheduler.runs.records import record_of
from goscheduler.times import instant

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Run
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
        if job.life is not NEWBORN:
            lives += job.id, life_text(job.life)
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

    def __init__(self, rows: Rows, owner: str) -> None:
        self._rows = rows
        self._owner = owner
        self._groups: dict[tuple[str, bool], dict[str, Any]] = {}

    def add(self, based_on: str, head: JobHead, plan: FiringPlan, definition: str) -> None:
        """Add a firing; ``based_on`` is the head as it is stored."""
        (run,) = plan.start
        job_id, due, following = run.job.id, instant(run.due_at), plan.next_run_time
        group = self._groups.get((head.lane, following is None)) or self._new_group(head.lane, following is None)
        group["jobs"].append(job_id)
        group["based_on"].append(based_on)
        group["runs"].append(run.id)
        start, text, end = self._rows.records.run_text(run, definition, due).partition(quoted(definition))
        number = group["numbers"].setdefault(text, len(group["numbers"]) + 1)
        group["texts"] += start, number, end
        group["run_heads"] += run.id, live_head(job_id, head.lane, due, self._owner, run.fence)
        if following is not None:
            time = str(instant(following))
            new = head._replace(due=time, next_run=time, zone=zone_text(following.tzinfo), fence=str(run.fence))
            group["heads"] += job_id, new.text
            group["due"] += time, job_id

    def _new_group(self, lane: str, gone: bool) -> dict[str, Any]:
        lists = ("jobs", "based_on", "runs", "texts", "run_heads", "heads", "due")
        group = self._groups[lane, gone] = {"lane": lane, "numbers": {}, **{name: [] for name in lists}}
        return group

    @property
    def text(self) -> str:
        groups = self._groups.values()
        return dumps([{**group, "definitions": list(group["numbers"]), "numbers": None} for group in groups])


class Ends:
    """Plain ends of runs: they have succeeded, and nothing follows."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[str, Any]] = {}

    @staticmethod
    def has_room_for(settlement: Settlement) -> bool:
        """Tell whether an end is plain."""
        (run, outcome, *_), follow_up, dead = settlement
        return (
            outcome.kind is _SUCCEEDED
            and follow_up is None
            and dead is None
            and outcome.started_at is not None
            and run.owner is not None
            and not run.job.options.limits
        )

    def add(self, settlement: Settlement) -> None:
        """Add the end of a run."""
        attempt = settlement.attempt
        run, record = attempt.run, record_of(attempt)
        owner, job_id, finished = str(run.owner), run.job.id, instant(record.finished_at)
        ended, attempted = digits(finished), f"{run.id}\0{run.fence:020d}"
        place = f"{attempted}\0{ended}"
        ends = self._by_owner.get(owner) or self._new(owner)
        ends["runs"].append(run.id)
        ends["heads"].append(_head_of(run, owner))
        ends["jobs"].append(job_id)
        ends["started"].append(str(instant(record.started_at or record.finished_at)))
        ends["times"] += str(finished), place
        ends["records"] += place, history_text(record)
        ends["in_jobs"] += "0", f"{job_id}\0{ended}\0{attempted}"

    def _new(self, owner: str) -> dict[str, Any]:
        lists = ("runs", "heads", "jobs", "started", "times", "records", "in_jobs")
        ends = self._by_owner[owner] = {"owner": owner, **{name: [] for name in lists}}
        return ends

    @property
    def text(self) -> str:
        return dumps(list(self._by_owner.values()))


def _head_of(run: Run, owner: str) -> str:
    """Return the head that a live run has which nobody has touched."""
    return live_head(run.job.id, lane_of(run.job), instant(run.due_at), owner, run.fence, run.source)
