"""Eight processes never run more under a limit than it allows, and those that are killed keep no place."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from datetime import datetime, timezone

import pytest

from goscheduler import Limit

PROCESSES = 8
#: How many of the processes that run something are killed.
KILLED = 2
TENANTS = 5
JOBS = 24
#: How many runs of all tenants together may be live.
MOST = 6
#: Long enough for a busy machine; as long it takes until the places of a killed process are free.
LEASE = 10


def at_once(tenant: int) -> int:
    """Return how many runs of a tenant may be live."""
    return 1 + tenant % 2


@pytest.mark.parametrize("cluster", ["sqlite", "postgresql", "mariadb", "redis"], indirect=True)
def test_eight_processes_never_exceed_a_limit_though_some_are_killed(cluster, tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    ids = [f"{tenant}.{number}" for number in range(JOBS) for tenant in range(TENANTS)]
    for _ in range(PROCESSES):
        cluster.start("--lease", str(LEASE))
    cluster.wait_until("ready", PROCESSES)
    with gate.open("r+") as shut:
        fcntl.flock(shut, fcntl.LOCK_EX)
        cluster.add_jobs(job(job_id, str(gate)) for job_id in ids)
        cluster.wait_for(lambda lines: len(live_at_the_end(lines)) == MOST)
        busy = sorted(set(live_at_the_end(cluster.lines).values()))[:KILLED]
        for node in [node for node in cluster.nodes if str(node.pid) in busy]:
            node.kill()
            os.write(cluster._writing, f"killed - {node.pid}\n".encode())
        cluster.wait_until("killed", len(busy))
        cluster.wait_for(lambda lines: len(live_at_the_end(lines)) == MOST)
    cluster.wait_for(lambda lines: {line[1] for line in lines if line[0] == "ended"} == set(ids))
    for node in cluster.nodes:
        if str(node.pid) not in busy:
            node.stop()
    live_at_the_end(cluster.lines)
    with cluster.scheduler() as scheduler:
        usage = scheduler.engine.stores["default"].limit_usage(datetime.now(timezone.utc))
    assert [use for use in usage if use.live or use.waiting] == []


def job(job_id: str, gate: str) -> dict[str, object]:
    """Return a job that counts under the limit of its tenant, and under the one of all."""
    tenant = job_id[0]
    return {
        "func": "cluster_jobs:wait_for", "args": [gate], "id": job_id, "misfire_grace_time": None,
        "trigger": "date", "run_date": datetime.now(timezone.utc),
        "limits": [Limit("all", concurrency=MOST), Limit(tenant, concurrency=at_once(int(tenant)))],
    }  # fmt: skip


def live_at_the_end(lines: list[list[str]]) -> dict[str, str]:
    """Return job id → process of what is live after these lines; at no line may there be more than is allowed."""
    live: dict[str, str] = {}
    for word, *rest in lines:
        if word == "began":
            assert rest[0] not in live, "it runs twice at the same time"
            live[rest[0]] = rest[1]
            tenants = Counter(int(job_id[0]) for job_id in live)
            assert len(live) <= MOST
            assert all(count <= at_once(tenant) for tenant, count in tenants.items()), tenants
        elif word == "ended":
            del live[rest[0]]
        elif word == "killed":
            live = {job_id: pid for job_id, pid in live.items() if pid != rest[1]}
    return live
