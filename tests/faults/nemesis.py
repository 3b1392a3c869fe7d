"""Plays the faults of a run, one after the other."""

from __future__ import annotations

import random
import time

from fault import Fault, Record
from faults_of_links import Blackhole, CutOff, DropReplies, Refuse, Reset, Slow
from faults_of_processes import Clocks, Freeze, FreezeInCall, FreezeShort, Kill, Restart
from faults_of_servers import (
    Connections,
    DiskFull,
    Failover,
    ForeignWriter,
    LongOutage,
    ServerFreeze,
    ServerKill,
    StartWithoutServer,
)
from scene import Scene, pause

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        Kill, Freeze, FreezeShort, FreezeInCall, Restart, Clocks, Blackhole, CutOff, DropReplies, Slow, Refuse, Reset,
        ServerKill, LongOutage, StartWithoutServer, ServerFreeze, DiskFull, Connections, ForeignWriter,
        Failover,
    )
}  # fmt: skip


def play(scene: Scene, faults: list[str], record: Record, calm: float) -> float:
    """Let every fault happen once, in an order that the seed decides, and return the moment of the last heal."""
    luck = random.Random(f"nemesis {scene.seed}")
    order = [FAULTS[name](scene, record, luck) for name in faults]
    luck.shuffle(order)
    healed = time.monotonic()
    for fault in order:
        pause(calm * luck.uniform(0.8, 1.2))
        if not fault.possible():
            record.write(fault.name, "impossible")
            continue
        fault.begin()
        pause(fault.seconds)
        fault.end()
        healed = time.monotonic()
    return healed
