"""``goscheduler migrate``: the tables of a SQL job store by hand."""

from __future__ import annotations

import sqlite3

import pytest
from typer.testing import CliRunner

from goscheduler.cli.app import app


def call(*arguments):
    return CliRunner().invoke(app, ["migrate", *arguments])


def test_tables_are_made_once_and_their_version_is_told(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    before = call("status", url)
    assert (before.exit_code, before.stdout) == (1, "There are no tables yet.\n")
    assert call("up", url).stdout == "The tables are up to date.\n"
    assert call("up", url).stdout == "The tables were up to date.\n"
    after = call("status", url)
    assert (after.exit_code, after.stdout) == (0, "The tables are of version 5; this goscheduler needs version 5.\n")


def test_the_printed_sql_is_complete(tmp_path):
    printed = call("sql", f"sqlite:///{tmp_path}/jobs.db", "--tablename", "mine").stdout
    assert not (tmp_path / "jobs.db").exists()
    place = sqlite3.connect(tmp_path / "jobs.db")
    place.executescript(printed)
    place.close()
    assert call("status", f"sqlite:///{tmp_path}/jobs.db", "--tablename", "mine").exit_code == 0


@pytest.mark.parametrize(
    ("url", "code"), [("jobs.db", 2), ("ftp://me:secret@host/x", 2), ("postgresql://me:secret@127.0.0.1:1/x", 1)]
)
def test_what_cannot_be_reached_or_is_no_database_is_told_without_the_password(url, code):
    result = call("status", url)
    assert result.exit_code == code
    assert result.stderr.startswith("Error: ")
    assert "secret" not in result.output + result.stderr
