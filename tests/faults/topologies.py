"""Servers as faults need them: several that stand in for each other, on a small disk, or with few connections.

``failover(kind, folder)``
    Servers whose leader can be killed for good: ``start``, ``url``, ``fail_over``, ``rejoin``, ``close``.
``small_disk(kind, folder, megabytes)``
    A server on a disk of its own that can be filled and freed.
``few_connections(kind, folder, most)``
    A server that takes no more than so many connections.
"""

from __future__ import annotations

from pathlib import Path

from scarce_servers import few_connections, small_disk
from topology import Topology
from topology_ensembles import EtcdEnsemble, MongoDBSet, ZooKeeperEnsemble
from topology_pairs import MariaDBAlone, PostgreSQLPair, RedisWithSentinel

__all__ = ["FAILOVERS", "failover", "few_connections", "small_disk"]

FAILOVERS: dict[str, type[Topology]] = {
    each.kind: each
    for each in (PostgreSQLPair, MariaDBAlone, RedisWithSentinel, MongoDBSet, EtcdEnsemble, ZooKeeperEnsemble)
}


def failover(kind: str, folder: Path) -> Topology:
    """Return servers of a kind that stand in for each other; they are not started."""
    return FAILOVERS[kind](folder)
