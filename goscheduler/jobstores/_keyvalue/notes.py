"""Notes in the stores on etcd and ZooKeeper: one key each, whose name puts the last note of a kind first.

A version of ZooKeeper begins anew when a node is made again. So whoever removes a note also overwrites one key, and
whoever replaces the text that was expected demands that this key is as it was read.
"""

from __future__ import annotations

from collections.abc import Sequence

from goscheduler.jobstores._keyvalue.server import (
    Key,
    KeyValue,
    Span,
    Transaction,
    decode_text_descending,
    encode_text_descending,
    escape,
)
from goscheduler.jobstores._keyvalue.transaction import attempts, lost_all_races
from goscheduler.runs.queries import ANY_TEXT, Note

_REMOVALS: Key = ("removals",)
NOTES_PER_READ = 100


class Notes:
    """The notes of one store."""

    def __init__(self, server: KeyValue) -> None:
        self._server = server

    def put(self, note: Note, expected: str | None) -> bool:
        """Write a note if its text is the expected one."""
        key = _key(note.kind, note.key)
        for _ in attempts():
            found, removals = self._server.read([key, _REMOVALS])
            if expected != ANY_TEXT and (None if found is None else found.value) != expected:
                return False
            transaction = Transaction()
            if found is None:
                transaction.create(key, note.text)
            elif expected == ANY_TEXT:
                transaction.replace(key, note.text)
            elif removals is None:
                self._server.ensure(_REMOVALS)
                continue
            else:
                transaction.replace(key, note.text, found.version)
                transaction.replace(_REMOVALS, "", removals.version)
            if self._server.commit(transaction):
                return True
        raise lost_all_races()

    def remove(self, kind: str, key: str) -> None:
        """Remove a note, if it is there."""
        self._remove(_key(kind, key))

    def _remove(self, key: Key) -> bool:
        """Remove a note; false if this call has not removed it."""
        for _ in attempts():
            if self._server.read([key])[0] is None:
                return False
            self._server.ensure(_REMOVALS)
            if self._server.commit(Transaction().delete(key).replace(_REMOVALS, "")):
                return True
        raise lost_all_races()

    def read(self, kind: str, key: str) -> str | None:
        """Return the text of a note, or None."""
        (found,) = self._server.read([_key(kind, key)])
        return None if found is None else found.value

    def newest(self, kind: str, before: str | None, limit: int) -> list[Note]:
        """Return notes of a kind, descending by key."""
        names = self._names(kind, before, limit)
        notes = []
        for start in range(0, len(names), NOTES_PER_READ):
            batch = names[start : start + NOTES_PER_READ]
            found = self._server.read([(*_folder(kind), name) for name in batch])
            for name, each in zip(batch, found, strict=True):
                if each is not None:
                    notes.append(Note(kind, decode_text_descending(name), each.value))
        return notes

    def prune(self, kind: str, before: str, limit: int) -> int:
        """Remove at most ``limit`` notes whose keys come before ``before``, the first ones first."""
        keys = [(*_folder(kind), name) for name in self._names(kind, before)[: -limit - 1 : -1]]
        most = self._server.max_changes - 1
        return sum(self._remove_all(keys[start : start + most]) for start in range(0, len(keys), most))

    def _remove_all(self, keys: Sequence[Key]) -> int:
        """Remove notes; return how many this call has removed, and not another process."""
        self._server.ensure(_REMOVALS)
        transaction = Transaction().replace(_REMOVALS, "")
        for key in keys:
            transaction.delete(key)
        return len(keys) if self._server.commit(transaction) else sum(map(self._remove, keys))

    def _names(self, kind: str, before: str | None, limit: int | None = None) -> list[str]:
        first = "" if before is None else f"{encode_text_descending(before)}!"  # "!" sorts before all that names have
        return self._server.names([Span(_folder(kind), limit, first)])[0]


def _folder(kind: str) -> Key:
    return ("notes", escape(kind))


def _key(kind: str, key: str) -> Key:
    return (*_folder(kind), encode_text_descending(key))
