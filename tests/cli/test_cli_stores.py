"""Commands on the URL of a store: nothing of the user's is imported, little is loaded, and what is down is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm

from goscheduler import BackgroundScheduler
from goscheduler.cli._command_error import CommandError
from goscheduler.cli._session import place_of

ROOT = Path(__file__).resolve().parents[2]


def work() -> None:
    """Do nothing."""


#: A module that tells when it is imported, and adds a job of its own when it is run.
EVIL = """
import sys
from pathlib import Path

Path("imported").touch()

def boom():
    pass

def add(url):
    from goscheduler import BackgroundScheduler
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start(paused=True)
    scheduler.add_job("evil:boom", "interval", hours=1, id="evil", tags=["bad"])
    scheduler.add_job("evil:boom", "interval", hours=1, id="evil too", tags=["bad"])
    scheduler.shutdown()
"""


@pytest.mark.parametrize(
    ("app", "stores", "environment", "expected"),
    [
        (None, ["sqlite:///a"], {}, ({"default": "sqlite:///a"}, None, None)),
        (None, ["one=sqlite:///a?x=1", "two=redis://b"], {},
         ({"one": "sqlite:///a?x=1", "two": "redis://b"}, None, None)),
        ("m:s", ["mail"], {}, ({}, "m:s", "mail")),
        ("m:s", [], {"GOSCHEDULER_STORE": "redis://b"}, ({}, "m:s", None)),
        (None, ["redis://a"], {"GOSCHEDULER_APP": "m:s"}, ({"default": "redis://a"}, None, None)),
        (None, [], {"GOSCHEDULER_APP": "m:s"}, ({}, "m:s", None)),
        (None, ["mail"], {"GOSCHEDULER_STORE": "mail=redis://a b=redis://b"},
         ({"mail": "redis://a", "b": "redis://b"}, None, "mail")),
        (None, [], {"GOSCHEDULER_STORE": "redis://b", "GOSCHEDULER_APP": "m:s"},
         ({"default": "redis://b"}, None, None)),
    ],
)  # fmt: skip
def test_options_go_before_the_environment_and_a_url_there_before_a_module(
    monkeypatch: pytest.MonkeyPatch, app: str | None, stores: list[str], environment: dict[str, str],
    expected: tuple[Any, ...],
) -> None:  # fmt: skip
    for name in ("GOSCHEDULER_STORE", "GOSCHEDULER_APP"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert place_of(app, stores) == expected


@pytest.mark.parametrize(
    ("app", "stores", "told"),
    [
        ("m:s", ["redis://a"], "not both"),
        (None, ["redis://a", "redis://b"], "alias=URL"),
        (None, ["a=redis://a", "a=redis://b"], "alias=URL"),
        (None, ["a", "b"], "one alias"),
        (None, ["a"], "which jobs"),
    ],
)
def test_two_places_or_none_are_refused(
    monkeypatch: pytest.MonkeyPatch, app: str | None, stores: list[str], told: str
) -> None:
    for name in ("GOSCHEDULER_STORE", "GOSCHEDULER_APP"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CommandError, match=told):
        place_of(app, stores)


def test_the_store_may_stand_in_the_environment(invoke: Callable[..., Any], url: str) -> None:
    result = invoke("jobs", "count", GOSCHEDULER_STORE=url)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "6\n", "")


def test_several_stores_are_looked_into_together_or_one_by_its_alias(
    invoke: Callable[..., Any], url: str, tmp_path: Path
) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    assert invoke("migrate", "up", other).exit_code == 0
    both = ("--store", f"one={url}", "--store", f"two={other}")
    assert invoke("jobs", "count", *both).stdout == "6\n"
    assert invoke("jobs", "count", *both, "--store", "two").stdout == "0\n"
    refused = invoke("jobs", "count", *both, "--store", "three")
    assert refused.stderr == "Error: --store: there is no job store 'three'; there are: one, two\n"


def test_a_store_that_is_down_is_one_line_without_its_password_and_exit_code_1(invoke: Callable[..., Any]) -> None:
    result = invoke("jobs", "list", "--store", "postgresql+psycopg://me:CANARY@127.0.0.1:1/jobs")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert "could not be reached" in result.stderr
    assert "CANARY" not in result.stderr


def test_a_look_makes_no_database(invoke: Callable[..., Any], tmp_path: Path) -> None:
    result = invoke("jobs", "list", "--store", f"sqlite:///{tmp_path}/typo.db")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: --store: there is no file {tmp_path}/typo.db\n"
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize("url", ["nix://host", "memory://"])
def test_a_url_that_leads_to_no_store_is_exit_code_2(invoke: Callable[..., Any], url: str) -> None:
    result = invoke("jobs", "list", "--store", url)
    assert result.exit_code == 2
    assert "known are sqlite://" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def run(folder: Path, *arguments: str) -> Any:
    """Run Python in a process of its own, from a folder whose modules it could import."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return warm.run(*arguments, cwd=folder, env=environment)


def test_nothing_that_a_stored_job_names_is_imported(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(EVIL, encoding="utf-8")
    url = f"sqlite:///{tmp_path}/jobs.db"
    added = run(tmp_path, "-c", f"import evil; evil.add({url!r})")
    assert added.returncode == 0, added.stderr
    (tmp_path / "imported").unlink()
    for command in (
        ("jobs", "list"), ("jobs", "list", "--text", "boom"), ("jobs", "show", "evil"), ("jobs", "count"),
        ("jobs", "pause", "evil", "--reason", "bad"), ("jobs", "show", "evil"), ("jobs", "resume", "evil"),
        ("jobs", "pause", "--tag", "bad", "--yes"), ("jobs", "resume", "--tag", "bad", "--yes"),
        ("jobs", "run", "evil"),
        ("jobs", "edit", "evil", "--set", "priority=1"), ("why", "evil"), ("why", "evil", "--at", "1h"),
        ("forecast", "--hours", "2"), ("runs", "live"), ("audit",), ("jobs", "remove", "evil"),
        ("jobs", "remove", "--tag", "bad", "--yes"),
    ):  # fmt: skip
        done = run(tmp_path, "-m", "goscheduler", *command, "--store", url)
        assert done.returncode == 0, (command, done.stderr)
    listed = run(tmp_path, "-m", "goscheduler", "jobs", "list", "--json", "--store", url)
    assert json.loads(listed.stdout) == []
    assert not (tmp_path / "imported").exists()
    run(tmp_path, "-c", "import evil")
    assert (tmp_path / "imported").exists()  # so it could have been imported


def test_a_list_loads_neither_rich_nor_the_modules_of_other_commands(url: str, tmp_path: Path) -> None:
    done = listed(url, tmp_path, "print(*sys.modules, file=sys.stderr)")
    assert len(done.stdout.splitlines()) == 7
    loaded = set(done.stderr.split())
    assert "goscheduler.jobstores.sqlalchemy.store" in loaded
    unwanted = {"rich.console", "multiprocessing", "redis", "pymongo", "kazoo", "etcd3gw", "grpc", "croniter"}
    assert loaded & unwanted == set()
    commands = {"worker", "import_apscheduler", "runs", "dead", "workers", "forecast", "_host", "_board"}
    assert {f"goscheduler.cli.{name}" for name in commands} & loaded == set()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a process cannot tell how much memory it has used")
def test_a_list_takes_less_than_120_megabytes(url: str, tmp_path: Path) -> None:
    done = listed(url, tmp_path, "print(open('/proc/self/status').read(), file=sys.stderr)")
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", done.stderr)
    assert int(kilobytes) / 1024 < 120


def listed(url: str, folder: Path, at_the_end: str) -> subprocess.CompletedProcess[str]:
    """List jobs in a process that has imported nothing before, and let it say something at its end."""
    program = (
        "import sys; from goscheduler.cli import main\n"
        f"try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n{at_the_end}"
    )
    arguments = [sys.executable, "-c", program, "jobs", "list", "--limit", "50", "--store", url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True, env=environment)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_no_error(url: str, tmp_path: Path, unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    arguments = [sys.executable, "-m", "goscheduler", "jobs", "list", "--store", url]
    done = subprocess.run(
        arguments, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_completion_of_a_shell_knows_commands_and_options(tmp_path: Path) -> None:
    asked = {"_GOSCHEDULER_COMPLETE": "complete_bash", "COMP_WORDS": "goscheduler jobs pa", "COMP_CWORD": "2"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **asked}
    arguments = [sys.executable, "-m", "goscheduler"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["pause"]
    environment.update(COMP_WORDS="goscheduler jobs pause --pause", COMP_CWORD="3")
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["--pause-id"]


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper"])
def test_every_store_is_looked_into_by_its_url(
    invoke: Callable[..., Any], url_of: Callable[[str], str], kind: str
) -> None:
    url = url_of(kind)
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start(paused=True)
    for number in range(3):
        scheduler.add_job(work, "interval", hours=1 + number, id=f"job-{number}", tags=["few"])
    scheduler.shutdown()

    def ask(*arguments: str) -> Any:
        result = invoke(*arguments, "--json", "--store", url)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    assert [job["id"] for job in ask("jobs", "list", "--limit", "2")] == ["job-0", "job-1"]
    assert ask("jobs", "pause", "job-0")["state"] == "paused"
    view = ask("jobs", "pause", "--tag", "few", "--yes")
    assert (view["changed"], view["unchanged"]) == (2, 1)
    assert ask("jobs", "count", "--state", "paused")["number"] == 3
    assert ask("jobs", "resume", "--pause-id", view["id"], "--yes")["changed"] == 2
    assert ask("jobs", "show", "job-0")["why_not_running"].startswith("It was paused by ")
    assert [entry["operation"] for entry in ask("audit")["items"]] == ["start_bulk", "start_bulk", "pause_jobs"]
    assert ask("runs", "live") == []
