"""An act on many jobs whose process is killed in the middle of it: another process goes on with it."""

from __future__ import annotations

import pytest
from cluster import Cluster

from goscheduler.runs.bulk import BULK, DONE, PORTION, read_bulk

MANY = 4 * PORTION
STORES = ["sqlite", "postgresql"]


def kill_in_the_middle(cluster: Cluster, act: str) -> None:
    """Have a process of its own do the act, and kill it when it tells of its second portion."""
    node = cluster.start_program("bulk_node.py", act)
    cluster.wait_until("portion", 2)
    node.kill()


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_a_pause_whose_process_was_killed_is_done_by_another_and_undone_exactly(cluster):
    jobs = [
        {"func": "cluster_jobs:work", "trigger": "interval", "hours": 9, "id": f"{number:04}", "tags": ["t"]}
        for number in range(MANY)
    ]
    jobs.append({"func": "cluster_jobs:tick", "trigger": "interval", "seconds": 0.2, "id": "ticking"})
    cluster.add_jobs(jobs)
    with cluster.scheduler() as scheduler:
        for job_id in ("0001", "0300", "0799"):
            scheduler.pause_job(job_id, by="Grace")
        kill_in_the_middle(cluster, "pause_jobs")
        assert 3 < scheduler.count_jobs(state="paused").number < MANY
        cluster.start("--lease", "8")
        cluster.wait_until("ready", 1)
        cluster.wait_until("tick", 1)
        store = scheduler.engine.stores["default"]
        before = len(cluster.said("tick"))
        while read_bulk(store.notes(BULK)[0].text).state != DONE:
            before += 1
            cluster.wait_until("tick", before)  # other jobs fire meanwhile
        (kept,) = store.notes(BULK)
        bulk = read_bulk(kept.text)
        assert (bulk.changed + bulk.unchanged, bulk.refused) == (MANY, 0)
        assert scheduler.count_jobs(state="paused").number == MANY
        assert scheduler.count_jobs(pause_id=bulk.id).number == MANY - 3
        undone = scheduler.resume_jobs(pause_id=bulk.id)
        assert (undone.changed, undone.refused) == (MANY - 3, 0)
        assert [job.id for job in scheduler.get_jobs(state="paused", sort="id")] == ["0001", "0300", "0799"]


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_each_job_is_run_once_although_the_process_that_asked_for_it_was_killed(cluster):
    cluster.add_jobs(
        {"func": "cluster_jobs:work", "trigger": "interval", "hours": 9, "id": f"{number:04}", "tags": ["t"]}
        for number in range(MANY)
    )
    kill_in_the_middle(cluster, "run_jobs")
    cluster.start("--workers", "10")
    ran = cluster.wait_until("ran", MANY)
    cluster.nodes[-1].stop()
    assert len({line[1] for line in ran}) == MANY
    assert len(cluster.said("ran")) == MANY
