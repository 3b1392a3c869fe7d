"""Owners in the MongoDB store: who is alive. How they are lost stands in ``mongodb.settling``."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from goscheduler.jobstores.mongodb.documents import Document
from goscheduler.jobstores.mongodb.due_work import SERVER_NOW, DueWorkReader
from goscheduler.jobstores.mongodb.writer import Collections
from goscheduler.runs.model import Owner
from goscheduler.times import UTC, from_micros, micros_of, to_micros


class Owners:
    """The owners of one store."""

    def __init__(self, collections: Collections, reader: DueWorkReader, server_time: bool) -> None:
        self._owners = collections.owners
        self._reader = reader
        self._server_time = server_time
        self._registered: set[str] = set()

    def renew(self, owner: Owner, now: datetime, lease: timedelta) -> bool:
        """Keep an owner alive; false if it was given up."""
        account = json.dumps([owner.host, owner.pid, to_micros(owner.started_at or now), owner.executors, owner.tasks])
        base = SERVER_NOW if self._server_time else to_micros(now)
        change = [{"$set": {"expires": {"$add": [base, micros_of(lease)]}, "account": {"$literal": account}}}]
        renewed = self._owners.update_one({"_id": owner.id, "given_up": {"$exists": False}}, change).matched_count
        if not renewed and (owner.id in self._registered or self._owners.find_one({"_id": owner.id}) is not None):
            return False
        if not renewed:
            self._owners.update_one({"_id": owner.id}, change, upsert=True)
        self._registered.add(owner.id)
        return True

    def alive(self, now: datetime) -> list[Owner]:
        """Return those whose lease has not lapsed."""
        moment = to_micros(self._reader.now(now))
        return [_owner(row) for row in self._owners.find({"expires": {"$gt": moment}, "given_up": {"$exists": False}})]

    def forget(self, owner: str) -> None:
        """Know nothing of an owner any more."""
        self._owners.delete_one({"_id": owner})


def _owner(row: Document) -> Owner:
    host, pid, started_at, executors, tasks = json.loads(row["account"])
    return Owner(row["_id"], host, pid, from_micros(started_at, UTC), tuple(executors), tuple(tasks))
