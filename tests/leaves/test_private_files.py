"""What is written to disk belongs to its user alone, is whole or not there, and goes nowhere that a link leads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from goscheduler import _files
from goscheduler.errors import StoreUnavailable
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.schedulers._export import read_jobs, write_jobs
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.scheduler import ManualScheduler


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# Exported jobs


def test_a_file_of_exported_jobs_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    write_jobs([], path, "1.2.3")
    assert mode_of(path) == 0o600
    assert read_jobs(path) == []


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o666, 0o600), (0o400, 0o400)])
def test_a_file_that_is_written_again_gets_no_wider_mode_than_it_had(tmp_path: Path, before: int, after: int) -> None:
    path = tmp_path / "jobs.json"
    path.touch()
    path.chmod(before)
    write_jobs([], path, "1.2.3")
    assert mode_of(path) == after


@pytest.mark.parametrize("target", ["there", "missing"])
def test_an_export_does_not_follow_a_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "there").write_text("precious")
    link = tmp_path / "jobs.json"
    link.symlink_to(tmp_path / target)
    with pytest.raises(OSError, match=r"jobs\.json is a symbolic link; give the path that it leads to"):
        write_jobs([], link, "1.2.3")
    assert (tmp_path / "there").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.json", "there"]


def test_an_export_to_something_else_than_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="is no regular file; to write elsewhere, give an open text file"):
            write_jobs([], path, "1.2.3")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_export_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "jobs.json"
    path.write_text("precious")
    monkeypatch.setattr(_files.os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_jobs([], path, "1.2.3")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("jobs.json", "precious")]


# Databases of SQLite


@pytest.mark.parametrize("form", ["sqlite:///{}", "sqlite+pysqlite:///{}", "sqlite:///file:{}?uri=true"])
def test_a_database_of_sqlite_and_its_log_are_for_their_owner_alone(tmp_path: Path, form: str) -> None:
    url = form.format(tmp_path / "our%20jobs.db")
    with ManualScheduler(clock=ManualClock(), jobstores={"default": url}) as scheduler:
        scheduler.add_job(print, "interval", hours=1)
        modes = {path.name: mode_of(path) for path in tmp_path.iterdir()}
        assert modes == {"our jobs.db": 0o600, "our jobs.db-wal": 0o600, "our jobs.db-shm": 0o600}


def test_a_database_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    path.chmod(0o640)
    with ManualScheduler(clock=ManualClock(), jobstores={"default": f"sqlite:///{path}"}):
        assert mode_of(path) == 0o640


def test_no_database_is_made_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").symlink_to(tmp_path / "elsewhere.db")
    scheduler = ManualScheduler(clock=ManualClock(), jobstores={"default": f"sqlite:///{tmp_path}/jobs.db"})
    with pytest.raises(OSError, match=r"jobs\.db is a symbolic link to a file that does not exist"):
        scheduler.start()
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_link_to_a_database_that_is_there_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "real.db").touch(0o600)
    (tmp_path / "jobs.db").symlink_to(tmp_path / "real.db")
    with ManualScheduler(clock=ManualClock(), jobstores={"default": f"sqlite:///{tmp_path}/jobs.db"}) as scheduler:
        scheduler.add_job(print, "interval", hours=1, id="kept")
        assert scheduler.get_job("kept") is not None


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:shared?mode=memory&cache=shared&uri=true"]
)
def test_a_database_in_memory_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    with ManualScheduler(clock=ManualClock(), jobstores={"default": url}):
        assert list(tmp_path.iterdir()) == []


def test_a_database_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    url = f"sqlite:///file:{tmp_path}/jobs.db?mode=rw&uri=true"
    with pytest.raises(StoreUnavailable, match="unable to open database file"):
        SQLAlchemyJobStore(url).schema_status()
    assert list(tmp_path.iterdir()) == []
