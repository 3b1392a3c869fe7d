"""How jobs are added to the MongoDB store: one, or many of which all are added or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goscheduler._drivers.mongodb import deadline
from goscheduler.errors import ConflictingIdError
from goscheduler.jobstores.mongodb.documents import Document, without_job
from goscheduler.jobstores.mongodb.firing import StoreContext

if TYPE_CHECKING:
    from goscheduler.job import Job

#: How many documents are written by one message.
DOCUMENTS_PER_INSERT = 1000


class Adding:
    """Adds for one store."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context

    def add(self, job: Job) -> None:
        """Add a job.

        :raises ConflictingIdError: if there is one by its id
        """
        new = self._new(job)
        with deadline():
            if not self._context.writer.add(new):
                self._add_anew(job)

    def add_all(self, jobs: Sequence[Job]) -> None:
        """Add jobs, or none of them.

        :raises ConflictingIdError: if there is one by one of their ids
        """
        new = [self._new(job) for job in jobs]
        for start in range(0, len(new), DOCUMENTS_PER_INSERT):
            batch = new[start : start + DOCUMENTS_PER_INSERT]
            with deadline():
                taken = self._context.writer.add_all(batch)
            if taken:
                self._add_all_anew([job for job in jobs if job.id in taken], new)

    def _new(self, job: Job) -> Document:
        return self._context.codec.with_job({"_id": job.id, "here": False}, job)

    def _add_all_anew(self, jobs: Sequence[Job], others: Sequence[Document]) -> None:
        added: list[str] = []
        try:
            for job in jobs:
                self._add_anew(job)
                added.append(job.id)
        except ConflictingIdError:
            for job_id in added:
                self._remove_again(job_id)
            self._remove_all_again(others)
            raise

    def _add_anew(self, job: Job) -> None:
        """Add a job where something is known of one by its id, if that is no more than runs of it."""

        def edit(document: Document | None) -> Document:
            if document is not None and document["here"]:
                raise ConflictingIdError(job.id)
            return self._context.codec.with_job(document or {"_id": job.id, "here": False}, job)

        with deadline():
            self._context.writer.edit(job.id, edit)

    def _remove_again(self, job_id: str) -> None:
        def edit(document: Document | None) -> Document:
            return without_job(document or {"_id": job_id, "here": False})

        with deadline():
            self._context.writer.edit(job_id, edit, notify=False)

    def _remove_all_again(self, documents: Sequence[Document]) -> None:
        for start in range(0, len(documents), DOCUMENTS_PER_INSERT):
            with deadline():
                batch = documents[start : start + DOCUMENTS_PER_INSERT]
                ours = [document["v"] for document in batch if "v" in document]
                ids = [document["_id"] for document in batch]
                self._context.collections.jobs.delete_many({"_id": {"$in": ids}, "v": {"$in": ours}})
