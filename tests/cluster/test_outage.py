"""The server of a store is killed under load and comes back: nothing is lost, nothing is done twice."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from cluster import SERVERS, Cluster

from goscheduler.clock import SYSTEM_CLOCK

JOBS = 400


@pytest.fixture
def server(request, private_server):
    return private_server(request.param)


@pytest.fixture
def cluster(server):
    cluster = Cluster(f"{server.url}/outage" if server.kind in ("etcd", "zookeeper") else server.url)
    yield cluster
    cluster.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_server_that_is_killed_and_comes_back_costs_no_firing(cluster, server):
    for _ in range(3):
        cluster.start()
    cluster.wait_until("ready", 3)
    begin = datetime.now(timezone.utc) + timedelta(seconds=1)
    cluster.add_jobs(
        {"func": "cluster_jobs:work", "trigger": "date", "id": f"job-{number}",
         "run_date": begin + timedelta(milliseconds=15 * number)}
        for number in range(JOBS)
    )  # fmt: skip
    cluster.wait_until("ran", JOBS // 4)
    server.kill()
    server.restart()
    returned_at = SYSTEM_CLOCK.monotonic()
    cluster.wait_until("ran", len(cluster.said("ran")) + 1)
    resumed_after = SYSTEM_CLOCK.monotonic() - returned_at
    cluster.wait_until("ran", JOBS)
    for node in cluster.nodes:
        node.stop()
    assert Counter(line[1] for line in cluster.said("ran")) == Counter(f"job-{number}" for number in range(JOBS))
    with cluster.scheduler() as scheduler:
        assert scheduler.live_runs() == []
        done = Counter(record.job_id for record in scheduler.runs(limit=10 * JOBS, outcome="succeeded"))
    assert done == Counter(f"job-{number}" for number in range(JOBS))
    assert resumed_after < 5


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_scheduler_that_starts_while_the_server_is_down_waits_for_it_and_says_so(cluster, server):
    cluster.add_jobs([{"func": "cluster_jobs:work", "trigger": "date", "id": "job",
                       "run_date": datetime.now(timezone.utc)}])  # fmt: skip
    server.kill()
    node = cluster.start()
    cluster.wait_for(lambda lines: ["event", "SCHEDULER_DEGRADED", str(node.pid)] in lines)
    assert cluster.said("ready") == []
    server.restart()
    cluster.wait_until("ready", 1)
    cluster.wait_until("ran", 1)
    node.stop()
