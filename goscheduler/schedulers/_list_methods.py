"""The methods of a scheduler that are about many jobs, and about the processes that share its stores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, shown
from goscheduler.job import Job
from goscheduler.options import check_name_of
from goscheduler.runs.bulk import PAUSE, REMOVE, RESUME, RUN, Bulk, BulkResult
from goscheduler.runs.filters import moment_of
from goscheduler.runs.health import STUCK_AFTER, Health
from goscheduler.runs.job_filters import MOST_JOBS, job_query
from goscheduler.runs.model import JobState
from goscheduler.runs.processes import ACTIONS, ASK, Process, process_of
from goscheduler.runs.queries import Count, LimitUse, Note
from goscheduler.runs.stats import Stats
from goscheduler.schedulers._health import Probe
from goscheduler.schedulers._job_lists import JobLists
from goscheduler.schedulers._run_methods import RunMethods
from goscheduler.schedulers._settings import STATE_RUNNING
from goscheduler.schedulers._statistics import stats_of

#: Jobs are counted up to here.
COUNT_CAP = 10_000
#: Figures are asked for of so many minutes: three days.
MOST_MINUTES = 72 * 60


class JobList(NamedTuple):
    """A page of jobs."""

    jobs: Sequence[Job]
    next: str | None
    """The cursor of the page that follows: give it as ``after``. None if there is none."""
    complete: bool
    """False if a search through texts gave up before the page was full; it goes on at ``next``."""


class ListMethods(RunMethods):
    """Finds, counts, pauses, resumes, runs and removes jobs by what they have in common."""

    def get_jobs(
        self,
        /,
        jobstore: str | None = None,
        pending: Any = None,
        *,
        sort: str = "next_run",
        limit: int | None = None,
        after: Job | str | None = None,
        **filters: Any,
    ) -> list[Job]:
        """Return the jobs that fit all filters: the pending ones while stopped, else those in the stores.

        ``tag``, ``state``, ``executor``, ``task``, ``text`` (part of id, name, task or function), ``due_before``,
        ``last_outcome`` and ``pause_id`` are filters. ``sort`` is "next_run" or "id". ``after``, the last job of a page
        or a cursor of :meth:`find_jobs`, gives the page that follows. ``pending`` has no effect.

        :raises InvalidArgument: for a filter that makes no sense
        """
        if pending is not None:
            warnings.warn("the pending option of get_jobs() has no effect", DeprecationWarning, stacklevel=2)
        if not filters and limit is None and after is None and sort == "next_run":
            return self.engine.jobs.all(jobstore)
        most = MOST_JOBS if limit is None or _is_above(limit, MOST_JOBS) else limit
        query = job_query(filters, self.timezone, sort, most, after)
        return self._lists.all(query, jobstore, limit)

    def find_jobs(
        self,
        /,
        *,
        jobstore: str | None = None,
        sort: str = "next_run",
        limit: int = 50,
        after: Job | str | None = None,
        **filters: Any,
    ) -> JobList:
        """Return a page of the jobs that fit all filters, which are those of :meth:`get_jobs`."""
        query = job_query(filters, self.timezone, sort, limit, after)
        page = self._lists.find(query, jobstore)
        return JobList(page.jobs, None if page.next is None else query.cursor(page.next), page.complete)

    def count_jobs(self, /, *, jobstore: str | None = None, cap: int = COUNT_CAP, **filters: Any) -> Count:
        """Count the jobs that fit all filters, which are those of :meth:`get_jobs`; at most ``cap`` of them."""
        if isinstance(cap, bool) or not isinstance(cap, int) or not 0 < cap <= 1_000_000:
            raise InvalidArgument(f"cap must be a whole number from 1 to 1000000, got {shown(cap)}", field="cap")
        return self._lists.count(job_query(filters, self.timezone), cap, jobstore)

    def job_states(self, jobs: Sequence[Job]) -> list[JobState]:
        """Return where each of several jobs stands, with a constant number of questions to each store.

        They are jobs that were read just now: of one that was removed since, it is told where it stood.
        """
        for job in jobs:
            if not isinstance(job, Job):
                raise TypeError(f"jobs must be jobs, got {shown(job)}")
        return self._lists.states(jobs, self.state == STATE_RUNNING)

    def pause_jobs(
        self,
        /,
        *,
        reason: str = "",
        by: str | None = None,
        jobstore: str | None = None,
        progress: Callable[[Bulk], None] | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Pause all jobs that fit the filters, and return how many. ``resume_jobs(pause_id=result.id)`` undoes it.

        At least one filter of :meth:`get_jobs` is to be given. If this process is lost meanwhile, another one that
        shares the store goes on.
        """
        return self._act(PAUSE, filters, jobstore, by, reason, progress)

    def resume_jobs(
        self,
        /,
        *,
        by: str | None = None,
        jobstore: str | None = None,
        progress: Callable[[Bulk], None] | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Resume all paused jobs that fit the filters: with ``pause_id``, exactly those that one pause has paused."""
        return self._act(RESUME, filters, jobstore, by, "", progress)

    def remove_jobs(
        self,
        /,
        *,
        reason: str = "",
        by: str | None = None,
        jobstore: str | None = None,
        progress: Callable[[Bulk], None] | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Remove all jobs that fit the filters. After that no new run of them starts."""
        return self._act(REMOVE, filters, jobstore, by, reason, progress)

    def run_jobs(
        self,
        /,
        *,
        reason: str = "",
        by: str | None = None,
        jobstore: str | None = None,
        progress: Callable[[Bulk], None] | None = None,
        **filters: Any,
    ) -> BulkResult:
        """Run each job that fits the filters once, now, beside its schedule."""
        if not self.running:
            raise RuntimeError("The scheduler must have been started for jobs to be run")
        return self._act(RUN, filters, jobstore, by, reason, progress)

    def stop_bulk(self, bulk_id: str) -> bool:
        """Stop an act on many jobs after the portion that it is at; false if it is over. What is done stays."""
        return self.engine.bulk.stop(check_name_of("bulk_id", bulk_id))

    def processes(self) -> list[Process]:
        """Return the processes that share a store with this one and are alive, this one included if it fires."""
        now = self.clock.now()
        return [
            process_of(owner, alias)
            for alias, store in self.engine.stores.items()
            if store.shared
            for owner in sorted(store.owners(now), key=lambda owner: (owner.host, owner.pid, owner.id))
        ]

    def ask_process(self, owner: str, action: str) -> None:
        """Ask a process to "pause", "resume" or "drain"; it does so when it renews its lease next.

        :raises LookupError: if there is no such process
        """
        if action not in ACTIONS:
            raise InvalidArgument(
                f"action must be one of {', '.join(ACTIONS)}, got {shown(action)}", field="action", value=action
            )
        for process in self.processes():
            if process.owner == owner:
                self.engine.stores[process.jobstore].put_note(Note(ASK, owner, action))
                return
        raise LookupError(f"There is no process {shown(owner)}: its lease has lapsed, or it never was")

    def health(self, stuck_after: float = STUCK_AFTER) -> Health:
        """Return how the stores, the processes that share them and their jobs fare: healthy, degraded or unhealthy.

        What is due, or should have ended, for ``stuck_after`` seconds counts as a fault. A store that does not answer
        is waited for five seconds. An answer serves all who ask within two seconds.
        """
        return self.engine.inspector.health(stuck_after)

    def readiness(self) -> Probe:
        """Tell whether this scheduler can work: it is started, its stores answer, its leases are young."""
        return self.engine.inspector.readiness()

    def liveness(self) -> Probe:
        """Tell whether the loop of this scheduler turns. No store is asked."""
        return self.engine.inspector.liveness()

    def limit_usage(self, jobstore: str | None = None) -> list[LimitUse]:
        """Return what is used of every limit that jobs share, by store."""
        now = self.clock.now()
        return [
            use
            for alias, store in self.engine.stores.items()
            if jobstore in (None, alias)
            for use in store.limit_usage(now)
        ]

    def stats(
        self,
        since: datetime | timedelta | str | None = None,
        until: datetime | timedelta | str | None = None,
        *,
        minutes: int = 60,
        jobstore: str | None = None,
    ) -> list[Stats]:
        """Return what all processes have fired and how it ended, minute by minute, the oldest first.

        They are the last ``minutes``, or those from ``since`` to ``until``; a length of time ("2h") means that long
        ago. What is longer ago than eight hours, or stands in etcd or ZooKeeper, is told in spans of ten minutes;
        after three days it is forgotten.

        :raises InvalidArgument: for times that make no sense
        """
        if isinstance(minutes, bool) or not isinstance(minutes, int) or not 1 <= minutes <= MOST_MINUTES:
            raise InvalidArgument(
                f"minutes must be a whole number from 1 to {MOST_MINUTES}, got {shown(minutes)}", field="minutes"
            )
        now = self.clock.now()
        begin = moment_of("since", since, now, self.timezone) or now - timedelta(minutes=minutes - 1)
        end = moment_of("until", until, now, self.timezone) or now
        if begin > end:
            raise InvalidArgument("since must be before until", field="since", value=since)
        stores = {alias: store for alias, store in self.engine.stores.items() if jobstore in (None, alias)}
        return stats_of(self.engine, stores if self.running else {}, begin, end)

    @property
    def _lists(self) -> JobLists:
        return JobLists(self.engine)

    def _act(
        self, act: str, filters: dict[str, Any], jobstore: str | None, by: str | None, reason: str,
        progress: Callable[[Bulk], None] | None,
    ) -> BulkResult:  # fmt: skip
        if all(value is None for value in filters.values()):
            raise InvalidArgument(f"{act}_jobs() needs a filter, such as tag=, state= or text=", field="filters")
        by = "" if by is None else check_name_of("by", by)
        reason = check_name_of("reason", reason) if reason else ""
        return self.engine.bulk.start(act, filters, jobstore, by, reason, progress)


def _is_above(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > most
