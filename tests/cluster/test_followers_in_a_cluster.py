"""Each end of a job is followed once, whichever process settles it, and whatever process dies meanwhile."""

from __future__ import annotations

import os
import threading
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from cluster import QUICK, SLOW, STORES

from goscheduler.runs.model import OutcomeKind

#: ``GOSCHEDULER_FULL=1`` follows a thousand ends, on all stores, and kills more processes at each step.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
PAIRS = {**dict.fromkeys(QUICK, 500 if FULL else 20), **dict.fromkeys(SLOW, 100)}
PLAIN, KILLED = (3, 2) if FULL else (1, 1)
KINDS = STORES if FULL else ["sqlite", "postgresql", "redis", "mongodb"]
#: Where processes die: before the end of a run is written, after it, before the follower is fired, after that, and when
#: it was fired.
STEPS = ("reported", "settled", "following", "followed", "fired")
LEASE = "3"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("cluster", "pairs"), [(kind, PAIRS[kind]) for kind in KINDS], ids=KINDS, indirect=["cluster"])
def test_each_end_is_followed_once_although_processes_die_at_every_step(cluster, pairs):
    for number in range(PLAIN):
        cluster.start("--lease", LEASE, "--skew", str(number))
    doomed = [cluster.start("--lease", LEASE, "--step", step) for step in STEPS]
    cluster.wait_until("ready", len(cluster.nodes))
    due = datetime.now(timezone.utc) + timedelta(seconds=1)
    cluster.add_jobs(jobs(due, pairs))  # by a process that the others have not heard of
    expected = {f"down-{number}" for number in range(pairs)}
    wait_for_followers(cluster, expected, 1)
    for _ in range(KILLED - 1):
        doomed += [cluster.start("--lease", LEASE, "--step", step) for step in STEPS]
        cluster.wait_until("ready", len(cluster.nodes))
    with cluster.scheduler() as scheduler:
        for number in range(pairs):
            scheduler.run_now(f"up-{number}")
    wait_for_followers(cluster, expected, 2)
    assert any(node.process.poll() is not None for node in doomed), "no process has died; that proves little"
    with cluster.scheduler() as scheduler:
        deadline, pause = scheduler.clock.monotonic() + 120, threading.Event()
        while scheduler.live_runs():  # of processes that have died, until others have recovered and ended them
            assert scheduler.clock.monotonic() < deadline
            pause.wait(0.1)
        ends = Counter(
            record.job_id
            for job_id in [*expected, *(f"up-{number}" for number in range(pairs))]
            for record in scheduler.runs(job_id, limit=100)
            if record.outcome is OutcomeKind.SUCCEEDED
        )
        assert scheduler.count_jobs(state="waiting").number == pairs
    assert set(ends.values()) == {2}, ends


def jobs(due, pairs):
    """Yield jobs that run once, and jobs that follow them."""
    for number in range(pairs):
        once = {"trigger": "date", "run_date": due, "auto_remove": False}
        yield {"func": "cluster_jobs:work", "id": f"up-{number}", **once}
        yield {"func": "cluster_jobs:work", "id": f"down-{number}", "after": f"up-{number}"}


def wait_for_followers(cluster, expected, times):
    """Wait until each follower ran so often; a run that was under way when its process died runs again."""

    def done(lines):
        ran = Counter(line[1] for line in lines if line[0] == "ran")
        return all(ran[job_id] >= times for job_id in expected)

    cluster.wait_for(done, 120)
