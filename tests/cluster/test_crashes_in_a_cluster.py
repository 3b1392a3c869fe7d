"""A process may be killed at any step of a firing; what it had is done by another one as the job says."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import datetime, timezone

import pytest
from cluster import STORES

#: ``GOSCHEDULER_FULL=1`` has the job that kills every process on all stores; who counts the crashes is no store.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
#: Of processes that are killed or frozen, in seconds; others have to wait for its end.
LEASE = "3"
#: Of those that go on: a machine may be busy for three quarters of it.
LONGER = "8"
#: How often the function of the job ran before its process ended, by the step at which it did.
RAN_BEFORE = {"planning": 0, "fired": 0, "submitted": 0, "running": 0, "reported": 1, "settled": 1}
STEPS = tuple(RAN_BEFORE)


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_what_a_killed_process_had_is_done_by_another_one_after_the_lease(cluster):
    now = datetime.now(timezone.utc)
    cluster.add_jobs(
        {"func": f"cluster_jobs:{'die' if step == 'running' else 'work'}", "trigger": "date", "run_date": now,
         "id": step, "executor": step, "max_crashes": 2}
        for step in STEPS
    )  # fmt: skip
    for step in STEPS:
        cluster.start("--lease", LEASE, "--executors", step, "--step", step)
    for node in cluster.nodes:
        assert node.process.wait(60) == -9
    before = Counter(line[1] for line in cluster.said("ran"))
    assert before == Counter({step: count for step, count in RAN_BEFORE.items() if count})
    survivor = cluster.start("--lease", LONGER, "--executors", ",".join(step for step in STEPS if step != "running"))
    cluster.wait_until("ran", sum(before.values()) + len(STEPS) - 2)  # "settled" is done, "running" waits
    survivor.stop()
    ran = Counter(line[1] for line in cluster.said("ran"))
    assert ran == {"planning": 1, "fired": 1, "submitted": 1, "reported": 2, "settled": 1}
    with cluster.scheduler() as scheduler:
        outcomes = {
            step: sorted(record.outcome.value for record in scheduler.runs(step)) for step in STEPS if step != "running"
        }
        assert [run.job_id for run in scheduler.live_runs()] == ["running"]
    lost = ["lost", "succeeded"]
    assert outcomes == {
        "planning": ["succeeded"], "fired": lost, "submitted": lost, "reported": lost, "settled": ["succeeded"],
    }  # fmt: skip


@pytest.mark.parametrize("cluster", STORES if FULL else ["sqlite", "redis", "mongodb"], indirect=True)
def test_a_job_that_kills_every_process_is_a_dead_letter_in_the_end(cluster):
    now = datetime.now(timezone.utc)
    deadly = {"func": "cluster_jobs:die", "trigger": "date", "run_date": now, "id": "deadly", "max_crashes": 2}
    cluster.add_jobs([deadly])
    for _ in range(2):
        assert cluster.start("--lease", LEASE).process.wait(60) == -9
    cluster.add_jobs([{"func": "cluster_jobs:work", "trigger": "interval", "seconds": 1, "id": "healthy"}])
    survivor = cluster.start("--lease", LONGER)
    cluster.wait_for(lambda lines: ["event", "JOB_DEAD_LETTERED", str(survivor.pid)] in lines)
    cluster.wait_until("ran", 1)
    survivor.stop()
    with cluster.scheduler() as scheduler:
        (letter,) = scheduler.dead_letters()
        assert (letter.run.job.id, letter.run.crashes) == ("deadly", 1)
        assert "crashed 2 times" in letter.reason
        assert [record.outcome.value for record in scheduler.runs("deadly")] == ["lost", "lost"]


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_a_process_that_comes_back_after_its_lease_cannot_finish_what_another_one_has(cluster, tmp_path):
    gate = (tmp_path / "gate").open("w")
    fcntl.flock(gate, fcntl.LOCK_EX)
    now = datetime.now(timezone.utc)
    cluster.add_jobs([
        {"func": "cluster_jobs:wait_for", "args": [gate.name], "trigger": "date", "run_date": now, "id": "slow"},
    ])  # fmt: skip
    zombie = cluster.start("--lease", LEASE)
    cluster.wait_until("began", 1)
    freeze_at_rest(cluster, zombie)
    heir = cluster.start("--lease", LONGER)
    cluster.wait_until("began", 2)
    zombie.thaw()
    gate.close()  # both wait for that
    cluster.wait_for(lambda lines: ["event", "LEASE_LOST", str(zombie.pid)] in lines)
    heir.stop()
    zombie.stop()
    with cluster.scheduler() as scheduler:
        records = scheduler.runs("slow")
    assert sorted(record.outcome.value for record in records) == ["lost", "succeeded"]


def freeze_at_rest(cluster, node):
    """Stop a process while it does not hold the lock of a SQLite file: nobody could write until it went on."""
    node.freeze()
    while cluster.url.startswith("sqlite") and is_locked(cluster.url.removeprefix("sqlite:///")):
        node.thaw()
        node.freeze()


def is_locked(path):
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False
