"""What people ask of a store that serves one process: what is used of its limits, and its notes."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from goscheduler.runs.limits import starts_within
from goscheduler.runs.plan import limit_of_key
from goscheduler.runs.queries import ANY_TEXT, LimitUse, Note

if TYPE_CHECKING:
    from goscheduler.jobstores._local.runs import LocalRuns


def limit_usage(runs: LocalRuns, now: datetime) -> list[LimitUse]:
    """Return what is used of every limit, ascending by name."""
    with runs.lock:
        rates = runs._ledger.rates
        live = Counter(limit.name for run in runs.live() for limit in runs._limits.get(run.id, run.job.limits))
        waiting = Counter({limit_of_key(key): len(line) for key, line in runs._turns.lines.items()})
    names = sorted(live.keys() | rates.keys() | {name for name in waiting if name is not None})
    return [
        LimitUse(name, live[name], waiting[name], starts_within(rates.get(name, ()), now)) for name in names
    ]


class LocalNotes:
    """The notes of a store that serves one process."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def put(self, note: Note, expected: str | None) -> bool:
        """Write a note if its text is the expected one."""
        with self._lock:
            texts = self._texts.setdefault(note.kind, {})
            if expected != ANY_TEXT and texts.get(note.key) != expected:
                return False
            texts[note.key] = note.text
            return True

    def remove(self, kind: str, key: str) -> None:
        """Remove a note, if it is there."""
        self._texts.get(kind, {}).pop(key, None)

    def read(self, kind: str, key: str) -> str | None:
        """Return the text of a note, or None."""
        return self._texts.get(kind, {}).get(key)

    def newest(self, kind: str, before: str | None, limit: int) -> list[Note]:
        """Return notes of a kind, descending by key."""
        with self._lock:
            found = sorted(self._texts.get(kind, {}).items(), reverse=True)
        return [Note(kind, key, text) for key, text in found if before is None or key < before][:limit]

    def prune(self, kind: str, before: str, limit: int) -> int:
        """Remove at most ``limit`` notes whose keys come before ``before``, the first ones first."""
        with self._lock:
            texts = self._texts.get(kind, {})
            gone = sorted(key for key in texts if key < before)[:limit]
            for key in gone:
                del texts[key]
            return len(gone)
