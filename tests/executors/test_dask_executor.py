"""Jobs on a cluster of Dask: real processes, of which some are killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from dask_cluster import DaskCluster, wait_until

from goscheduler import BackgroundScheduler
from goscheduler.errors import InvalidArgument
from goscheduler.events import EVENT_JOB_CANCELLED, EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_WORKER_LOST
from goscheduler.executors.pool import WorkerDied
from goscheduler.runs.model import OutcomeKind
from goscheduler.testing import EventRecorder

pytest.importorskip("distributed")
from goscheduler.executors import dask
from goscheduler.executors.dask import DaskExecutor, slots_of

pytestmark = pytest.mark.serial


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"), Path(__file__).parent)
    for _ in range(2):
        cluster.add_worker()
    yield cluster
    cluster.close()


@pytest.fixture
def new_run(new_run):
    """A function that makes a run whose id no other test has: a cluster remembers the keys of what still goes on."""

    def make(*args, **facts):
        return new_run(*args, **facts)._replace(id=f"run-{uuid4().hex}")

    return make


@pytest.fixture
def executor(cluster, started):
    executor = started(DaskExecutor(cluster.address))
    executor.look_seconds = 0.2
    wait_until(lambda: executor.room() >= 2, "the workers do not come")
    return executor


def test_dask_runs_jobs_as_a_process_pool_does(executor, host, new_run, jobs):
    calls = {
        "sum": new_run(jobs.add, 41), "later": new_run(jobs.add_later, 41), "error": new_run(jobs.fail, "on purpose"),
        "facts": new_run(jobs.facts, attempt=2, fence=5), "lock": new_run(jobs.return_a_lock),
        "unsendable": new_run(lambda: None), "again": new_run(jobs.add, 41),
    }  # fmt: skip
    for run in calls.values():
        executor.submit(run)
    ends = {name: host.outcome_of(run) for name, run in calls.items()}

    assert [ends[name].result for name in ("sum", "later", "again")] == [42, 42, 42]
    assert ends["error"].kind is OutcomeKind.FAILED
    assert isinstance(ends["error"].error, ValueError)
    assert "in fail" in ends["error"].traceback
    assert ends["facts"].result[2:] == (2, calls["facts"].scheduled_at, calls["facts"].fire_id, 5, True)
    assert "lock" in str(ends["lock"].result)
    assert "does not pickle" in str(ends["unsendable"].error)
    assert executor.live() == 0


def test_a_run_that_looks_ends_soon_after_it_was_cancelled(executor, host, new_run, jobs, fifo):
    run = new_run(jobs.go_on_until_told_to_end, told := fifo("told"))
    executor.submit(run)
    with open(told) as file:
        file.read()

    assert executor.cancel(run, "enough of it")

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, "enough of it")
    executor.submit(after := new_run(jobs.add, 41))
    assert host.outcome_of(after).result == 42


def test_a_cancelled_job_sees_it_and_a_worker_that_stands_still_does_not_hold_up_the_others(
    executor, host, new_run, jobs, fifo, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(dask, "ANSWER_SECONDS", 1.0)
    run = new_run(jobs.tell_of_the_end, told := fifo("told"), str(seen := tmp_path / "seen"))
    executor.submit(run)
    with open(told) as file:
        pid = int(file.read())

    os.kill(pid, signal.SIGSTOP)
    try:
        assert executor.cancel(run, "enough of it")
        wait_until(lambda: f"Run {run.id} of job job-1 was told to end" in caplog.text, "the thread hangs")
        executor.submit(other := new_run(jobs.add, 41))
        assert host.outcome_of(other).result == 42
    finally:
        os.kill(pid, signal.SIGCONT)

    wait_until(seen.exists, "the job does not see it")
    assert seen.read_text() == "enough of it"
    assert host.outcome_of(run).result == "told"


class AnswerLost:
    """A future of Dask whose worker is lost while its result comes over."""

    def __init__(self, future):
        self._future = future

    def __getattr__(self, name):
        return getattr(self._future, name)

    def result(self, timeout):
        raise TimeoutError(f"nothing came within {timeout} seconds")


def test_a_run_whose_reply_is_lost_on_its_way_is_lost_and_keeps_no_slot(executor, host, new_run, jobs, monkeypatch):
    done = executor._done
    monkeypatch.setattr(executor, "_done", lambda flight, future: done(flight, AnswerLost(future)))
    executor.submit(run := new_run(jobs.add, 41))

    outcome = host.outcome_of(run)

    assert outcome.kind is OutcomeKind.LOST
    assert "its reply was lost on the way from the Dask worker" in outcome.reason
    assert executor.live() == 0


def test_a_run_whose_worker_is_killed_is_lost_and_dask_does_not_repeat_it(
    cluster, executor, host, new_run, jobs, tmp_path
):
    run = new_run(jobs.note_pid_and_wait, str(tmp_path / "pids"))
    executor.submit(run)
    wait_until((tmp_path / "pids").exists, "the job does not begin")
    pid = int((tmp_path / "pids").read_text())

    os.kill(pid, signal.SIGKILL)
    cluster.add_worker()

    outcome = host.outcome_of(run)
    assert outcome.kind is OutcomeKind.LOST
    assert isinstance(outcome.error, WorkerDied)
    assert (tmp_path / "pids").read_text().split() == [str(pid)]


def test_every_run_ends_once_and_none_is_repeated_unseen_while_workers_are_killed(cluster, jobs, tmp_path):
    runs = 24
    scheduler = BackgroundScheduler(executors={"dask": {"type": "dask", "address": cluster.address}})
    recorder = EventRecorder(scheduler)
    scheduler.start()
    try:
        for number in range(runs):
            scheduler.add_job(
                jobs.note_and_work, args=[str(tmp_path), number, 0.1], id=f"job-{number}", executor="dask",
                max_crashes=20, next_run_time=None,
            )  # fmt: skip
        for number in range(runs):
            scheduler.run_now(f"job-{number}")
        victim = next(worker for worker in cluster.workers if worker.poll() is None)
        wait_until(lambda: len(recorder.of(EVENT_JOB_EXECUTED)) >= 4, "nothing ends")
        cluster.kill(victim)
        cluster.add_worker()
        wait_until(lambda: len(recorder.of(EVENT_JOB_EXECUTED)) >= runs, "not all of them end")
        records = scheduler.runs(limit=500)
    finally:
        scheduler.shutdown()

    ends = Counter((record.job_id, record.outcome.value) for record in records)
    assert [ends[f"job-{number}", "succeeded"] for number in range(runs)] == [1] * runs
    begun = Counter(path.name.split(".")[0] for path in tmp_path.iterdir())
    for number in range(runs):
        assert begun[f"job-{number}"] <= ends[f"job-{number}", "succeeded"] + ends[f"job-{number}", "lost"]
    assert len(recorder.of(EVENT_WORKER_LOST)) == sum(n for (_, end), n in ends.items() if end == "lost")
    assert recorder.of(EVENT_JOB_ERROR | EVENT_JOB_CANCELLED) == []


def test_resources_that_nobody_has_leave_runs_in_the_store_until_a_worker_brings_them(
    cluster, started, host, new_run, jobs, caplog
):
    executor = started(DaskExecutor(cluster.address, resources={"GPU": 1}))
    executor.look_seconds = 0.2
    wait_until(lambda: "resources" in caplog.text, "nobody says so")
    assert "no worker of the Dask cluster has resources {'GPU': 1}" in caplog.text
    assert executor.room() == 0

    cluster.add_worker("--resources", "GPU=1")

    wait_until(lambda: executor.room() == 1, "the worker does not come")
    executor.submit(run := new_run(jobs.add, 41))
    assert host.outcome_of(run).result == 42


def test_a_scheduler_of_dask_that_dies_loses_its_runs_and_is_used_again_when_it_is_back(
    cluster, executor, host, new_run, jobs, tmp_path
):
    run = new_run(jobs.note_pid_and_wait, str(tmp_path / "pids"))
    executor.submit(run)
    wait_until((tmp_path / "pids").exists, "the job does not begin")

    cluster.kill(cluster.scheduler)

    assert host.outcome_of(run).kind is OutcomeKind.LOST
    wait_until(lambda: executor.room() == 0, "it does not notice")
    executor.submit(early := new_run(jobs.add, 1))
    put_back = host.outcome_of(early)
    assert put_back.kind is OutcomeKind.SNOOZED
    assert put_back.error.seconds == 1.0

    cluster.start_scheduler()
    cluster.add_worker()

    wait_until(lambda: executor.room() == 1, "it does not come back")
    executor.submit(again := new_run(jobs.add, 41))
    assert host.outcome_of(again).result == 42


def test_what_a_worker_has_room_for():
    worker = {"status": "running", "nthreads": 4, "resources": {"GPU": 2, "RAM": 10.0}}

    assert slots_of(worker, None) == 4
    assert slots_of(worker, {"GPU": 1}) == 2
    assert slots_of(worker, {"GPU": 1, "RAM": 6}) == 1
    assert slots_of(worker, {"TPU": 1}) == 0
    assert slots_of({**worker, "status": "closing"}, None) == 0


def test_what_cannot_be_a_cluster_or_a_need_is_refused_at_once():
    with pytest.raises(TypeError, match="address must be that of a Dask scheduler or a Client, got int"):
        DaskExecutor(8786)
    with pytest.raises(InvalidArgument, match=r"resources\['GPU'\] must be a number above zero, got 0"):
        DaskExecutor("tcp://127.0.0.1:8786", resources={"GPU": 0})
