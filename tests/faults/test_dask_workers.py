"""A thousand runs on Dask, of whose workers one is killed every two seconds; and a worker that is restarted."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from dask_cluster import DaskCluster, wait_until

from goscheduler import BackgroundScheduler
from goscheduler.events import EVENT_JOB_EXECUTED, EVENT_WORKER_LOST
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import EventRecorder

pytest.importorskip("distributed")
from goscheduler.executors.dask import DaskExecutor

pytestmark = [pytest.mark.faults, pytest.mark.serial, pytest.mark.timeout(900)]

RUNS = 1000
KILL_EVERY = 2.0
PATIENCE = 600


@pytest.fixture
def cluster(tmp_path):
    (tmp_path / "dask").mkdir()
    cluster = DaskCluster(tmp_path / "dask", Path(__file__).parent.parent / "executors")
    yield cluster
    cluster.close()


@pytest.fixture
def childjobs(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "executors"))
    import childjobs

    return childjobs


def kill_workers(cluster, done):
    """Kill the oldest worker every two seconds, and start another one."""
    killed = 0
    while not done.wait(KILL_EVERY):
        cluster.kill(cluster.workers.pop(0))
        cluster.add_worker()
        killed += 1
    return killed


def test_a_thousand_runs_end_once_each_and_none_is_repeated_unseen(cluster, childjobs, tmp_path):
    for _ in range(3):
        cluster.add_worker()
    notes = tmp_path / "notes"
    notes.mkdir()
    scheduler = BackgroundScheduler(
        jobstores={"default": f"sqlite:///{tmp_path}/jobs.db"},
        executors={"dask": {"type": "dask", "address": cluster.address}},
    )
    recorder = EventRecorder(scheduler, EVENT_WORKER_LOST | EVENT_JOB_EXECUTED)
    scheduler.start()
    done, killed = threading.Event(), []
    killer = threading.Thread(target=lambda: killed.append(kill_workers(cluster, done)))
    try:
        for number in range(RUNS):
            scheduler.add_job(
                childjobs.note_and_work, "date", args=[str(notes), number, 0.03], id=f"job-{number}", executor="dask",
                max_crashes=50,
            )  # fmt: skip
        killer.start()
        wait_until(lambda: len(recorder.of(EVENT_JOB_EXECUTED)) >= RUNS, "not all of them end", PATIENCE)
    finally:
        done.set()
        killer.join()
        records = scheduler.runs(limit=5 * RUNS)
        scheduler.shutdown()

    ends = Counter((record.job_id, record.outcome) for record in records)
    lost = sum(number for (_, outcome), number in ends.items() if outcome is OutcomeKind.LOST)
    begun = Counter(path.name.split(".")[0] for path in notes.iterdir())
    print(f"{RUNS} runs, {killed[0]} workers killed, {lost} attempts lost, {sum(begun.values())} attempts begun")
    assert [ends[f"job-{number}", OutcomeKind.SUCCEEDED] for number in range(RUNS)] == [1] * RUNS
    assert {outcome for _, outcome in ends} <= {OutcomeKind.SUCCEEDED, OutcomeKind.LOST, OutcomeKind.SNOOZED}
    for number in range(RUNS):
        attempts = ends[f"job-{number}", OutcomeKind.SUCCEEDED] + ends[f"job-{number}", OutcomeKind.LOST]
        assert begun[f"job-{number}"] <= attempts
    assert lost == len(recorder.of(EVENT_WORKER_LOST))
    assert lost > 0


def test_a_worker_whose_job_does_not_end_is_restarted_if_that_is_wanted(cluster, childjobs, tmp_path):
    cluster.add_worker(nanny=True)
    executor = DaskExecutor(cluster.address, restart_worker=True)
    executor.grace_seconds, executor.look_seconds = 0.2, 0.2
    scheduler = BackgroundScheduler(executors={"dask": executor})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    try:
        scheduler.add_job(childjobs.never_end, args=[str(tmp_path / "pid")], id="stuck", executor="dask", timeout=2)
        wait_until((tmp_path / "pid").exists, "the job does not begin")
        stuck = int((tmp_path / "pid").read_text())
        wait_until(lambda: not _lives(stuck), "the worker is not restarted")
        scheduler.add_job(childjobs.add, args=[41], id="after", executor="dask")
        assert recorder.wait_for(EVENT_JOB_EXECUTED, "after").retval == 42
    finally:
        scheduler.shutdown(wait=False)


def _lives(pid):
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return True
