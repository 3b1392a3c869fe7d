"""Fixtures for tests on real servers: shared ones to work on, private ones to kill, and empty places on them.

``postgresql``, ``mariadb``, ``redis_server``, ``mongodb``, ``etcd``, ``zookeeper``, ``rabbitmq``, ``nats``
    A running ``Server`` that the whole session shares; ``shared_server(kind)`` gives the same by name.
``fresh(server)``
    An empty ``Space`` on it, with its ``url`` and a unique ``name``; removed after the test.
``url_of(kind)``
    The URL of an empty job store: on such a space, or in a file for ``sqlite``.
``private_server(kind, *options, durable=False)``
    A running ``Server`` of one's own, to stop, kill, freeze and restart; ended after the test.
``server_folder``
    The path of a folder, to be made, for servers that a test starts by itself.

A test that asks for a server that is not installed is skipped, and the summary says so; it fails when CI is set.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import warm
from server_process import Server, Space
from shared_servers import ALL_KINDS, KINDS, clear_away, ended_by_themselves, let_go, share

_SESSION = pytest.StashKey[Path]()
_FOLDER = "folder_of_servers"
_MISSING = "no server for this test: "


@pytest.fixture(scope="session")
def shared_server(pytestconfig: pytest.Config) -> Callable[[str], Server]:
    def get(kind: str) -> Server:
        _require(kind)
        return share(_session_folder(pytestconfig), kind)

    return get


@pytest.fixture
def private_server(pytestconfig: pytest.Config) -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def start(kind: str, *options: str, durable: bool = False) -> Server:
            _require(kind)
            folder = _session_folder(pytestconfig) / f"{kind}-{uuid.uuid4().hex[:8]}"
            server = ALL_KINDS[kind](folder, *options, durable=durable)
            stack.callback(server.close)
            server.start()
            return server

        yield start


@pytest.fixture
def server_folder(pytestconfig: pytest.Config) -> Path:
    return _session_folder(pytestconfig) / f"own-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def fresh() -> Iterator[Callable[[Server], Space]]:
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(server.fresh())


@pytest.fixture
def url_of(
    tmp_path: Path, shared_server: Callable[[str], Server], fresh: Callable[[Server], Space]
) -> Callable[[str], str]:
    def url(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db"
        space = fresh(shared_server(kind))
        return f"{space.url}/{space.name}" if kind in ("etcd", "zookeeper") else space.url

    return url


@pytest.fixture
def postgresql(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("postgresql")


@pytest.fixture
def mariadb(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("mariadb")


@pytest.fixture
def redis_server(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("redis")


@pytest.fixture
def mongodb(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("mongodb")


@pytest.fixture
def etcd(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("etcd")


@pytest.fixture
def zookeeper(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("zookeeper")


@pytest.fixture
def rabbitmq(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("rabbitmq")


@pytest.fixture
def nats(shared_server: Callable[[str], Server]) -> Server:
    return shared_server("nats")


def _require(kind: str) -> None:
    lacking = ALL_KINDS[kind].missing()
    if lacking is None:
        return
    message = f"{_MISSING}{kind} needs {lacking}; make servers installs it"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def _session_folder(config: pytest.Config) -> Path:
    folder = config.stash[_SESSION]
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # some servers do not run as root, and must get to their files
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """Agree on the folder that all processes of this session share."""
    given = getattr(config, "workerinput", {}).get(_FOLDER)
    config.stash[_SESSION] = Path(given or Path(tempfile.gettempdir(), f"goscheduler-{uuid.uuid4().hex[:12]}"))
    warm.use(lambda: _session_folder(config))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[_FOLDER] = str(node.config.stash[_SESSION])


def pytest_unconfigure(config: pytest.Config) -> None:
    let_go()
    warm.let_go()
    if not hasattr(config, "workerinput") and config.stash[_SESSION].exists():
        clear_away(config.stash[_SESSION])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    counts = {kind: sum(f"{_MISSING}{kind} " in reason for reason in skipped) for kind in KINDS}
    for kind, count in counts.items():
        if count:
            what = f"NOT TESTED: {count} tests need {kind}, which is not installed. Run: make servers"
            terminalreporter.write_line(what, red=True, bold=True)
    for line in ended_by_themselves(terminalreporter.config.stash[_SESSION]).splitlines():
        terminalreporter.write_line(line, red=True)
