"""Brings the documents of an earlier version of the MongoDB store up to this one.

Version 1 did not write what people find jobs by. The first process that starts marks the store as being upgraded; each
process that finds the mark upgrades what is left, a portion at a time and each document in one step, so that a process
that ends halfway, and others that fire jobs meanwhile, do no harm. No process of the earlier version may go on: it does
not keep the states of jobs.
"""

from __future__ import annotations

import logging

from goscheduler._drivers.mongodb import deadline
from goscheduler.jobstores.mongodb.documents import Document, broken, found_by, indexed
from goscheduler.jobstores.mongodb.due_work import META
from goscheduler.jobstores.mongodb.firing import BROKEN, StoreContext
from goscheduler.jobstores.mongodb.writer import Change

#: How many documents are read and written together.
PORTION = 1000


def upgrade(context: StoreContext, logger: logging.Logger) -> None:
    """Upgrade all documents, if the store is being upgraded."""
    meta = context.collections.meta
    with deadline():
        if "upgrading" not in (meta.find_one(META) or {}):
            return
    logger.info("The MongoDB store %s is being upgraded", context.collections.jobs.full_name)
    while _upgrade_some(context, ""):
        pass  # what other processes have changed meanwhile comes in the next pass
    with deadline():
        meta.update_one(META, {"$unset": {"upgrading": ""}})


def _upgrade_some(context: StoreContext, after: str) -> bool:
    """Upgrade the documents behind an id; false if there were none."""
    found = False
    while True:
        with deadline():
            old = {"_id": {"$gt": after}, "here": True, "state": {"$exists": False}}
            documents = list(context.collections.jobs.find(old).sort("_id", 1).limit(PORTION))
            if not documents:
                return found
            context.writer.write([Change(document, _upgraded(context, document)) for document in documents])
        after, found = documents[-1]["_id"], True


def _upgraded(context: StoreContext, document: Document) -> Document:
    try:
        return indexed(found_by(document, context.codec.job(document), document["definition"]))
    except BROKEN as error:
        job_id = document["_id"]
        return {**broken(document, error), "search": {"words": [job_id.lower()], "name": job_id}}
