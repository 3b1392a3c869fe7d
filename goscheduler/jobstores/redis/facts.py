"""The facts of a job in the Redis store: what people find it by, and how it was made and paused.

They are three lines of text: the labels, which are the sorted sets that have the job; who made and who paused it; and
what a search looks through.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.runs.model import JobStats, OutcomeKind
from goscheduler.runs.queries import follows
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job

_dumps = json.JSONEncoder(separators=(",", ":")).encode
_KIND, _TAG, _PAUSE, _OUTCOME = "kind:", "tag:", "pause:", "outcome:"
#: The label of the jobs that wait for others, while they have no next time.
FOLLOWS = "follows:"


class Origin(NamedTuple):
    """How a job was made, and how it was paused: the rest of its statistics."""

    pause_reason: str | None = None
    pause_id: str | None = None
    created_at: datetime | None = None
    created_by: str | None = None


_UNKNOWN = Origin()


def facts_of(job: Job) -> str:
    """Return the facts of a job as text."""
    return "\n".join(parted_facts_of(job))


def parted_facts_of(job: Job) -> tuple[str, str]:
    """Return the first line of the facts of a job, and the others."""
    stats, reference = job.stats, job.func_ref or ""
    line = _labels(job.executor, reference, job.tags, stats.pause_id, follows(job))
    return line, f"{_origin(stats)}\n{_searched(job.name, reference)}{_searched_id(job.id)}"


def _origin(stats: JobStats) -> str:
    made = None if stats.created_at is None else to_micros(stats.created_at)
    if stats.created_by or stats.pause_reason or stats.pause_id:
        return _dumps([stats.pause_reason, stats.pause_id, made, stats.created_by])
    return "" if made is None else f"[null,null,{made},null]"


@lru_cache(maxsize=1024)
def _searched(name: str, reference: str) -> str:
    """Return what a search finds of the name and the function, without what is in there twice."""
    name, reference = searched(name), searched(reference)
    return reference if name in reference else f"{reference}\n{name}"


def _searched_id(job_id: str) -> str:
    """Return what a search finds of an id, unless the server can tell."""
    return "" if job_id.isascii() else f"\n{searched(job_id)}"


@lru_cache(maxsize=1024)
def _labels(executor: str, reference: str, tags: tuple[str, ...], pause_id: str | None, follower: bool) -> str:
    labels = [kind_label(executor, reference), *(tag_label(tag) for tag in dict.fromkeys(tags))]
    if pause_id is not None:
        labels.append(pause_label(pause_id))
    if follower:
        labels.append(FOLLOWS)
    return _dumps(labels)


def origin_of(facts: str) -> Origin:
    """Return how a job was made and paused."""
    line = facts.split("\n", 2)[1] if facts else ""
    if not line:
        return _UNKNOWN
    reason, pause_id, made, by = json.loads(line)
    return Origin(reason, pause_id, None if made is None else from_micros(made, UTC), by)


def searched(text: str) -> str:
    """Return text as a search compares it."""
    lower = text.lower()
    return lower if lower.isascii() else lower.encode("utf-8", "replace").decode("utf-8")


def kind_label(executor: str, reference: str) -> str:
    """Return the label of the jobs that name this executor and function or task."""
    return _KIND + _dumps([executor, reference])


def kind_of(label: str) -> tuple[str, str]:
    """Return executor and reference of a label of :func:`kind_label`."""
    executor, reference = json.loads(label.removeprefix(_KIND))
    return executor, reference


def tag_label(tag: str) -> str:
    """Return the label of the jobs that have this tag."""
    return _TAG + tag


def pause_label(pause_id: str) -> str:
    """Return the label of the jobs that this bulk operation has paused."""
    return _PAUSE + pause_id


def outcome_label(outcome: OutcomeKind) -> str:
    """Return the label of the jobs whose last attempt ended so."""
    return _OUTCOME + outcome.value
