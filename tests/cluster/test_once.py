"""A firing happens once, whatever the number of processes and the skew of their clocks."""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from cluster import QUICK, STORES

from goscheduler.runs.model import OutcomeKind

#: A twentieth of the firings in half the processes is enough for every day; ``GOSCHEDULER_FULL=1`` runs all of them.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
SHARE = 1 if FULL else 20
SKEWS = (-5, -3, -1, 0, 0, 1, 3, 5) if FULL else (-5, 0, 1, 5)
FIRINGS = {**dict.fromkeys(STORES, 1000 // SHARE), **dict.fromkeys(QUICK, 10_000 // SHARE)}


@pytest.mark.parametrize(("cluster", "firings"), FIRINGS.items(), ids=FIRINGS, indirect=["cluster"])
def test_processes_with_wrong_clocks_run_every_firing_once(cluster, firings):
    for skew in SKEWS:
        cluster.start("--skew", str(skew))
    cluster.wait_until("ready", len(SKEWS))
    due = datetime.now(timezone.utc) + timedelta(seconds=1)
    cluster.add_jobs(
        {"func": "cluster_jobs:work", "trigger": "date", "run_date": due, "id": f"job-{number}"}
        for number in range(firings)
    )
    cluster.wait_until("ran", firings, 200)
    for node in cluster.nodes:
        node.stop()
    ran = cluster.said("ran")
    assert Counter(line[1] for line in ran) == Counter(f"job-{number}" for number in range(firings))
    assert not FULL or len({line[4] for line in ran}) > 1, "one process did everything; that proves little"
    with cluster.scheduler() as scheduler:
        assert scheduler.get_jobs() == []
        assert scheduler.live_runs() == []
        records = scheduler.runs(limit=100_000)
    assert Counter(record.outcome for record in records) == {OutcomeKind.SUCCEEDED: min(firings, len(records))}
    assert len(records) == firings
