"""A job is removed while another process has runs of it in its queue: after that none of them starts."""

from __future__ import annotations

import fcntl

import pytest
from cluster import STORES

QUEUED = 5


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_no_run_of_a_removed_job_starts_in_another_process(cluster, tmp_path):
    gate = (tmp_path / "gate").open("w")
    fcntl.flock(gate, fcntl.LOCK_EX)
    node = cluster.start("--workers", "1", "--queue", "100")
    cluster.wait_until("ready", 1)
    with cluster.scheduler() as scheduler:
        scheduler.add_job("cluster_jobs:wait_for", "interval", hours=1, id="busy", args=[gate.name])
        scheduler.run_now("busy")
        cluster.wait_until("began", 1)
        for job_id in ("removed", "kept"):
            scheduler.add_job("cluster_jobs:work", "interval", hours=1, id=job_id, overlap="allow")
            for _ in range(QUEUED):
                scheduler.run_now(job_id)
        cluster.wait_until("queued", 2 * QUEUED + 1)
        scheduler.remove_job("removed")
        scheduler.remove_job("busy")  # which goes on
        assert cluster.said("ended") == []
        gate.close()
        cluster.wait_until("ran", QUEUED)
        node.stop()  # after everything that it has queued
        assert {line[1] for line in cluster.said("ran")} == {"kept"}
        ids = ("removed", "kept", "busy")
        outcomes = {job_id: [record.outcome.value for record in scheduler.runs(job_id)] for job_id in ids}
    assert outcomes == {"removed": ["cancelled"] * QUEUED, "kept": ["succeeded"] * QUEUED, "busy": ["succeeded"]}
