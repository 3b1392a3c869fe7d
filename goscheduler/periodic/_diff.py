"""What a registry declares against what a job store has: pure, decided here and written by :mod:`._sync`.

A job that a registry owns has the tag ``goscheduler.periodic:<name of the registry>``; other jobs are never touched. A
schedule that is disabled is a paused job, and ``paused_by`` says that its registry wants that; a job that somebody else
has paused stays so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler import codec
from goscheduler.errors import InvalidArgument, ScheduleConflict, shown
from goscheduler.job import copy_with
from goscheduler.options import OPTION_NAMES
from goscheduler.runs.tally import DISPATCH, MARK

if TYPE_CHECKING:
    from goscheduler.job import Job


def mark_of(registry: str) -> str:
    """Return the tag of the jobs that a registry owns."""
    return f"{MARK}{registry}"


def disabled_by(registry: str) -> str:
    """Return who has paused the job of a schedule that is disabled."""
    return f"the schedule registry {registry!r}, where it is disabled"


class DesiredJob(NamedTuple):
    """A schedule as the job that it is to be."""

    job: Job
    registry: str
    enabled: bool


@dataclass(frozen=True)
class FieldChange:
    """One field of a schedule that is different in a store from what is declared, with the values for people."""

    field: str
    """"cron", "job", "payload", "name", "enabled", or an option of the job."""
    before: str | None = None
    """What the store has; None for nothing, and for a payload, which may be secret."""
    after: str | None = None
    """What is declared, in the same way."""

    def __str__(self) -> str:
        return f"{self.field}: {self.before} → {self.after}" if self.field in _TOLD else self.field


@dataclass(frozen=True)
class ScheduleChange:
    """A schedule that a sync would write, and what would be different of it afterwards."""

    id: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True)
class ScheduleDiff:
    """The difference between a registry and the jobs that it has in a store: what a sync would do."""

    registry: str
    """The name of the registry."""
    added: tuple[ScheduleChange, ...] = ()
    changed: tuple[ScheduleChange, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[ScheduleChange, ...] = ()
    """No longer declared, and to be pruned."""
    orphaned: tuple[ScheduleChange, ...] = ()
    """No longer declared, and left as they are, because nothing is to be pruned."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.added or self.changed or self.removed)


@dataclass(frozen=True)
class SyncPlan:
    """What a sync has done or, as a dry run, would do: ids of schedules, by what becomes of them. ``print`` it."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """No longer declared, and pruned."""
    orphaned: tuple[str, ...] = ()
    """No longer declared, and left as they are, because nothing is to be pruned."""
    pending: tuple[str, ...] = ()
    """Compared when the scheduler starts."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What is added, and in which way something is changed, by id."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.added or self.changed or self.removed or self.pending)

    def __str__(self) -> str:
        groups = {name: getattr(self, name) for name in _GROUPS}
        width = max((len(one) for ids in groups.values() for one in ids), default=0)
        lines = [
            f"{name:<10}{one:<{width}}  {self.details.get(one, '')}".rstrip()
            for name, ids in groups.items()
            if name != "unchanged"
            for one in ids
        ]
        counts = [f"{len(ids)} {name}" for name, ids in groups.items() if ids or name in _ALWAYS_COUNTED]
        return "\n".join([*lines, ", ".join(counts)])


#: The fields whose values a plan tells.
_TOLD = ("cron", "job", "enabled")
_GROUPS = ("added", "changed", "unchanged", "removed", "orphaned", "pending")
_ALWAYS_COUNTED = _GROUPS[:4]


def compare(wanted: Mapping[str, DesiredJob], found: Sequence[Job], registry: str, prune: bool) -> ScheduleDiff:
    """Return what makes the jobs of a store those that are wanted.

    :raises ScheduleConflict: if a wanted id belongs to a job that this registry does not own
    """
    existing = {job.id: job for job in found}
    changes = {one: differences(existing[one], desired) for one, desired in wanted.items() if one in existing}
    left = tuple(
        ScheduleChange(job.id, tuple(FieldChange(name, before=value) for name, value in _facts(job)))
        for job in found
        if mark_of(registry) in job.tags and job.id not in wanted
    )
    return ScheduleDiff(
        registry,
        added=tuple(_addition(one, desired) for one, desired in wanted.items() if one not in existing),
        changed=tuple(ScheduleChange(one, fields) for one, fields in changes.items() if fields),
        unchanged=tuple(one for one, fields in changes.items() if not fields),
        removed=left if prune else (),
        orphaned=() if prune else left,
    )


def plan_of(diff: ScheduleDiff) -> SyncPlan:
    """Return a difference as the plan that is shown of it."""
    added = {one.id: str(one.fields[0].after) for one in diff.added}
    changed = {one.id: ", ".join(map(str, one.fields)) for one in diff.changed}
    return SyncPlan(
        added=tuple(added),
        changed=tuple(changed),
        unchanged=diff.unchanged,
        removed=tuple(one.id for one in diff.removed),
        orphaned=tuple(one.id for one in diff.orphaned),
        details={**added, **changed},
    )


def differences(existing: Job, desired: DesiredJob) -> tuple[FieldChange, ...]:
    """Return in which way a job is not what is wanted.

    :raises ScheduleConflict: if the registry does not own the job
    """
    require_owned(existing, desired.registry)
    job = desired.job
    found = []
    if not existing.trigger.same_schedule_as(job.trigger):
        found.append(FieldChange("cron", existing.trigger.explain(), job.trigger.explain()))
    if _called(existing) != _called(job):
        found.append(FieldChange("job", _called(existing), _called(job)))
    if existing.args or _canonical(existing.kwargs) != _canonical(job.kwargs):
        found.append(FieldChange("payload"))
    if existing.name != job.name:
        found.append(FieldChange("name", existing.name, job.name))
    for name in OPTION_NAMES:
        before, after = getattr(existing.options, name), getattr(job.options, name)
        if before != after:
            found.append(FieldChange(name, _text(before), _text(after)))
    if desired.enabled is not _is_enabled(existing, desired):
        found.append(FieldChange("enabled", str(not desired.enabled), str(desired.enabled)))
    return tuple(found)


def _addition(one: str, desired: DesiredJob) -> ScheduleChange:
    facts = (*_facts(desired.job), ("enabled", str(desired.enabled)))
    return ScheduleChange(one, tuple(FieldChange(name, after=value) for name, value in facts))


def _facts(job: Job) -> list[tuple[str, str]]:
    return [("cron", job.trigger.explain()), ("job", _called(job))]


def _text(value: object) -> str | None:
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value if not str(part).startswith(MARK))
    return value if value is None or isinstance(value, str) else shown(value)


def require_owned(job: Job, registry: str) -> None:
    """Raise ScheduleConflict for a job that was made by hand or by another registry."""
    if mark_of(registry) not in job.tags:
        others = [tag.removeprefix(MARK) for tag in job.tags if tag.startswith(MARK)]
        raise ScheduleConflict(job.id, f"the schedule registry {others[0]!r}" if others else "hand")


def rewritten(existing: Job, desired: DesiredJob, first_time: datetime | None) -> Job:
    """Return what becomes of a job that is not as wanted: all that it has lived through stays.

    Its next run stays too unless the trigger is another one, or the job was disabled; then it is ``first_time``.
    """
    require_owned(existing, desired.registry)
    edited = copy_with(desired.job)
    edited._jobstore_alias, edited.stats = existing._jobstore_alias, existing.stats
    same = existing.trigger.same_schedule_as(edited.trigger)
    edited.trigger = existing.trigger if same else edited.trigger
    edited.next_run_time = existing.next_run_time
    if not desired.enabled and existing.next_run_time is not None:
        edited.next_run_time = None
        edited.stats = existing.stats._replace(paused_by=disabled_by(desired.registry))
    elif (
        desired.enabled
        and not _is_paused_by_others(existing, desired)
        and (existing.next_run_time is None or not same)
    ):
        edited.next_run_time = first_time
        edited.stats = existing.stats.resumed()
    return edited


def _is_enabled(job: Job, desired: DesiredJob) -> bool:
    """Tell whether a job counts as enabled; what somebody else has paused is left as it is in either case."""
    return desired.enabled if _is_paused_by_others(job, desired) else job.next_run_time is not None


def _is_paused_by_others(job: Job, desired: DesiredJob) -> bool:
    return job.next_run_time is None and job.stats.paused_by != disabled_by(desired.registry)


def _called(job: Job) -> str:
    """Return what a firing of a job calls, as people see it."""
    if job.func_ref is not None and job.func_ref.startswith(DISPATCH):
        return f"{job.kwargs.get('job')} (dispatched)"
    return str(job.func_ref)


def _canonical(payload: Mapping[str, Any]) -> str:
    """Return a payload as text, the same for the same values whatever their order; 1, 1.0 and True are not the same."""
    try:
        return json.dumps(codec.encode(dict(payload)), sort_keys=True)
    except InvalidArgument:
        return ""  # somebody has put something else there; it is not what is wanted
