"""An observer in this process, workers in others: what it says of their jobs, and what it has them do."""

from __future__ import annotations

import fcntl

import pytest

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.observer import Observer
from goscheduler.runs.model import JobState

STORES = ["sqlite", "postgresql"]
PATIENCE = 60


def until(tell, expected):
    """Ask again and again until the answer is the expected one: processes report now and then."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE
    while (answer := tell()) != expected:
        assert SYSTEM_CLOCK.monotonic() < deadline, answer


@pytest.mark.parametrize("cluster", STORES, indirect=True)
def test_it_knows_what_the_workers_do_and_has_them_do_what_it_wants(cluster, tmp_path):
    gate = (tmp_path / "gate").open("w")
    fcntl.flock(gate, fcntl.LOCK_EX)
    with Observer(cluster.url) as observer:
        job = {"id": "busy", "task": "wait", "args": [gate.name], "trigger": {"type": "interval", "hours": 1}}
        cluster.start("--lease", "4", "--workers", "1")
        cluster.wait_until("ready", 1)
        (process,) = observer.processes()
        assert process.pid == cluster.nodes[0].pid
        observer.add_request(job, by="Ada")
        assert observer.job_state(observer.get_job("busy")) is JobState.SCHEDULED
        observer.run_now("busy")
        cluster.wait_until("began", 1)
        assert observer.job_state(observer.get_job("busy")) is JobState.RUNNING
        assert observer.job_states(observer.get_jobs()) == [JobState.RUNNING]
        until(lambda: observer.why("busy"), "It is running: 1 run.")
        (run,) = observer.live_runs()
        assert (run.state, run.pid, run.owner) == ("running", process.pid, process.owner)
        assert run.started_at is not None
        gate.close()
        cluster.wait_until("ended", 1)
        until(lambda: observer.job_state(observer.get_job("busy")), JobState.SCHEDULED)
        assert observer.get_job("busy").run_count == 1
        observer.ask_process(process.owner, "pause")
        until(lambda: observer.processes()[0].report.state, "paused")
        observer.run_now("busy")
        until(lambda: observer.why("busy"), "It is due, but all processes that share its job store are paused.")
        observer.ask_process(process.owner, "resume")
        cluster.wait_until("ended", 2)
        until(lambda: sum(each.counts["succeeded"] for each in observer.stats()), 2)
        observer.ask_process(process.owner, "drain")
        until(observer.processes, [])
        observer.run_now("busy")
        nobody = "It is due, but no process fires the jobs of its store."
        assert observer.why("busy") == nobody
