"""Owners in the MongoDB store: their leases. ``mongodb.settling`` recovers the runs of lost owners."""

from __future__ import annotations

from datetime import datetime, timedelta

from goscheduler.jobstores._shared.owner_info import owner_info, read_owner
from goscheduler.jobstores.mongodb.documents import from_json_text, json_text
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
        base = SERVER_NOW if self._server_time else to_micros(now)
        info = {"$literal": owner_info(owner, now)}
        report = {"$literal": json_text(owner.report)}
        expires = {"$add": [base, micros_of(lease)]}
        change = [{"$set": {"expires": expires, "account": info, "report": report}}]
        renewed = self._owners.update_one({"_id": owner.id, "given_up": {"$exists": False}}, change).matched_count
        if not renewed and (owner.id in self._registered or self._owners.find_one({"_id": owner.id}) is not None):
            return False
        if not renewed:
            self._owners.update_one({"_id": owner.id}, change, upsert=True)
        self._registered.add(owner.id)
        return True

    def alive(self, now: datetime) -> list[Owner]:
        """Return the owners whose lease has not lapsed."""
        moment = to_micros(self._reader.now(now))
        rows = self._owners.find({"expires": {"$gt": moment}, "given_up": {"$exists": False}})
        return [
            read_owner(row["_id"], row["account"])._replace(
                report=from_json_text(row.get("report")) or "", expires_at=from_micros(int(row["expires"]), UTC)
            )
            for row in rows
        ]

    def forget(self, owner: str) -> None:
        """Delete an owner."""
        self._owners.delete_one({"_id": owner})
