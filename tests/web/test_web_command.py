"""``goscheduler web`` and ``goscheduler token`` as people run them."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import warm
from typer.testing import CliRunner

from goscheduler import BackgroundScheduler
from goscheduler.cli.app import app as commands

ROOT = Path(__file__).resolve().parent.parent.parent
READY_WITHIN = 60


def work(number):
    """Do nothing."""


@pytest.fixture
def url(tmp_path):
    found = f"sqlite:///{tmp_path}/jobs.db"
    scheduler = BackgroundScheduler(jobstores={"default": found})
    scheduler.start(paused=True)
    scheduler.add_job(work, "interval", hours=1, id="a/b", args=[1])
    scheduler.shutdown()
    return found


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("GOSCHEDULER_APP", "GOSCHEDULER_STORE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        return CliRunner().invoke(commands, list(arguments), catch_exceptions=False)

    return run


class Web:
    """The command in a process of its own."""

    def __init__(self, folder, *arguments):
        self._process = warm.start(
            "-u", "-m", "goscheduler", "web", "--port", "0", *arguments, cwd=folder, stdin=warm.DEVNULL,
            stdout=warm.PIPE, stderr=warm.STDOUT, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self.lines = []
        while "Listening on" not in (line := self._process.stdout.readline()):
            assert line, "".join(self.lines)
            self.lines.append(line)
        self.address = line.split("Listening on ")[1].split(";")[0]

    def get(self, path, context=None, **headers):
        request = urllib.request.Request(
            self.address + path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        try:
            with urllib.request.urlopen(request, timeout=READY_WITHIN, context=context) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def stop(self, number=signal.SIGINT):
        """End it, and return its exit code and whatever it has said."""
        self._process.send_signal(number)
        said = self._process.stdout.read()
        return self._process.wait(READY_WITHIN), said

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def web(tmp_path):
    started = []

    def start(*arguments):
        started.append(Web(tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.mark.serial
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_serves_a_store_and_ends_quietly_at_a_signal(web, url, number):
    served = web("--store", url)
    assert served.get("v1/jobs/a%2Fb")[1]["id"] == "a/b"
    assert served.get("v1/health")[0] == 200
    assert served.stop(number) == (0, "")


@pytest.mark.serial
def test_it_ends_although_somebody_watches(web, url):
    served = web("--store", url)
    with urllib.request.urlopen(f"{served.address}v1/events?topics=jobs", timeout=READY_WITHIN) as stream:
        assert stream.readline() == b"retry: 3000\n"
        assert served.stop() == (0, "")
        assert stream.read().strip() == b""


@pytest.mark.serial
def test_everything_can_be_below_a_path(web, url):
    served = web("--store", url, "--root-path", "/a/b/")
    assert served.address.endswith("/a/b/")
    assert served.get("v1/jobs/a%2Fb")[1]["id"] == "a/b"
    assert served.get("v1/openapi.json")[1]["servers"] == [{"url": "/a/b"}]
    served.address = served.address.removesuffix("a/b/")
    with pytest.raises(json.JSONDecodeError):
        served.get("v1/jobs")


@pytest.mark.serial
def test_with_tokens_of_the_store_only_they_get_in_and_the_command_is_in_the_audit(web, url, run):
    shown = run("token", "add", "ann", "--store", url, "--role", "operator", "--expires", "1d").stdout.strip()
    served = web("--store", url, "--tokens", "store")
    assert served.get("v1/jobs")[0] == 401
    assert served.get("v1/jobs", authorization=f"Bearer {shown}")[0] == 200
    (row,) = json.loads(run("token", "list", "--store", url, "--json").stdout)
    assert (row["name"], row["role"], row["id"]) == ("ann", "operator", shown.split("_")[1])
    assert shown.split("_", 2)[2] not in run("token", "list", "--store", url, "--json").stdout
    assert run("token", "revoke", row["id"], "--store", url).exit_code == 0
    assert served.get("v1/jobs", authorization=f"Bearer {shown}")[0] == 401
    assert run("token", "revoke", row["id"], "--store", url).exit_code == 1
    entries = json.loads(run("audit", "--store", url, "--json").stdout)["items"]
    assert [entry["operation"] for entry in entries] == ["revoke_token", "add_token"]


@pytest.mark.serial
def test_with_tokens_of_a_file_no_store_is_written(web, url, run, tmp_path):
    file = tmp_path / "tokens.json"
    shown = run("token", "add", "ann", "--file", str(file)).stdout.strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    served = web("--store", url, "--tokens", str(file), "--read-only")
    assert served.get("v1/jobs", authorization=f"Bearer {shown}")[0] == 200
    assert run("token", "revoke", shown.split("_")[1], "--file", str(file)).exit_code == 0
    assert served.get("v1/jobs", authorization=f"Bearer {shown}")[0] == 401
    assert json.loads(file.read_text()) == {"tokens": []}


@pytest.mark.serial
def test_it_serves_tls(web, url, tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    served = web("--store", url, "--tls-cert", "cert.pem", "--tls-key", "key.pem")
    assert served.address.startswith("https://")
    assert served.get("v1/jobs", ssl.create_default_context(cafile=str(tmp_path / "cert.pem")))[0] == 200


@pytest.mark.serial
def test_a_scheduler_of_a_module_is_looked_into_without_firing(web, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from goscheduler import BackgroundScheduler\n"
        "scheduler = BackgroundScheduler(jobstores={'default': 'sqlite:///own.db'})\n"
    )
    served = web("--app", "mine:scheduler")
    assert served.get("v1/jobs")[1]["items"] == []
    assert served.stop()[0] == 0


def test_on_another_address_it_must_say_who_may_come_in(run, url):
    for host in ("0.0.0.0", "::", "10.0.0.1"):
        done = run("web", "--store", url, "--host", host)
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert "goscheduler token add" in done.stderr


def test_a_port_that_is_taken_is_one_clear_line(run, url):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("web", "--store", url, "--port", str(port))
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"Error: port {port} of 127.0.0.1 is taken by another program: give another one with --port"
    ]


@pytest.mark.parametrize(("arguments", "told"), [
    (["--root-path", "jobs"], "--root-path"), (["--root-path", "/a//b"], "--root-path"),
    (["--root-path", "/a?b"], "--root-path"), (["--root-path", "/a\r\nb"], "--root-path"),
    (["--tls-cert", "cert.pem"], "together"), (["--tls-cert", "no.pem", "--tls-key", "no.pem"], "no.pem"),
    (["--tokens", "nowhere.json"], "nowhere.json"), (["--auth-header", "X-User"], "--trusted-proxy"),
    (["--auth-header", "X-User", "--tokens", "store"], "--trusted-proxy"),
    (["--trusted-proxy", "10.0.0.0/8"], "--auth-header"),
    (["--auth-header", "X-User", "--trusted-proxy", "everybody"], "trusted_proxies"), (["--role", "king"], "--role"),
    (["--host", "203.0.113.1", "--tokens", "store"], "cannot listen"), (["--log-level", "loud"], "--log-level"),
])  # fmt: skip
def test_what_makes_no_sense_is_told_in_one_line(run, url, arguments, told):
    done = run("web", "--store", url, "--port", "0", *arguments)
    assert done.exit_code in (1, 2)
    assert len(done.stderr.splitlines()) == 1
    assert told in done.stderr


def test_a_password_is_asked_for_and_not_shown(run, tmp_path):
    file = tmp_path / "tokens.json"
    done = CliRunner().invoke(
        commands, ["token", "add", "ann", "--password", "--file", str(file)], input="correct horse\ncorrect horse\n"
    )
    assert done.exit_code == 0
    assert done.stdout.split()[-1].startswith("gst_")
    assert "horse" not in done.output + file.read_text()
    assert "scrypt" not in run("token", "list", "--file", str(file), "--json").stdout


def test_a_token_has_a_name_a_role_and_an_end_that_make_sense(run, tmp_path):
    file = ["--file", str(tmp_path / "tokens.json")]
    for arguments in (["", *file], ["a\nb", *file], ["ann", "--role", "king", *file], ["ann", "--expires", "x", *file]):
        assert run("token", "add", *arguments).exit_code == 2
    (tmp_path / "tokens.json").write_text("no JSON")
    done = run("token", "list", *file)
    assert (done.exit_code, "tokens.json" in done.stderr) == (1, True)
