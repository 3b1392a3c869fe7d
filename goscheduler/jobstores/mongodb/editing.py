"""Edits and removes many jobs in the MongoDB store: portions in few messages, each job in one step of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import bson
from pymongo.errors import ConnectionFailure

from goscheduler._drivers.mongodb import deadline
from goscheduler.errors import GoSchedulerError, JobLookupError
from goscheduler.jobstores.mongodb.documents import Document, without_job
from goscheduler.jobstores.mongodb.firing import StoreContext
from goscheduler.jobstores.mongodb.writer import MAX_ATTEMPTS, Change
from goscheduler.runs.queries import Edited

if TYPE_CHECKING:
    from goscheduler.job import Job

#: How many jobs are read together.
PORTION = 200
#: How many bytes of changed documents are written together; the server takes 16 MiB.
MAX_BYTES = 8 * 1024 * 1024


class Editing:
    """Edits for one store."""

    def __init__(self, context: StoreContext, is_outage: Callable[[BaseException], bool]) -> None:
        self._context = context
        self._is_outage = is_outage

    def edit(self, job_ids: Sequence[str], edit: Callable[[Job], Job]) -> Edited:
        """Replace each job by what ``edit`` makes of it."""
        changed: dict[str, Job] = {}
        unchanged: list[str] = []
        missing: list[str] = []
        refused: dict[str, str] = {}

        def change(document: Document) -> Document | None:
            job_id = document["_id"]
            try:
                job = self._context.codec.job(document)
                changed[job_id] = edited = edit(job)
                if edited is not job:
                    return self._context.codec.with_job(document, edited)
                unchanged.append(job_id)
            except JobLookupError:
                missing.append(job_id)
            except (GoSchedulerError, ValueError, TypeError) as error:
                if self._is_outage(error):
                    raise
                refused[job_id] = str(error)
            return None

        made: set[str] = set()
        for ids in _portions(job_ids):
            written, absent = self._change(ids, change)
            made |= written
            missing += absent
        if made:
            self._context.writer.notify()
        return Edited([job for job_id, job in changed.items() if job_id in made], unchanged, missing, refused)

    def remove(self, job_ids: Sequence[str]) -> list[str]:
        """Remove jobs, and return the ids of those that were there."""
        return [
            job_id for ids in _portions(job_ids) for made in [self._change(ids, without_job)[0]]
            for job_id in ids if job_id in made
        ]  # fmt: skip

    def _change(
        self, job_ids: Sequence[str], change: Callable[[Document], Document | None]
    ) -> tuple[set[str], list[str]]:
        """Change documents, unless ``change`` returns None; return the ids of those, and of jobs that do not exist."""
        made: set[str] = set()
        missing: list[str] = []
        left = list(job_ids)
        with deadline():
            for _ in range(MAX_ATTEMPTS):
                rows = {row["_id"]: row for row in self._context.collections.jobs.find(_these(left))}
                missing += [job_id for job_id in left if job_id not in rows]
                changes = [
                    Change(before, after)
                    for before in (rows[job_id] for job_id in left if job_id in rows)
                    if (after := change(before)) is not None
                ]
                for group in _by_size(changes):
                    made |= {written.before["_id"] for written in self._context.writer.write(group)}
                left = [each.before["_id"] for each in changes if each.before["_id"] not in made]
                if not left:
                    return made, missing
        raise ConnectionFailure(f"Job {left[0]!r} is changed by other processes all the time")


def _these(job_ids: Sequence[str]) -> Document:
    return {"_id": {"$in": list(job_ids)}, "here": True}


def _portions(job_ids: Iterable[str]) -> Iterator[list[str]]:
    ids = list(dict.fromkeys(job_ids))
    for start in range(0, len(ids), PORTION):
        yield ids[start : start + PORTION]


def _by_size(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Return changes in groups that fit into a message each."""
    group: list[Change] = []
    size = 0
    for change in changes:
        length = len(bson.encode(change.after))
        if group and size + length > MAX_BYTES:
            yield group
            group, size = [], 0
        group.append(change)
        size += length
    if group:
        yield group
