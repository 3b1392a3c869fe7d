"""The audit: who did what, when, why, and what came of it. It stands in the store that was acted on.

The intent is written before the act and the outcome after it, so that an act whose process was lost shows as "unknown".
What cannot be audited is not done. Each entry names the one before it by its digest, so that a gap shows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from goscheduler.errors import survivable
from goscheduler.ops.access import Principal
from goscheduler.ops.errors import AuditUnavailable
from goscheduler.ops.redact import redacted
from goscheduler.ops.values import plain
from goscheduler.runs.queries import Note
from goscheduler.times import UTC, from_micros, to_micros

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore

AUDIT, OUTCOME, HEAD, BEGIN = "audit", "audit-outcome", "audit-head", "audit-begin"
#: Entries are kept for so long. At most so many old ones are forgotten with each new one.
KEPT = timedelta(days=90)
FORGOTTEN_AT_ONCE = 50
#: Entries of one moment may be chained in another order than that of their ids.
SLACK = timedelta(minutes=1)
#: At most so many ids are named in an entry; the others are counted.
MOST_TARGETS = 50
LONGEST_VALUE = 2000
#: How often the end of the chain is tried to be moved while others move it too.
TRIES = 100


class Audit:
    """Writes the entries of one store, and reads them."""

    def __init__(self, store: BaseJobStore) -> None:
        self._store = store

    def begin(self, now: datetime, principal: Principal, via: str, operation: str, facts: Mapping[str, Any]) -> str:
        """Write what is about to be done, and return the id of the entry.

        :raises AuditUnavailable: if that cannot be written
        """
        entry_id = f"{to_micros(now):016x}-{uuid4().hex[:8]}"
        entry = {
            "id": entry_id, "actor": principal.name, "role": principal.role.title, "via": via, "operation": operation,
            **({"address": principal.address} if principal.address else {}), **_bounded(facts),
        }  # fmt: skip
        try:
            for _ in range(TRIES):
                before = self._store.read_note(HEAD, HEAD)
                text = json.dumps({**entry, "prev": before}, separators=(",", ":"))
                if self._store.put_note(Note(HEAD, HEAD, _digest(text)), expected=before):
                    self._store.put_note(Note(AUDIT, entry_id, text))
                    self.forget(now - KEPT, FORGOTTEN_AT_ONCE)
                    return entry_id
        except BaseException as error:
            if not survivable(error):
                raise
            raise AuditUnavailable(f"nothing was done, because the audit cannot be written: {error}") from error
        raise AuditUnavailable("nothing was done, because others write the audit all the time")

    def forget(self, before: datetime, limit: int) -> int:
        """Forget at most ``limit`` of the entries from before a moment, and return how many."""
        key = f"{to_micros(before):016x}"
        forgotten = self._store.prune_notes(AUDIT, key, limit)
        if forgotten:
            self._store.prune_notes(OUTCOME, key, limit)
            self._store.put_note(Note(BEGIN, BEGIN, f"{to_micros(before + SLACK):016x}"))
        return forgotten

    def end(self, entry_id: str, result: Mapping[str, Any]) -> None:
        """Write what came of it."""
        self._store.put_note(Note(OUTCOME, entry_id, json.dumps(_bounded(result), separators=(",", ":"))))

    def entries(self, before: str | None, limit: int) -> list[dict[str, Any]]:
        """Return entries, newest first, each with its outcome."""
        return [self._view(note) for note in self._store.notes(AUDIT, before, limit)]

    def gaps(self, limit: int = 1000) -> Iterator[str]:
        """Yield the ids of those of the newest entries whose predecessor is gone; "head" if the newest one is."""
        notes = self._store.notes(AUDIT, None, limit)
        begin = self._store.read_note(BEGIN, BEGIN) or ""
        known = {_digest(note.text) for note in notes}
        head = self._store.read_note(HEAD, HEAD)
        if head is not None and head not in known:
            yield "head"
        oldest = notes[-1].key if len(notes) == limit else None
        for note in notes:
            before = json.loads(note.text).get("prev")
            if before is not None and before not in known and note.key != oldest and note.key > begin:
                yield note.key

    def _view(self, note: Note) -> dict[str, Any]:
        entry = json.loads(note.text)
        outcome = self._store.read_note(OUTCOME, note.key)
        at = from_micros(int(note.key.partition("-")[0], 16), UTC)
        result = {"status": "unknown"} if outcome is None else json.loads(outcome)
        return {"id": note.key, "at": at, **entry, **result}


def _bounded(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts in plain values, none of them long."""
    bounded: dict[str, Any] = {}
    for name, value in facts.items():
        value = redacted(plain(value), see_arguments=True)  # a secret is not kept twice
        if isinstance(value, list) and len(value) > MOST_TARGETS:
            bounded[f"{name}_count"], value = len(value), value[:MOST_TARGETS]
        if len(json.dumps(value)) > LONGEST_VALUE and not isinstance(value, list):
            value = f"… ({len(json.dumps(value))} characters)"
        bounded[name] = value
    return bounded


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
