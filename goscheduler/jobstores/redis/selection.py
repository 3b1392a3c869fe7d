"""How the Redis store goes about a query: which sorted sets it reads, and by what it sifts their jobs.

Every aspect of a query but the text has sorted sets of its own. The store reads those of one aspect, and asks whether
the jobs stand in the sets of the others too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from goscheduler.jobstores.redis.facts import FOLLOWS, kind_of, outcome_label, pause_label, searched, tag_label
from goscheduler.jobstores.redis.merging import JobList
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import JobQuery
from goscheduler.times import to_micros

#: State → why jobs of it wait for no time.
_WHY_IDLE = {
    JobState.PAUSED: "paused", JobState.WAITING: "paused", JobState.SUSPENDED: "suspended",
    JobState.COMPLETED: "ended", JobState.FAILED: "ended",
}  # fmt: skip
#: Aspect of a query → the label of the jobs for which it has a value.
_LABELS: Mapping[str, Callable[[Any], str]] = {
    "tag": tag_label, "pause_id": pause_label, "last_outcome": outcome_label,
}  # fmt: skip
_SUCCEEDED = outcome_label(OutcomeKind.SUCCEEDED)


class Source(NamedTuple):
    """Sorted sets which together have all jobs that some aspects of a query ask for."""

    lists: Sequence[JobList]
    covers: frozenset[str]
    """Aspects of the query."""


class Selection:
    """What a query means for the sorted sets of a store."""

    def __init__(self, query: JobQuery, found: Mapping[str, Sequence[str]]) -> None:
        self.query = query
        self.why_idle = None if query.state is None else _WHY_IDLE.get(query.state)
        self.before = None if query.due_before is None else to_micros(query.due_before)
        self._found = found

    @property
    def due(self) -> list[JobList]:
        """The lists of jobs that wait for a time."""
        if self.why_idle is not None:
            return []
        return [JobList(f"due:{lane}", self.before) for lane in self._found["due"] if self._is_wanted(lane)]

    @property
    def idle(self) -> list[JobList]:
        """The lists of jobs that wait for none."""
        if self.before is not None or self.query.state is JobState.SCHEDULED:
            return []
        lists = []
        for name in self._found["idle"]:
            _, why, lane = name.split(":", 2)
            if self.why_idle in (None, why) and self._is_wanted(lane):
                lists.append(JobList(name))
        return lists

    def _is_wanted(self, lane: str) -> bool:
        return self.query.executor is None or _executor_of(lane) == self.query.executor

    @property
    def kinds(self) -> Source:
        """The jobs of the executor and the task; all of them, if the query asks for none."""
        executor, task = self.query.executor, self.query.task
        lists = []
        for label in self._found["kinds"]:
            named, reference = kind_of(label)
            if executor in (None, named) and task in (None, reference):
                lists.append(JobList(label))
        return Source(lists, frozenset({"executor", "task"}))

    @property
    def lanes(self) -> Source:
        """The jobs of the state, of the executor and of the time."""
        return Source([*self.due, *self.idle], frozenset({"state", "executor", "due_before"}))

    @property
    def labels(self) -> list[Source]:
        """The jobs of each label that the query asks for, and of the task."""
        sources = []
        for aspect, label_of in _LABELS.items():
            value = getattr(self.query, aspect)
            if value is not None:
                sources.append(Source([JobList(label_of(value))], frozenset({aspect})))
        if self.query.task is not None:
            sources.append(self.kinds)
        return sources

    def filters(self, covered: frozenset[str]) -> list[Any]:
        """Return by what jobs are to be sifted of which some aspects are right."""
        query = self.query
        filters: list[Any] = []
        if query.state is JobState.RUNNING:
            filters.append(["live"])
        for source in self.labels:
            if not source.covers <= covered:
                filters.append(["any", [each.key for each in source.lists]])
                covered |= source.covers
        if query.state in (JobState.COMPLETED, JobState.FAILED):
            filters.append(["any" if query.state is JobState.COMPLETED else "none", [_SUCCEEDED]])
        if query.state in (JobState.PAUSED, JobState.WAITING):
            filters.append(["any" if query.state is JobState.WAITING else "none", [FOLLOWS]])
        if "state" not in covered and self.why_idle is not None:
            filters.append(["any", [each.key for each in self.idle]])
            covered |= {"executor"}
        if query.executor is not None and "executor" not in covered:
            filters.append(["executor", query.executor])
        if self.before is not None and "due_before" not in covered:
            filters.append(["due", str(self.before)])
        elif query.state is JobState.SCHEDULED and "state" not in covered:
            filters.append(["due", False])
        if query.text is not None:
            filters.append(["text", searched(query.text)])
        return filters


def _executor_of(lane: str) -> Any:
    try:
        return json.loads(lane)[0]
    except (LookupError, TypeError, ValueError):
        return None
