"""Jobs as Kubernetes Jobs, on a server that runs the commands of pods as processes."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path

import pytest
from dask_cluster import wait_until
from fake_kubernetes import FakeKubernetes

from goscheduler.errors import InvalidArgument
from goscheduler.executors.pool import WorkerDied
from goscheduler.runs.model import OutcomeKind

pytest.importorskip("kubernetes")
from kubernetes.client import ApiClient, Configuration

from goscheduler.executors.kubernetes import KubernetesExecutor, decoded

pytestmark = pytest.mark.serial

TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "main", "image": "app", "command": [sys.executable, "-m", "goscheduler", "run-one"], "env": []}
        ]
    }
}


@pytest.fixture
def cluster(tmp_path):
    cluster = FakeKubernetes(tmp_path, str(Path(__file__).parent))
    yield cluster
    cluster.close()


@pytest.fixture
def make(cluster, host):
    """A function that starts an executor on the cluster."""
    clients, executors = [], []

    def start():
        clients.append(ApiClient(Configuration(host=cluster.url)))
        executor = KubernetesExecutor(TEMPLATE, max_jobs=3, api_client=clients[-1])
        executor.look_seconds = 0.1
        executor.start(host, "pods")
        executors.append(executor)
        wait_until(lambda: executor.room() == 3, "it does not connect")
        return executor

    yield start
    for executor in executors:
        executor.shutdown(wait=False)
    for client in clients:
        client.close()


def test_a_job_brings_its_result_its_error_or_what_fits_of_them_and_is_deleted(cluster, make, host, new_run, jobs):
    executor = make()
    runs = [new_run(jobs.add, 41), new_run(jobs.fail, "on purpose"), new_run(jobs.end_at_once, 3)]
    for run in runs:
        executor.submit(run)
    wait_until(lambda: executor.room() == 0, "it has room")
    total, error, dead = (host.outcome_of(run) for run in runs)

    assert total.result == 42
    assert isinstance(error.error, ValueError)
    assert "in fail" in error.traceback
    assert (dead.kind, type(dead.error), dead.error.exit_code) == (OutcomeKind.FAILED, WorkerDied, 3)
    executor.submit(long := new_run(jobs.fail, "x" * 5000))
    assert "characters left out" in str(host.outcome_of(long).error)
    wait_until(lambda: not cluster.pods, "jobs stay")


def test_a_deploy_in_the_middle_of_a_job_does_not_disturb_it(cluster, make, host, new_run, jobs, fifo):
    before = make()
    run = new_run(jobs.tell_and_wait_for_answer, told := fifo("told"), answer := fifo("answer"), fence=1)
    before.submit(run)
    with open(told) as file:
        pid = int(file.read())

    before.shutdown()

    assert host.outcome_of(run).kind is OutcomeKind.SNOOZED
    os.kill(pid, 0)
    after = make()
    after.submit(again := run._replace(fence=2))
    wait_until(lambda: after._flights and next(iter(after._flights.values())).work, "it is not found again")
    with open(answer, "w") as file:
        file.write("as if nothing had been")
    assert host.outcome_of(again).result == "as if nothing had been"
    assert cluster.created == 1


def test_a_run_is_cancelled_let_go_or_lost_with_its_job(cluster, make, host, new_run, jobs, tmp_path):
    executor = make()
    runs = [new_run(jobs.note_pid_and_wait, str(tmp_path / f"pid-{number}")) for number in range(3)]
    for run in runs:
        executor.submit(run)
    wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 3, "not all begin")

    assert executor.cancel(runs[0], "enough of it")
    assert executor.let_go(runs[1], "its lease was lost")

    assert host.outcome_of(runs[0]).reason == "enough of it"
    assert host.outcome_of(runs[1]).kind is OutcomeKind.SNOOZED
    assert len(cluster.pods) == 2
    cluster.disrupt()
    lost = host.outcome_of(runs[2])
    assert lost.kind is OutcomeKind.LOST
    assert "DeletionByTaintManager" in lost.reason


def test_a_pod_that_is_told_to_end_ends_its_job_at_once_and_says_so(
    cluster, make, host, new_run, jobs, fifo, tmp_path
):
    executor = make()
    run = new_run(jobs.wait_and_note_the_end, told := fifo("told"), str(seen := tmp_path / "seen"))
    executor.submit(run)
    with open(told) as file:
        pid = int(file.read())
    (pod,) = cluster.pods.values()

    os.kill(pid, signal.SIGTERM)

    outcome = host.outcome_of(run)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.LOST, "its pod was told to end by somebody else")
    assert seen.read_text() == "its process was told to end by SIGTERM"
    reply = pickle.loads(decoded(pod.reply.read_text()))
    assert (reply.kind, reply.reason) == (OutcomeKind.CANCELLED, "its process was told to end by SIGTERM")
    assert "in tell_pid_and_wait" in reply.traceback
    assert pod.process.returncode == 0


def test_what_a_quota_refuses_goes_back_for_half_a_minute(cluster, make, host, new_run, jobs):
    executor = make()
    cluster.refuses = 403
    executor.submit(run := new_run(jobs.add, 41))

    outcome = host.outcome_of(run)

    assert (outcome.kind, outcome.error.seconds) == (OutcomeKind.SNOOZED, 30.0)
    assert "403" in outcome.reason
    executor.submit(large := new_run(jobs.add, "x" * 200_000))
    assert "100000 is the limit" in str(host.outcome_of(large).error)


def test_a_job_that_was_created_without_an_answer_is_found_again(cluster, make, host, new_run, jobs):
    executor = make()
    cluster.cuts = 1
    executor.submit(run := new_run(jobs.add, 41, fence=1))

    put_back = host.outcome_of(run)

    assert (put_back.kind, put_back.error.seconds) == (OutcomeKind.SNOOZED, 1.0)
    assert "Kubernetes does not answer" in put_back.reason
    executor.submit(again := run._replace(fence=2))
    assert host.outcome_of(again).result == 42
    assert cluster.created == 1


def test_what_the_server_refuses_when_a_job_is_to_be_found_again_goes_back(cluster, make, host, new_run, jobs):
    executor = make()
    cluster.refuses = 409  # and there is no such Job when it is asked for
    executor.submit(run := new_run(jobs.add, 41))

    outcome = host.outcome_of(run)

    assert outcome.kind is OutcomeKind.SNOOZED
    assert "404" in outcome.reason


def test_a_run_that_was_told_to_end_is_cancelled_by_a_shutdown_and_its_job_is_not_found_again(
    cluster, make, host, new_run, jobs, fifo
):
    executor = make()
    executor.submit(run := new_run(jobs.tell_pid_and_wait, told := fifo("told")))
    with open(told) as file:
        file.read()

    executor.cancel(run, "enough of it")
    executor.shutdown()

    assert (host.outcome_of(run).kind, host.outcome_of(run).reason) == (OutcomeKind.CANCELLED, "enough of it")
    assert not cluster.pods


def test_a_template_without_a_container_is_refused_at_once():
    with pytest.raises(InvalidArgument, match="pod_template must be a pod template"):
        KubernetesExecutor({"spec": {"containers": []}})
