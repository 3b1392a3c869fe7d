"""Notes in the MongoDB store: one document each, whose ``_id`` is kind and key in this order.

Such ids sort by kind, then by key, so that the index of ids is the only one that is needed.
"""

from __future__ import annotations

from typing import Any

from bson.min_key import MinKey
from pymongo.errors import DuplicateKeyError

from goscheduler._drivers.mongodb import deadline
from goscheduler.jobstores.mongodb.documents import Document, from_json_text, json_text
from goscheduler.jobstores.mongodb.writer import Collections
from goscheduler.runs.queries import ANY_TEXT, Note


class Notes:
    """The notes of one store."""

    def __init__(self, collections: Collections) -> None:
        self._notes = collections.notes

    def put(self, note: Note, expected: str | None) -> bool:
        """Write a note if its text is the expected one."""
        place, text = {"_id": _id(note.kind, note.key)}, {"text": json_text(note.text)}
        with deadline():
            try:
                if expected == ANY_TEXT:
                    self._notes.update_one(place, {"$set": text}, upsert=True)
                elif expected is None:
                    self._notes.insert_one({**place, **text})
                else:
                    known = {**place, "text": json_text(expected)}
                    return self._notes.update_one(known, {"$set": text}).matched_count == 1
            except DuplicateKeyError:
                # Another process has just written the first text; with any text expected, ours came before it.
                return expected == ANY_TEXT
        return True

    def remove(self, kind: str, key: str) -> None:
        """Remove a note, if it is there."""
        with deadline():
            self._notes.delete_one({"_id": _id(kind, key)})

    def read(self, kind: str, key: str) -> str | None:
        """Return the text of a note, or None."""
        with deadline():
            row = self._notes.find_one({"_id": _id(kind, key)})
        return None if row is None else from_json_text(row["text"])

    def newest(self, kind: str, before: str | None, limit: int) -> list[Note]:
        """Return notes of a kind, descending by key."""
        with deadline():
            rows = list(self._notes.find(_before(kind, before)).sort("_id", -1).limit(limit)) if limit > 0 else []
        return [Note(kind, row["_id"]["key"], from_json_text(row["text"]) or "") for row in rows]

    def prune(self, kind: str, before: str, limit: int) -> int:
        """Remove at most ``limit`` notes whose keys come before ``before``, the first ones first."""
        if limit <= 0:
            return 0
        with deadline():
            rows = self._notes.find(_before(kind, before), {"_id": 1}).sort("_id", 1).limit(limit)
            return self._notes.delete_many({"_id": {"$in": [row["_id"] for row in rows]}}).deleted_count


def _id(kind: str, key: Any) -> Document:
    return {"kind": kind, "key": key}


def _before(kind: str, key: str | None) -> Document:
    # A kind that begins with this one is greater than any key of this one.
    end = {"$lt": _id(kind + "\0", MinKey())} if key is None else {"$lt": _id(kind, key)}
    return {"_id": {"$gt": _id(kind, MinKey()), **end}}
