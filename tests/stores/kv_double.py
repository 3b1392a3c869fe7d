"""A server of ordered keys in memory, as strict as the real ones together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from goscheduler.jobstores._kv_port import BELL, Found, Key, Span, Step


class MemoryKeyValue:
    """Several stores may use it at once."""

    most_bytes = 900_000

    def __init__(self, most_changes: int = 128) -> None:
        self.most_changes = most_changes
        self.values: dict[Key, Found] = {}
        self._lock = threading.Lock()
        self._listeners: list[Callable[[str], None]] = []
        self._version = 0
        self.calls = 0

    def open(self) -> None:
        return

    def close(self) -> None:
        return

    def abandon(self) -> None:
        return

    def read(self, keys: Sequence[Key]) -> list[Found | None]:
        self.calls += 1
        with self._lock:
            return [self.values.get(key) for key in keys]

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        self.calls += 1
        with self._lock:
            return [
                sorted(key[-1] for key in self.values if key[:-1] == span.folder and span.has(key[-1]))[: span.limit]
                for span in spans
            ]

    def commit(self, step: Step) -> bool:
        self.calls += 1
        assert len(step) <= self.most_changes
        changed = [*step.created, *step.replaced, *step.deleted, *step.put, *step.checked]
        assert len(set(changed)) == len(changed), "a key may be changed once in a step"
        with self._lock:
            if not self._as_expected(step):
                return False
            self._version += 1
            for key in step.deleted:
                del self.values[key]
            values = {**step.created, **{key: value for key, (value, _) in step.replaced.items()}, **step.put}
            self.values.update({key: Found(value, self._version) for key, value in values.items()})
            self._check_groups(step)
        if BELL in step.put:
            for heard in self._listeners:
                heard(step.put[BELL])
        return True

    def _as_expected(self, step: Step) -> bool:
        expected = {**step.deleted, **{key: version for key, (_, version) in step.replaced.items()}}
        return (
            not any(key in self.values for key in step.created)
            and all(key in self.values for key in step.checked)
            and all(
                key in self.values and version in (None, self.values[key].version)
                for key, version in expected.items()
            )
        )

    def _check_groups(self, step: Step) -> None:
        """ZooKeeper takes no member without its group, and no group away that has members."""
        for key in (*step.created, *step.deleted):
            if key[0] == "members" and key in self.values:
                assert ("groups", key[1]) in self.values
            if key[0] == "groups" and key not in self.values:
                assert not any(other[:2] == ("members", key[1]) for other in self.values)

    def ensure(self, key: Key) -> None:
        with self._lock:
            self.values.setdefault(key, Found("", 0))

    def listen(self, heard: Callable[[str], None]) -> None:
        self._listeners.append(heard)
