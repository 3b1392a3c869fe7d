"""Faults of the links between processes and their server."""

from __future__ import annotations

from typing import ClassVar

from fault import Fault
from places import SERVERS
from scene import Node


class LinkFault(Fault):
    """Something is wrong with the links of some processes."""

    stores = SERVERS
    mode: ClassVar[str]
    most: ClassVar[int] = 1
    delay: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def begin(self) -> None:
        assert self.scene.proxy is not None
        target = self.target()
        others = [node for node in self.scene.living() if node is not target]
        self.hit: list[Node | str] = [target, *self.luck.sample(others, min(self.most - 1, len(others)))]
        if self.most > 1:
            self.hit.append("client")
        for node in self.hit:
            self.note("begin", node)
            self.strike(_name(node))

    def strike(self, name: str) -> None:
        assert self.scene.proxy is not None
        self.scene.proxy.spoil(name, self.mode, self.delay)

    def end(self) -> None:
        assert self.scene.proxy is not None
        late = self.luck.random() < 0.5
        for node in self.hit:
            self.scene.proxy.heal(_name(node), late)
            self.note("end", node, {"late": late})


class Blackhole(LinkFault):
    name = mode = "blackhole"
    leases = (1.4, 2.0)


class CutOff(LinkFault):
    """Nobody reaches the server, and nobody is told."""

    name = "cut_off"
    mode = "blackhole"
    most = 99
    leases = (1.2, 1.6)


class DropReplies(LinkFault):
    name = mode = "drop_replies"
    leases = (1.0, 1.5)


class Slow(LinkFault):
    name = mode = "slow"
    most = 99
    delay = (0.005, 0.08)
    leases = (1.2, 1.6)


class Refuse(LinkFault):
    """Connections are reset, and no new ones are made."""

    name = mode = "refuse"
    most = 3
    leases = (1.0, 1.5)

    def strike(self, name: str) -> None:
        assert self.scene.proxy is not None
        super().strike(name)
        self.scene.proxy.reset(name)


class Reset(LinkFault):
    """All connections are reset, several times."""

    name = "reset"
    mode = "pass"
    most = 99
    leases = (0.4, 0.6)

    def strike(self, name: str) -> None:
        assert self.scene.proxy is not None
        self.scene.proxy.reset(name)

    def end(self) -> None:
        for node in self.hit:
            self.strike(_name(node))
        super().end()


def _name(node: Node | str) -> str:
    return node if isinstance(node, str) else node.name
