"""The examples of a deployment: each file is checked by what can judge it, each command is run as it stands."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from typer.testing import CliRunner

from goscheduler.alerts import load_config
from goscheduler.alerts.front import check_alerts
from goscheduler.cli.app import app
from goscheduler.observer import Observer

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "examples" / "deploy"
UNIT = (DEPLOY / "goscheduler-worker.service").read_text()
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
DOCUMENTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
KUBERNETES = {each["metadata"]["name"]: each for each in DOCUMENTS if each["kind"] != "Service"}


def pod(name):
    spec = KUBERNETES[name]["spec"]
    template = spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]
    (container,) = template["spec"]["containers"]
    return container


PODS = ("goscheduler-worker", "goscheduler-web", "goscheduler-alerts", "goscheduler-health")
#: Where a command stands → the command.
COMMANDS = {
    "the unit": re.search(r"^ExecStart=\S+/goscheduler (.*)$", UNIT, re.MULTILINE)[1].split(),
    "the image": json.loads(re.search(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[1]),
    **{f"compose: {name}": COMPOSE[name]["command"] for name in ("worker", "web", "alerts")},
    "compose: health": COMPOSE["worker"]["healthcheck"]["test"][2:],
    **{f"pod: {name}": pod(name)["args"] for name in PODS},
}


@pytest.mark.parametrize("where", COMMANDS)
def test_every_option_of_a_command_is_known(where):
    command, *arguments = COMMANDS[where]
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300"}, catch_exceptions=False).stdout
    assert [word for word in arguments if word.startswith("--") and word not in told] == []


def test_the_same_program_runs_wherever_it_is_deployed():
    assert COMMANDS["the image"] == COMMANDS["compose: worker"] == COMMANDS["pod: goscheduler-worker"]
    assert COMMANDS["compose: alerts"] == COMMANDS["pod: goscheduler-alerts"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path):
    program = Path(sys.executable).with_name("goscheduler")
    copy = tmp_path / "goscheduler-worker.service"
    copy.write_text(UNIT.replace("/opt/goscheduler/venv/bin/goscheduler", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"Type=notify", "WatchdogSec=60"} <= set(UNIT.splitlines())


def test_the_image_copies_files_that_there_are_and_installs_extras_that_there_are():
    project = (ROOT / "pyproject.toml").read_text()
    (extras,) = re.findall(r'"goscheduler\[([^"]*)\]" \\', DOCKERFILE)
    assert [extra for extra in extras.split(",") if f"\n{extra} = [" not in project] == []
    (copied,) = re.findall(r"^COPY (.*) \./$", DOCKERFILE, re.MULTILINE)
    assert [name for name in copied.split() if not (DEPLOY / name).is_file()] == []


def test_variables_of_compose_are_explained():
    used = set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "compose.yaml").read_text()))
    assert used == set(re.findall(r"^(\w+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE))
    assert COMPOSE["worker"]["deploy"]["replicas"] == 2


@pytest.mark.parametrize("name", PODS[:2])
def test_probes_of_kubernetes_ask_ports_that_a_container_opens(name):
    container = pod(name)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert str(*ports.values()) in container["args"]
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"]["path"] == path
        assert container[probe]["httpGet"]["port"] in ports


def test_selectors_of_kubernetes_find_the_pods_that_they_are_for():
    for name in PODS[:3]:
        spec = KUBERNETES[name]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    (service,) = [each["spec"] for each in DOCUMENTS if each["kind"] == "Service"]
    assert service["selector"] == KUBERNETES["goscheduler-web"]["spec"]["selector"]["matchLabels"]
    assert service["ports"][0]["targetPort"] == pod("goscheduler-web")["ports"][0]["name"]


def test_prometheus_asks_the_workers_where_they_answer():
    (scrape,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    (found,) = scrape["dns_sd_configs"]
    assert found["names"] == [name for name, service in COMPOSE.items() if name == "worker"]
    assert str(found["port"]) in COMMANDS["compose: worker"]


def test_the_alerts_are_read_and_tell_channels_that_there_are(monkeypatch):
    monkeypatch.setenv("OPS_URL", "mailto:ops@example.com")
    monkeypatch.setenv("HEARTBEAT_URL", "")
    told = load_config(DEPLOY / "alerts.toml")
    check_alerts(told.alerts, told.channels)
    assert "heartbeat" not in told.settings


# Commands as they stand, but for their ports


class Program:
    """A command of a deployment in a process of its own, in the folder of the examples."""

    def __init__(self, command, url):
        ports = {"9108": "0", "8180": "0"}  # which others may have here
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "goscheduler", *(ports.get(word, word) for word in command)], cwd=DEPLOY,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GOSCHEDULER_STORE": url, "HEARTBEAT_URL": "",
                 "OPS_URL": "python:builtins:print", "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip

    def wait_for(self, pattern):
        """Return what a pattern finds in the next line that has it."""
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError("".join(lines))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture
def store(tmp_path):
    """The URL of a store that has its tables."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    with Observer(url):
        return url


@pytest.fixture
def start(tmp_path):
    started = []

    def start(where):
        started.append(Program(COMMANDS[where], f"sqlite:///{tmp_path}/jobs.db"))
        return started[-1]

    yield start
    for program in started:
        if program.process.poll() is None:
            program.process.kill()
        program.process.communicate()


def answer(port, path):
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as found:
            return found.status
    except HTTPError as error:
        with error:
            return error.code


@pytest.mark.serial
def test_a_worker_of_the_image_answers_probes_and_ends_in_good_order(start):
    worker = start("the image")
    port = worker.wait_for(r"http://0\.0\.0\.0:(\d+)/metrics")[1]
    worker.wait_for("Worker started")
    assert [answer(port, path) for path in ("/livez", "/readyz", "/metrics", "/jobs")] == [200, 200, 200, 404]
    for where in ("compose: health", "pod: goscheduler-health"):
        health = start(where)
        output, _ = health.process.communicate(timeout=60)
        assert (health.process.returncode, "healthy" in output) == (0, True), output
    assert worker.end() == 0


@pytest.mark.serial
def test_the_worker_of_the_unit_starts_and_ends(start):
    worker = start("the unit")
    worker.wait_for("Worker started")
    assert worker.end() == 0


@pytest.mark.serial
def test_pages_answer_probes(start, store):
    web = start("compose: web")
    port = web.wait_for(r"Listening on http://[^:]+:(\d+)")[1]
    assert [answer(port, path) for path in ("/livez", "/readyz")] == [200, 200]
    assert web.end() == 0


@pytest.mark.serial
def test_alerts_are_evaluated(start, store):
    alerts = start("compose: alerts")
    alerts.wait_for("Alerts are evaluated")
    assert alerts.end() == 0
