"""An executor on Kubernetes: each attempt is a Job.

A Job is named after its run and attempt, and not after its fence. It outlives the scheduler that has created it: a run
that goes back to the store, because its scheduler ends or has lost its lease, finds its Job again when it is handed
over the next time, and waits for that one. A Job is deleted once its end is known, so that nobody finds it twice.
"""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kubernetes import client as api
from kubernetes import config as settings
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, described
from goscheduler.executors._failures import WorkerDied
from goscheduler.executors._packed import TERMINATED
from goscheduler.executors._remote import PUT_BACK_SECONDS, EngineRefused, Flight, RemoteExecutor
from goscheduler.executors._workers import ABORT_SECONDS, SHUT_DOWN
from goscheduler.executors.call import cancelled, failed, snoozed
from goscheduler.executors.pool import positive_int
from goscheduler.runs.model import OutcomeKind

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

__all__ = ["KubernetesExecutor"]

CALL_VARIABLE = "GOSCHEDULER_CALL"
LABEL = "goscheduler-executor"
#: An environment variable can have 128 kB on Linux.
MAX_CALL = 100_000
#: How long a finished Job stays of which no scheduler wants to know any more.
KEPT_SECONDS = 86_400
#: The delay of a run that a quota or the API server refuses.
REFUSED_SECONDS = 30.0
LOOK_SECONDS = 1.0
ANSWER_SECONDS = 10.0
GOES_ON = "its Kubernetes Job goes on, and is found again by the scheduler that gets the run"
#: Why a pod is gone that did nothing wrong.
_DISRUPTED = frozenset({"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})


class KubernetesExecutor(RemoteExecutor):
    """Runs jobs as Kubernetes Jobs in ``namespace``, at most ``max_jobs`` at a time.

    ``pod_template`` is a pod template as in a manifest. Its first container runs the job: an image with your code and
    ``goscheduler[cli]``. ``api_client`` is a client of yours; without one the settings of the pod that this runs in are
    used, or your kubeconfig.
    """

    look_seconds = LOOK_SECONDS
    grace_seconds = 40.0
    """Longer than the 30 seconds that Kubernetes gives a pod after SIGTERM."""

    def __init__(
        self,
        pod_template: Mapping[str, Any],
        namespace: str = "default",
        max_jobs: int | str = 10,
        api_client: api.ApiClient | None = None,
    ) -> None:
        self._template = checked_template(pod_template)
        self._namespace = namespace
        self._max_jobs = positive_int("max_jobs", max_jobs)
        self._client = api_client

    def let_go(self, run: Run, reason: str) -> bool:
        """Leave the Job of a run alone, for the scheduler that gets the run next."""
        flight = self._flight_of(run)
        if flight is not None:
            self._leave(flight)
        return flight is not None

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        """Stop taking runs, and leave the Jobs that go on to the scheduler that gets their runs next.

        It waits for none of them, with ``wait`` or without: a deploy need not last as long as the longest Job.
        """
        super().shutdown(wait=False)

    def _prepare(self) -> None:
        if self._client is None:
            try:
                settings.load_incluster_config()
            except settings.ConfigException:
                settings.load_kube_config()
            self._client = api.ApiClient()
        self._jobs, self._pods = api.BatchV1Api(self._client), api.CoreV1Api(self._client)

    def _count_slots(self) -> int:
        found = self._jobs.list_namespaced_job(
            self._namespace, label_selector=f"{LABEL}={self._alias}", _request_timeout=ANSWER_SECONDS
        )
        jobs = {job.metadata.name: job for job in found.items}
        for flight in list(self._flights.values()):
            if flight.work is not None:
                self._look_after(flight, jobs.get(flight.work))
        return self._max_jobs

    def _look_after(self, flight: Flight, job: Any) -> None:
        if job is None:
            self._lost(flight, "its Kubernetes Job was deleted")
        elif (job.status.succeeded or job.status.failed) and self._report_end(flight):
            self._delete(flight.work)

    def _report_end(self, flight: Flight) -> bool:
        """Report a run whose Job has ended; False if it was let go meanwhile, so that another scheduler reports it."""
        pods = self._pods.list_namespaced_pod(
            self._namespace, label_selector=f"job-name={flight.work}", _request_timeout=ANSWER_SECONDS
        ).items
        lost = "its pod is gone" if not pods else disruption_of(pods[0])
        ended = None if not pods else end_of_container(pods[0], self._template["spec"]["containers"][0]["name"])
        reply = decoded(ended.message) if ended is not None else None
        if reply is not None:
            outcome = self._outcome_in(reply, flight)
            if (outcome.kind, outcome.reason) == (OutcomeKind.CANCELLED, TERMINATED):
                return self._lost(flight, lost or "its pod was told to end by somebody else")
            return self._end(flight, outcome)
        if lost or ended is None:
            return self._lost(flight, lost or "its pod has ended without its container")
        if flight.told is not None:
            return self._end(flight, cancelled(flight.told, flight.started_at, flight.seconds()))
        text = f"the container ended with exit code {ended.exit_code} ({ended.reason}) and no reply"
        error = WorkerDied(text, ended.exit_code)
        return self._end(flight, failed(error, flight.started_at, flight.seconds(), "the container died"))

    def _send(self, flight: Flight, message: bytes) -> None:
        run, name = flight.run, name_of(flight.run)
        call = base64.b64encode(message).decode()
        if len(call) > MAX_CALL:
            raise InvalidArgument(
                f"job {run.job.id!r} cannot be sent to Kubernetes: its packed call has {len(call)} characters, and "
                f"{MAX_CALL} is the limit. Keep the data elsewhere and pass where it is",
                field="args",
            )
        job = self._job(run, name, call)
        try:
            self._create_or_adopt(run, name, job)
        except ApiException as error:
            raise EngineRefused(f"Kubernetes refuses it: {error.status} {error.reason}", REFUSED_SECONDS) from error
        except (HTTPError, OSError) as error:
            # It may have been created: whoever gets the run next uses the same name, and finds it then.
            raise EngineRefused(f"Kubernetes does not answer: {described(error)}") from error
        flight.work = name

    def _create_or_adopt(self, run: Run, name: str, job: dict[str, Any]) -> None:
        try:
            self._jobs.create_namespaced_job(self._namespace, job, _request_timeout=ANSWER_SECONDS)
        except ApiException as error:
            if error.status != 409:
                raise
            self._adopt(run, name)

    def _adopt(self, run: Run, name: str) -> None:
        job = self._jobs.read_namespaced_job(name, self._namespace, _request_timeout=ANSWER_SECONDS)
        if job.metadata.deletion_timestamp is not None:
            raise EngineRefused("the Kubernetes Job of its last attempt is being deleted", PUT_BACK_SECONDS)
        self._logger.info("Run %s of job %s goes on in Kubernetes Job %s", run.id, run.job.id, name)

    def _job(self, run: Run, name: str, call: str) -> dict[str, Any]:
        template = copy.deepcopy(self._template)
        labels = {LABEL: self._alias}
        template["metadata"] = {**template.get("metadata", {})}
        template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), **labels}
        container = template["spec"]["containers"][0]
        container.setdefault("command", ["goscheduler", "run-one"])
        container["env"] = [*container.get("env", []), {"name": CALL_VARIABLE, "value": call}]
        spec: dict[str, Any] = {"backoffLimit": 0, "ttlSecondsAfterFinished": KEPT_SECONDS, "template": template}
        timeout = getattr(getattr(run.job, "options", None), "timeout", None)
        if timeout is not None:
            spec["activeDeadlineSeconds"] = int(timeout + 2 * self.grace_seconds) + 1
        notes = {"goscheduler/job": run.job.id, "goscheduler/run": run.id}
        return {
            "apiVersion": "batch/v1", "kind": "Job", "spec": spec,
            "metadata": {"name": name, "labels": labels, "annotations": notes},
        }  # fmt: skip

    def _tell_to_end(self, flight: Flight, reason: str) -> None:
        if flight.work is not None:
            self._delete(flight.work)  # its pod gets SIGTERM; the end is seen when the Job is gone

    def _drop(self, flight: Flight) -> None:
        if flight.work is not None:
            self._delete(flight.work, grace_period_seconds=0)
        self._end(flight, cancelled(flight.told or "the run was given up", flight.started_at, flight.seconds()))

    def _delete(self, name: str, **options: Any) -> None:
        try:
            self._jobs.delete_namespaced_job(
                name, self._namespace, propagation_policy="Foreground", _request_timeout=ANSWER_SECONDS, **options
            )
        except ApiException as error:
            if error.status != 404:
                raise

    def _end_flights(self) -> None:
        for flight in list(self._flights.values()):
            if flight.told is not None:  # its Job is being deleted, and must not be found again
                self._end(flight, cancelled(flight.told, flight.started_at, flight.seconds()))
            else:
                self._leave(flight)
        self._wait_for_flights(SYSTEM_CLOCK.monotonic() + ABORT_SECONDS)

    def _leave(self, flight: Flight) -> None:
        flight.work = None  # what waits in the queue of the thread must not delete a Job that is another scheduler's
        self._end(flight, snoozed(GOES_ON if flight.begun else SHUT_DOWN))


def name_of(run: Run) -> str:
    """Return the name of the Job of an attempt, also of one that another scheduler has begun."""
    return f"gs-{hashlib.sha256(run.id.encode()).hexdigest()[:24]}-{run.attempt}"


def checked_template(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod template whose pods are not restarted."""
    containers = given.get("spec", {}).get("containers") if isinstance(given, Mapping) else None
    if not containers or not containers[0].get("name") or not containers[0].get("image"):
        raise InvalidArgument(
            "pod_template must be a pod template with spec.containers, of which the first has a name and an image",
            field="pod_template",
        )
    template: dict[str, Any] = copy.deepcopy(dict(given))
    template["spec"] = {**template["spec"], "restartPolicy": "Never"}
    return template


def disruption_of(pod: Any) -> str:
    """Return why Kubernetes took a pod away, or nothing if it did not."""
    for each in pod.status.conditions or []:
        if each.type == "DisruptionTarget" and each.status == "True":
            return f"its pod was disrupted: {each.reason}"
    return f"its pod was lost: {pod.status.reason}" if pod.status.reason in _DISRUPTED else ""


def end_of_container(pod: Any, name: str) -> Any:
    """Return how the container that runs the job ended, or None; a sidecar may go on."""
    states = [each.state for each in pod.status.container_statuses or [] if each.name == name]
    return states[0].terminated if states and states[0] is not None else None


def decoded(message: str | None) -> bytes | None:
    """Return the reply in a termination message, or None if it is something else."""
    try:
        return base64.b64decode((message or "").encode(), validate=True) or None
    except (binascii.Error, ValueError):
        return None
