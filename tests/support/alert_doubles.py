"""A rule that is broken when a test says so, and a channel that keeps what it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from goscheduler.alerts.model import Breach, Notice
from goscheduler.alerts.rules import Length, Rule


class World:
    """What is broken: target → cause."""

    def __init__(self) -> None:
        self.broken: dict[str, str] = {}
        self.looks = 0


@dataclass(frozen=True)
class Switch(Rule):
    """Is broken for the targets that the world names."""

    world: World = field(compare=False, repr=False)
    for_: Length = 0
    name: ClassVar[str] = "switch"

    def find(self, facts: object) -> Iterable[Breach]:
        self.world.looks += 1
        return [Breach(target, f"{target} is broken", cause) for target, cause in self.world.broken.items()]


class Told:
    """A channel that keeps notices; it takes none of the first ``refusals``."""

    def __init__(self, refusals: int = 0) -> None:
        self._lock = threading.Lock()
        self.notices: list[Notice] = []
        self.refusals = refusals
        self.is_open = True

    def send(self, notice: Notice) -> None:
        with self._lock:
            if self.refusals:
                self.refusals -= 1
                raise ConnectionError("not now")
            self.notices.append(notice)

    def close(self) -> None:
        self.is_open = False

    @property
    def kinds(self) -> list[str]:
        return [notice.kind.value for notice in self.notices]
