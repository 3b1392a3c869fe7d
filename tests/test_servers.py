"""The servers that tests start for themselves can be relied upon: they come up, keep data, stop and go away."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from server_locks import Hold
from server_process import HOST, Space
from shared_servers import KINDS

FOLDERS = [str(Path(__file__).parent / name) for name in ("servers", "tools")]
PATIENCE = 60

#: Writes one value through a driver, and reads it back.
Notes = tuple[Callable[[str], None], Callable[[], str]]


@contextmanager
def sql_notes(space: Space) -> Iterator[Notes]:
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    engine = create_engine(space.url, poolclass=NullPool)

    def write(value: str) -> None:
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE notes (value VARCHAR(50))"))
            connection.execute(text("INSERT INTO notes VALUES (:value)"), {"value": value})

    def read() -> str:
        with engine.begin() as connection:
            return str(connection.execute(text("SELECT value FROM notes")).scalar_one())

    yield write, read


@contextmanager
def redis_notes(space: Space) -> Iterator[Notes]:
    import redis

    with redis.Redis.from_url(space.url, decode_responses=True) as client:
        yield lambda value: client.set("note", value), lambda: client.get("note")


@contextmanager
def mongodb_notes(space: Space) -> Iterator[Notes]:
    import pymongo

    majority = pymongo.WriteConcern("majority")
    with pymongo.MongoClient(space.url) as client:
        notes: Any = client.get_default_database().get_collection("notes", write_concern=majority)
        yield lambda value: notes.insert_one({"value": value}), lambda: notes.find_one()["value"]


@contextmanager
def etcd_notes(space: Space) -> Iterator[Notes]:
    import etcd3gw

    host, port = space.url.removeprefix("etcd://").split(":")
    client = etcd3gw.client(host=host, port=int(port))
    key = f"/{space.name}/note"
    yield lambda value: client.put(key, value), lambda: client.get(key)[0].decode()
    client.session.close()


@contextmanager
def zookeeper_notes(space: Space) -> Iterator[Notes]:
    from kazoo.client import KazooClient

    client = KazooClient(space.url.removeprefix("zookeeper://"))
    client.start(timeout=PATIENCE)
    path = f"/{space.name}/note"
    yield lambda value: client.create(path, value.encode(), makepath=True), lambda: client.get(path)[0].decode()
    client.stop()
    client.close()


@contextmanager
def rabbitmq_notes(space: Space) -> Iterator[Notes]:
    import kombu

    with kombu.Connection(space.url) as connection:
        notes = connection.SimpleQueue(space.name)

        def read() -> str:
            message = notes.get(timeout=PATIENCE)
            message.requeue()
            return str(message.payload)

        yield lambda value: notes.put(value), read
        notes.close()


@contextmanager
def nats_notes(space: Space) -> Iterator[Notes]:
    import nats

    with closing(asyncio.new_event_loop()) as loop:
        run = loop.run_until_complete
        connection = run(nats.connect(space.url))
        stream = connection.jetstream()

        async def write(value: str) -> None:
            await stream.add_stream(name=space.name, subjects=[space.name])
            await stream.publish(space.name, value.encode())

        async def read() -> str:
            return (await stream.get_last_msg(space.name, space.name)).data.decode()

        yield lambda value: run(write(value)), lambda: run(read())
        run(connection.close())


NOTES = {
    "postgresql": sql_notes,
    "mariadb": sql_notes,
    "redis": redis_notes,
    "mongodb": mongodb_notes,
    "etcd": etcd_notes,
    "zookeeper": zookeeper_notes,
    "rabbitmq": rabbitmq_notes,
    "nats": nats_notes,
}


#: The outage tests kill every kind of server; ``GOSCHEDULER_FULL=1`` tries them here too.
FULL = bool(os.environ.get("GOSCHEDULER_FULL"))


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=sorted(KINDS.keys() - {"rabbitmq"}) if FULL else ["redis", "zookeeper"])
def quick_kind(request: pytest.FixtureRequest) -> str:
    """A kind of server but RabbitMQ: it takes six seconds to start. The tests of its transport kill and freeze it."""
    return str(request.param)


def test_a_shared_server_keeps_its_spaces_apart(kind, shared_server, fresh) -> None:
    server = shared_server(kind)
    for value in ("one", "two"):
        with NOTES[kind](fresh(server)) as (write, read):
            write(value)
            assert read() == value


def test_a_shared_server_cannot_be_killed_by_a_test(shared_server) -> None:
    server = shared_server("redis")
    for end in (server.stop, server.kill, server.freeze, server.restart):
        with pytest.raises(AssertionError, match="private_server"):
            end()
    server.ping()


def test_every_test_of_a_session_gets_the_same_shared_server(shared_server, redis_server) -> None:
    assert shared_server("redis").pid == redis_server.pid


@pytest.mark.serial
def test_a_server_that_was_killed_or_stopped_comes_back_with_its_data(quick_kind, private_server, fresh) -> None:
    server = private_server(quick_kind)
    space = fresh(server)
    with NOTES[quick_kind](space) as (write, _):
        write("kept")
    url = server.url
    for end in (server.kill, server.stop):
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        end()
        assert not any(process.is_running() for process in family)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, server.port), timeout=PATIENCE)
        server.restart()
        assert server.url == url
        with NOTES[quick_kind](space) as (_, read):
            assert read() == "kept"


@pytest.mark.serial
def test_a_frozen_server_answers_only_when_it_thaws(quick_kind, private_server, fresh) -> None:
    server = private_server(quick_kind)
    with NOTES[quick_kind](fresh(server)) as (write, read), ThreadPoolExecutor(1) as pool:
        write("here")
        server.freeze()
        answer = pool.submit(read)
        assert wait([answer], timeout=0.3).not_done
        server.thaw()
        assert answer.result(PATIENCE) == "here"


@pytest.mark.serial
def test_a_private_server_takes_options(private_server) -> None:
    import redis

    server = private_server("redis", "--requirepass", "x", "--appendonly", "no")
    with redis.Redis.from_url(server.url) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    with redis.Redis.from_url(server.url, password="x", decode_responses=True) as client:
        assert client.config_get("appendonly") == {"appendonly": "no"}


@pytest.mark.serial
def test_servers_end_with_a_session_that_was_killed(tmp_path) -> None:
    ended = run_session(
        tmp_path,
        """
        def test_dies(shared_server, private_server):
            servers = shared_server("redis"), private_server("postgresql")
            Path("seen").write_text("".join(f"{server.pid} {server.folder}\\n" for server in servers))
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert ended.returncode == -signal.SIGKILL
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert len(seen) == 2
    for pid, folder in seen:
        eventually(lambda pid=pid, folder=folder: not psutil.pid_exists(int(pid)) and not Path(folder).exists())
    shutil.rmtree(Path(seen[0][1]).parent)


@pytest.mark.serial
def test_worker_processes_share_one_server(tmp_path) -> None:
    ended = run_session(
        tmp_path,
        """
        @pytest.mark.parametrize("number", [pytest.param(n, marks=pytest.mark.xdist_group(str(n))) for n in range(2)])
        def test_notes(number, redis_server, fresh):
            redis_server.ping()
            Path(f"seen{number}").write_text(f"{os.getpid()} {redis_server.pid} {fresh(redis_server).url}")
        """,
        *("-p", "xdist", "-n", "2", "--dist", "loadgroup"),
    )
    assert ended.returncode == 0, ended.stdout
    workers, servers, urls = zip(*(seen.read_text().split() for seen in tmp_path.glob("seen*")), strict=True)
    assert (len(set(workers)), len(set(servers)), len(set(urls))) == (2, 1, 2)
    assert not psutil.pid_exists(int(servers[0])), "the session has left its server behind"


def test_who_holds_a_server_keeps_it_when_another_attempt_of_its_process_to_hold_it_ends(tmp_path) -> None:
    asked = [sys.executable, "-c", "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"]
    path = tmp_path / "server.users"

    def is_held() -> bool:
        return subprocess.run([*asked, str(path)], capture_output=True, check=False).returncode != 0

    hold, other = Hold(path), Hold(path)
    other.release()
    path.read_bytes()
    assert is_held()
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    assert is_held()
    hold.release()
    assert not is_held()


@pytest.mark.serial
def test_a_shared_server_that_has_ended_by_itself_is_started_again_and_told_of(tmp_path) -> None:
    ended = run_session(
        tmp_path,
        """
        @pytest.mark.parametrize("number", range(3))
        def test_ends(number, redis_server):
            redis_server.ping()
            Path(f"seen{number}").write_text(str(redis_server.pid))
            process = psutil.Process(redis_server.pid)
            process.kill()
            process.wait()
        """,
    )
    assert ended.returncode == 0, ended.stdout
    assert len({(tmp_path / f"seen{number}").read_text() for number in range(3)}) == 3
    assert ended.stdout.count("redis has ended by itself, and was started again") == 2


@pytest.mark.serial
@pytest.mark.parametrize(
    ("ci", "outcome", "told"),
    [("", "1 skipped", "NOT TESTED: 1 tests need redis"), ("true", "1 error", "redis needs redis-server-of-the-moon")],
    ids=["a laptop", "ci"],
)
def test_a_missing_server_skips_loudly_and_fails_in_ci(tmp_path, monkeypatch, ci, outcome, told) -> None:
    monkeypatch.setenv("CI", ci)
    ended = run_session(
        tmp_path,
        """
        @pytest.fixture(autouse=True)
        def absent():
            KINDS["redis"].programs = ["redis-server-of-the-moon"]

        def test_needs_it(redis_server):
            redis_server.ping()
        """,
    )
    assert outcome in ended.stdout
    assert told in ended.stdout


def run_session(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests in a session of their own, with the same fixtures."""
    imports = "import os, signal\nfrom pathlib import Path\n\nimport psutil, pytest\nfrom shared_servers import KINDS\n"
    (folder / "conftest.py").write_text("pytest_plugins = ['server_fixtures']\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_inner.py").write_text(imports + textwrap.dedent(tests))
    outer = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": os.pathsep.join(FOLDERS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
    )


def eventually(fulfilled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not fulfilled():
        assert time.monotonic() < deadline
        pause.wait(0.02)
