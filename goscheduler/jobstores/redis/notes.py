"""The notes of a Redis store: a hash of texts for each kind, and a sorted set of its keys."""

from __future__ import annotations

from goscheduler.jobstores.redis.rows import as_text, dumps
from goscheduler.jobstores.redis.scripts import ScriptClient
from goscheduler.runs.queries import ANY_TEXT, Note


class Notes:
    """Keeps notes where all processes find them."""

    def __init__(self, scripts: ScriptClient) -> None:
        self._scripts = scripts

    def put(self, note: Note, expected: str | None) -> bool:
        """Write a note if its text is the expected one."""
        how = "any" if expected == ANY_TEXT else "none" if expected is None else "same"
        return bool(int(self._scripts.call("put_note", None, *note, how, expected or "")))

    def remove(self, kind: str, key: str) -> None:
        """Remove a note, if it is there."""
        self._scripts.call("remove_note", None, kind, key)

    def read(self, kind: str, key: str) -> str | None:
        """Return the text of a note, or None."""
        text = self._scripts.client.hget(self._scripts.key(f"notes:{kind}"), key)
        return None if text is None else as_text(text)

    def newest(self, kind: str, before: str | None, limit: int) -> list[Note]:
        """Return notes of a kind, descending by key."""
        before_text = dumps([False if before is None else before])
        return [Note(kind, *each) for each in self._scripts.call_json("newest_notes", None, kind, before_text, limit)]

    def prune(self, kind: str, before: str, limit: int) -> int:
        """Remove at most ``limit`` notes whose keys come before ``before``, the first ones first."""
        return int(self._scripts.call("prune_notes", None, kind, before, limit))
