"""Events of a calendar file as jobs of one task."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.options import check_job_id
from goscheduler.tasks import UnknownTask

if TYPE_CHECKING:
    from goscheduler.triggers.ics import Event

LONGEST_NAME = 200


class ImportedEvent(NamedTuple):
    """What becomes of an event."""

    uid: str
    job_id: str | None
    """The job that it is, or would be; None if it is left out."""
    name: str
    next_run_time: datetime | None
    schedule: str
    why: str
    """Why it is left out; empty if it is not."""
    line: int


def plan_import(
    events: Sequence[Event], task: str, now: datetime, options: dict[str, Any]
) -> tuple[list[ImportedEvent], list[dict[str, Any]]]:
    """Return what becomes of each event, and the definitions of the jobs, as ``add_jobs`` takes them."""
    told: list[ImportedEvent] = []
    jobs: list[dict[str, Any]] = []
    for event in events:
        following = event.trigger.get_next_fire_time(None, now)
        why = "it is cancelled" if event.cancelled else "it is over" if following is None else ""
        job_id = None if why else check_job_id(" ".join(event.uid.split()))
        name = " ".join((event.summary or event.uid).split())[:LONGEST_NAME]
        told.append(
            ImportedEvent(event.uid, job_id, name, following, event.trigger.explain(), why, event.line)
        )  # fmt: skip
        if job_id is not None:
            metadata = {} if event.duration is None else {"duration": str(round(event.duration.total_seconds()))}
            jobs.append({
                "func": UnknownTask(task), "trigger": event.trigger, "id": job_id, "name": name, "metadata": metadata,
                **options,
            })  # fmt: skip
    return told, jobs
