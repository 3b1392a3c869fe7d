"""As much of the API of Kubernetes as Jobs need. The command of a pod runs as a process of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATIENCE = 60


class Pod:
    """A Job and the one process of its one pod."""

    def __init__(self, job: dict[str, Any], folder: Path, path: str) -> None:
        self.job = job
        self.reply = Path(tempfile.mkstemp(dir=folder)[1])
        self.disrupted = False
        (container,) = job["spec"]["template"]["spec"]["containers"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        self.process = subprocess.Popen(
            container["command"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, **environment, "GOSCHEDULER_REPLY": str(self.reply)},
        )  # fmt: skip

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def as_job(self) -> dict[str, Any]:
        code = self.process.poll()
        status = {} if code is None else {"failed": 1} if code or self.disrupted else {"succeeded": 1}
        return {**self.job, "status": status}

    def as_pod(self) -> dict[str, Any]:
        code, name = self.process.poll(), self.job["metadata"]["name"]
        state: dict[str, Any] = {"running": {}}
        if code is not None:
            code = 128 - code if code < 0 else code
            state = {"terminated": {"exitCode": code, "reason": "Error", "message": self.reply.read_text()}}
        conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
        return {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-x", "labels": {"job-name": name}},
            "status": {
                "conditions": conditions if self.disrupted else [],
                "containerStatuses": [
                    {"name": "main", "image": "app", "imageID": "", "ready": False, "restartCount": 0, "state": state}
                ],
            },
        }  # fmt: skip


class FakeKubernetes:
    """The server. ``created`` counts Jobs, ``pods`` has those that are there, by name."""

    def __init__(self, folder: Path, path: str) -> None:
        self.pods: dict[str, Pod] = {}
        self.created = 0
        self.refuses = 0
        """The status with which Jobs are refused; 0 for none."""
        self.cuts = 0
        """How many Jobs are to be created without an answer: the connection is closed instead."""
        self._folder, self._path = folder, path
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(*server.read(urlsplit(self.path)))

            def do_POST(self) -> None:
                answer = server.create(json.loads(self._body()))
                if server.cuts:
                    server.cuts -= 1
                    self.close_connection = True
                else:
                    self._answer(*answer)

            def do_DELETE(self) -> None:
                self._body()
                self._answer(*server.delete(urlsplit(self.path).path.rsplit("/", 1)[-1]))

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def _answer(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def create(self, job: dict[str, Any]) -> tuple[int, object]:
        name = job["metadata"]["name"]
        if self.refuses:
            return self.refuses, _status(self.refuses, "Forbidden")
        if name in self.pods:
            return 409, _status(409, "AlreadyExists")
        self.created += 1
        self.pods[name] = Pod(job, self._folder, self._path)
        return 201, self.pods[name].as_job()

    def read(self, url: Any) -> tuple[int, object]:
        kind, _, name = url.path.partition("/namespaces/default/")[2].partition("/")
        if name:
            return (200, self.pods[name].as_job()) if name in self.pods else (404, _status(404, "NotFound"))
        label, _, value = parse_qs(url.query)["labelSelector"][0].partition("=")
        if kind == "pods":
            found = [pod.as_pod() for pod in self.pods.values() if pod.job["metadata"]["name"] == value]
            return 200, {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": found}
        jobs = [pod.as_job() for pod in self.pods.values() if pod.job["metadata"]["labels"].get(label) == value]
        return 200, {"apiVersion": "batch/v1", "kind": "JobList", "metadata": {}, "items": jobs}

    def delete(self, name: str) -> tuple[int, object]:
        pod = self.pods.pop(name, None)
        if pod is None:
            return 404, _status(404, "NotFound")
        pod.end(signal.SIGTERM)
        return 200, _status(200, "")

    def disrupt(self) -> None:
        """Take every pod away, as for a node that goes."""
        for pod in list(self.pods.values()):
            pod.disrupted = True
            pod.end(signal.SIGKILL)

    def close(self) -> None:
        for name in list(self.pods):
            self.delete(name)
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(PATIENCE)


def _status(code: int, reason: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Status", "metadata": {}, "code": code, "reason": reason}
