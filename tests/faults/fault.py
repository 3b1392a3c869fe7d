"""What all faults have in common: each begins and is healed, and both are recorded with the moment and the process."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any, ClassVar

from places import STORES
from scene import Node, Scene, until

#: Of faults that hit a process, so many in a hundred are aimed at one inside a run.
AIMED = 80
#: The groups of the workload whose runs take long.
LONG = ("long", "beside", "once-long", "once-crash-dead", "once-crash-fails", "queue", "passing")


class Record:
    """Writes nemesis.jsonl."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, fault: str, phase: str, node: Node | str | None = None, detail: Any = None) -> float:
        moment = time.monotonic()
        name, life = (node.name, node.life) if isinstance(node, Node) else (node, None)
        line = {"t": moment, "fault": fault, "phase": phase, "node": name, "life": life, "detail": detail}
        os.write(self._file, (json.dumps(line) + "\n").encode())
        return moment


class Fault:
    """One fault: ``begin``, ``seconds`` later ``end``."""

    name: ClassVar[str]
    stores: ClassVar[tuple[str, ...]] = STORES
    #: How long it lasts, in leases.
    leases: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def __init__(self, scene: Scene, record: Record, luck: random.Random) -> None:
        self.scene = scene
        self.luck = luck
        self._record = record

    @property
    def seconds(self) -> float:
        return self.luck.uniform(*self.leases) * self.scene.lease

    def possible(self) -> bool:
        return self.scene.store in self.stores

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def note(self, phase: str, node: Node | str | None = None, detail: Any = None) -> None:
        self._record.write(self.name, phase, node, detail)

    def target(self) -> Node:
        """Return a process; in most cases one that has just begun a run that takes long."""
        living = self.scene.living()
        if self.luck.randrange(100) < AIMED:
            until(lambda: any(self._promise(node) for node in living), self.scene.lease)
            return max(living, key=self._promise)
        return self.luck.choice(living)

    def _promise(self, node: Node) -> float:
        now = time.monotonic()
        runs = [run for run in node.tail.look().running.values() if run["kind"] in LONG]
        return max((run["t"] - now + self.scene.lease for run in runs), default=0.0)
