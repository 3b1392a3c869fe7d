"""``goscheduler grpc``: a real process that serves real stores."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import warm
from certificates import Authority

from goscheduler import BackgroundScheduler
from goscheduler.messages import MessageScheduler
from goscheduler.ops.access import Role
from goscheduler.ops.source import Source
from goscheduler.ops.tokens import FileTokens, StoreTokens, add_token
from goscheduler.rpc.gen import operations_pb2 as pb
from goscheduler.rpc.gen import operations_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc

pytestmark = pytest.mark.serial

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0


def work():
    """Do nothing."""


class Command:
    """``goscheduler grpc`` in a process of its own."""

    def __init__(self, folder, *arguments):
        self._process = warm.start(
            "-u", "-m", "goscheduler", "grpc", *arguments, cwd=folder, stdin=warm.PIPE, stdout=warm.PIPE,
            stderr=warm.STDOUT, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def address(self):
        """Return where it listens, as soon as it does."""
        for line in self._process.stdout:
            if line.startswith("Listening on "):
                return f"localhost:{line.split()[4].rstrip(';')}"
        raise AssertionError("it has ended")

    def send(self, number):
        self._process.send_signal(number)

    def end(self):
        """Return the exit code, and what was printed."""
        printed = self._process.stdout.read()
        return self._process.wait(), printed

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def command(tmp_path):
    started = []

    def start(*arguments):
        started.append(Command(tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def filled():
    """Fill a store with a job and a message."""

    def fill(url):
        scheduler = BackgroundScheduler(jobstores={"default": url}, timezone="UTC")
        scheduler.start(paused=True)
        scheduler.add_job(work, "interval", hours=1, id="hourly")
        front = MessageScheduler(scheduler=scheduler)
        message_id = front.schedule_after("1h", "order.paid", {"n": 1})
        scheduler.shutdown()
        return message_id

    return fill


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_a_store_is_served_until_a_signal(command, url_of, filled, connected, kind):
    url = url_of(kind)
    message_id = filled(url)
    served = command("--store", url, "--port", "0")
    channel = connected(served.address())
    calls = operations_pb2_grpc.OperationsServiceStub(channel)
    job = calls.GetJob(pb.GetJobRequest(id="hourly"), timeout=PATIENCE)
    assert (job.id, job.state) == ("hourly", "scheduled")
    assert list(calls.PauseJobs(pb.PauseJobsRequest(ids=["hourly"]), timeout=PATIENCE).changed) == ["hourly"]
    seed = scheduler_pb2_grpc.SchedulerServiceStub(channel)
    assert seed.Get(scheduler_pb2.GetRequest(id=message_id), timeout=PATIENCE).message.payload == b'{"n":1}'
    assert seed.List(scheduler_pb2.ListRequest(), timeout=PATIENCE).total_count == 1
    served.send(signal.SIGTERM if kind == "redis" else signal.SIGINT)
    assert served.end() == (0, "")


def test_tokens_of_the_store_and_of_a_file_let_in(command, url_of, filled, connected, tmp_path):
    url = url_of("sqlite")
    filled(url)
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start(paused=True)
    now = scheduler.clock.now()
    _, of_store = add_token(StoreTokens(Source(scheduler)), "ann", Role.VIEWER, now)
    _, of_file = add_token(FileTokens(tmp_path / "tokens.json"), "ann", Role.VIEWER, now)
    scheduler.shutdown()
    for given, token, other in (("store", of_store, of_file), ("tokens.json", of_file, of_store)):
        served = command("--store", url, "--port", "0", "--tokens", given)
        calls = operations_pb2_grpc.OperationsServiceStub(connected(served.address()))
        assert _code(calls, token) is None
        assert _code(calls, other) is _code(calls, None) is grpc.StatusCode.UNAUTHENTICATED


def _code(calls, token):
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    try:
        calls.CountJobs(pb.CountJobsRequest(), metadata=metadata, timeout=PATIENCE)
    except grpc.RpcError as error:
        return error.code()
    return None


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_client_certificates_have_the_roles_that_the_options_say(command, url_of, filled, connected, tmp_path):
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.issue("localhost")
    url = url_of("sqlite")
    filled(url)
    served = command(
        "--store", url, "--host", "0.0.0.0", "--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key),
        "--client-ca", str(authority.certificate), "--operator", "ann",
    )  # fmt: skip
    address = served.address()
    codes = {}
    for name in ("ann", "bob"):
        own, own_key = authority.issue(name)
        credentials = grpc.ssl_channel_credentials(
            authority.certificate.read_bytes(), own_key.read_bytes(), own.read_bytes()
        )
        calls = operations_pb2_grpc.OperationsServiceStub(connected(address, credentials))
        assert calls.CountJobs(pb.CountJobsRequest(), timeout=PATIENCE).number == 2
        try:
            calls.PauseJobs(pb.PauseJobsRequest(ids=["hourly"]), timeout=PATIENCE)
        except grpc.RpcError as error:
            codes[name] = error.code()
    assert codes == {"bob": grpc.StatusCode.PERMISSION_DENIED}


def test_a_scheduler_of_a_module_is_served_and_read_only_changes_nothing(command, url_of, filled, connected, tmp_path):
    url = url_of("sqlite")
    filled(url)
    (tmp_path / "served_app.py").write_text(
        "from goscheduler import BackgroundScheduler\n"
        f"scheduler = BackgroundScheduler(jobstores={{'default': {url!r}}})\n",
        encoding="utf-8",
    )
    served = command("--app", "served_app:scheduler", "--port", "0")
    calls = operations_pb2_grpc.OperationsServiceStub(connected(served.address()))
    assert calls.CountJobs(pb.CountJobsRequest(), timeout=PATIENCE).number == 2
    served.send(signal.SIGTERM)
    assert served.end()[0] == 0
    served = command("--store", url, "--port", "0", "--read-only")
    calls = operations_pb2_grpc.OperationsServiceStub(connected(served.address()))
    with pytest.raises(grpc.RpcError) as caught:
        calls.PauseJobs(pb.PauseJobsRequest(ids=["hourly"]), timeout=PATIENCE)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_a_port_that_is_taken_is_one_clear_line(command, url_of, filled):
    url = url_of("sqlite")
    filled(url)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, printed = command("--store", url, "--port", str(port)).end()
    assert (code, printed) == (1, f"Error: cannot listen on 127.0.0.1 port {port}: Address already in use\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--host", "0.0.0.0"], "--tls-cert"),
        (["--host", "0.0.0.0", "--insecure"], "--tokens"),
        (["--tls-cert", "x.pem"], "--tls-key"),
        (["--tls-cert", "x.pem", "--tls-key", "x.key"], "there is no file x.pem"),
        (["--client-ca", "x.pem"], "--tls-cert"),
        (["--tokens", "nowhere.json"], "there is no file nowhere.json"),
        (["--role", "king"], "viewer, operator, admin"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_settings_that_make_no_sense_are_one_line(arguments, told, tmp_path):
    from typer.testing import CliRunner

    from goscheduler.cli.app import app

    result = CliRunner().invoke(app, ["grpc", "--store", f"sqlite:///{tmp_path}/jobs.db", *arguments])
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_grpc_the_command_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['grpc'] = None; from goscheduler.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "grpc", "--store", "sqlite:///jobs.db"], cwd=tmp_path, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'Error: gRPC needs grpcio and protobuf: pip install "goscheduler[grpc]"\n'
