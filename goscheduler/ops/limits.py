"""The operation on limits that jobs share: what is used of them, who holds them, and who waits."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from goscheduler.ops.access import Role
from goscheduler.ops.model_around import LimitRun, LimitView
from goscheduler.ops.operation import Call, Store, operation
from goscheduler.ops.schema import Flag
from goscheduler.ops.views import limit_view

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import LiveRun
    from goscheduler.runs.queries import LimitUse

#: So many jobs that fire next are asked for the figures of their limits, beside those that have runs.
MOST_NEXT = 200
#: So many runs of each limit are named.
MOST_RUNS = 100


@operation(Role.VIEWER, whole=True, kept=True)
def limits(
    call: Call,
    jobstore: Store = None,
    runs: Annotated[bool, Flag("Whether to tell the figures of each limit, who holds it and who waits.")] = False,
) -> list[LimitView]:
    """Return what is used of every limit that jobs share."""
    found: list[LimitView] = []
    for alias, store in call.stores(jobstore):
        if runs:
            found += _with_runs(call, alias, store)
        else:
            found += [limit_view(use, alias) for use in store.limit_usage(call.now)]
    return found


def _with_runs(call: Call, alias: str, store: BaseJobStore) -> list[LimitView]:
    known = _Known(call.now)
    for job in call.scheduler.find_jobs(jobstore=alias, limit=MOST_NEXT).jobs:
        known.add_job(job)
    uses = store.limit_usage(call.now)
    if any(use.live or use.waiting for use in uses):
        _add_runs(call, alias, store, known)
    return [known.view(use, alias) for use in uses]


def _add_runs(call: Call, alias: str, store: BaseJobStore, known: _Known) -> None:
    jobs = {run.id: run.job for run in store.live_runs() + store.pending_runs()}
    for run in sorted(call.scheduler.live_runs(jobstore=alias), key=lambda run: (run.started_at or run.due_at, run.id)):
        if run.id in jobs:
            known.add_run(run, jobs[run.id])


class _Known:
    """What jobs and runs tell of limits."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._concurrency: defaultdict[str, set[int]] = defaultdict(set)
        self._rates: defaultdict[str, set[str]] = defaultdict(set)
        self._holders: defaultdict[str, list[LimitRun]] = defaultdict(list)
        self._queue: defaultdict[str, list[LimitRun]] = defaultdict(list)

    def add_job(self, job: Job) -> None:
        """Learn the figures that a job gives."""
        for limit in job.limits:
            if limit.concurrency is not None:
                self._concurrency[limit.name].add(limit.concurrency)
            if limit.rate is not None:
                self._rates[limit.name].add(limit.rate)

    def add_run(self, run: LiveRun, job: Job) -> None:
        """Learn what a run of a job holds or waits for."""
        self.add_job(job)
        waits = run.state == "pending"
        if waits and run.due_at > self._now:
            return
        shown = LimitRun(run.id, run.job_id, run.due_at if waits else run.started_at, run.host, run.pid)
        for limit in job.limits:
            (self._queue if waits else self._holders)[limit.name].append(shown)

    def view(self, use: LimitUse, jobstore: str) -> LimitView:
        """Return what is known of a limit."""
        name = use.name
        view = limit_view(use, jobstore)
        return LimitView(
            name, jobstore, view.live, view.waiting, view.starts, max(self._concurrency[name], default=None),
            sorted(self._rates[name]), self._holders[name][:MOST_RUNS], self._queue[name][:MOST_RUNS],
        )  # fmt: skip
