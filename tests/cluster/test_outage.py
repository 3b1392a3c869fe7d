"""The server of a store is killed under load and comes back: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack, closing
from datetime import datetime, timedelta, timezone

import pytest
from cluster import SERVERS, Cluster

from goscheduler.clock import SYSTEM_CLOCK

#: ``GOSCHEDULER_FULL=1`` is run on a machine that does nothing else, and is strict about time.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
JOBS = 250
#: Longer than a server takes to come back on a busy machine: with its lease a process would lose what it runs.
LEASE = "200"


@pytest.fixture
def server(request, private_server):
    return private_server(request.param)


@pytest.fixture
def clusters(server):
    """Return a function that makes clusters on the store of one server."""
    url = f"{server.url}/outage" if server.kind in ("etcd", "zookeeper") else server.url
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Cluster(url)))


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_an_outage_is_waited_for_and_costs_no_firing(clusters, server):
    start_while_it_is_down(clusters(), server)
    lose_it_under_load(clusters(), server)


def start_while_it_is_down(cluster, server):
    """A scheduler waits for its server, and says so."""
    cluster.add_jobs([{"func": "cluster_jobs:work", "trigger": "date", "id": "first",
                       "run_date": datetime.now(timezone.utc)}])  # fmt: skip
    server.kill()
    node = cluster.start()
    cluster.wait_for(lambda lines: ["event", "SCHEDULER_DEGRADED", str(node.pid)] in lines)
    assert cluster.said("ready") == []
    server.restart()
    cluster.wait_until("ready", 1)
    cluster.wait_until("ran", 1)
    node.stop()


def lose_it_under_load(cluster, server):
    """The server is killed and comes back: nothing is lost, nothing is done twice, and it goes on."""
    for _ in range(3):
        cluster.start("--lease", LEASE)
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
    done.pop("first")
    assert done == Counter(f"job-{number}" for number in range(JOBS))
    assert not FULL or resumed_after < 5
