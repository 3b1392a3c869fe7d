"""Programs that are not Python: they ask by the inbox, and read the views, with the command line of their database."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from functools import partial
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, text

from goscheduler.errors import InvalidArgument
from goscheduler.job import copy_with
from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from goscheduler.jobstores.sqlalchemy.views import VIEWS
from goscheduler.messages import Message, MessageScheduler
from goscheduler.runs.queries import JobQuery
from goscheduler.runs.transitions import asked_for
from goscheduler.testing.contract import NOW, Requests, failed, in_threads, succeeded
from goscheduler.testing.contract_reads import failure
from goscheduler.testing.scheduler import ManualScheduler

MINUTE = timedelta(minutes=1)
ODD = "näme ✓ \U0001f600 it's \"x\" 100%"

#: What a program of another language does with a file of SQLite, where its own command line is not installed.
_SQLITE = """
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1], isolation_level=None).execute(sys.argv[2]).fetchall()
print("\\n".join("\\t".join("NULL" if value is None else str(value) for value in row) for row in rows))
"""


class Client:
    """The command line of a database."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url)

    def __call__(self, statement: str) -> list[list[str]]:
        """Run a statement, and return the rows as texts."""
        command, secrets = self._command(statement)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=secrets, check=False)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines() if line]

    def _command(self, statement: str) -> tuple[list[str], dict[str, str]]:
        place, path = self._place, self._place.path.lstrip("/")
        host, port, user, password = str(place.hostname), str(place.port), str(place.username), str(place.password)
        if place.scheme.startswith("postgresql"):
            psql = ["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-P", "null=NULL", "-h", host, "-p", port, "-U", user]
            secrets = {"PGPASSWORD": password, "PGCLIENTENCODING": "UTF8", "PATH": "/usr/bin:/bin"}
            return [*psql, "-v", "ON_ERROR_STOP=1", "-d", path, "-c", statement], secrets
        if place.scheme.startswith("mysql"):
            mariadb = ["mariadb", "--no-defaults", "--batch", "--raw", "-N", "-h", host, "-P", port, "-u", user]
            secrets = {"MYSQL_PWD": password, "PATH": "/usr/bin:/bin"}
            return [*mariadb, "--default-character-set=utf8mb4", path, "-e", statement], secrets
        if shutil.which("sqlite3"):
            return ["sqlite3", "-tabs", "-nullvalue", "NULL", f"/{path}", statement], {"PATH": "/usr/bin:/bin"}
        return [sys.executable, "-c", _SQLITE, f"/{path}", statement], {}


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request, tmp_path, fresh):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    program = {"postgresql": "psql", "mariadb": "mariadb"}[request.param]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return fresh(request.getfixturevalue("shared_server")(request.param)).url


@pytest.fixture
def client(place):
    return Client(place)


@pytest.fixture
def store(opened, place):
    return opened(SQLAlchemyJobStore(place, server_time=False))


def test_what_a_command_line_puts_into_the_inbox_becomes_a_job_or_is_refused_with_the_reason(
    store, make_job, client, place
):
    request = json.dumps({"id": ODD}, ensure_ascii=False).replace("'", "''")
    quoted = request.replace("\\", "\\\\") if place.startswith("mysql") else request
    client(f"INSERT INTO goscheduler_inbox (request) VALUES ('{quoted}'), ('no JSON')")

    def read(entry):
        try:
            return make_job(json.loads(entry.request)["id"], due=NOW)
        except ValueError:
            raise InvalidArgument("this is no JSON", field="request") from None

    drained = store.drain_inbox(10, read)
    assert [job.id for job in drained.jobs] == [ODD]
    assert client("SELECT id FROM goscheduler_inbox") == []
    ((request, reason),) = client("SELECT request, reason FROM goscheduler_inbox_refused")
    assert (request, "this is no JSON" in reason) == ("no JSON", True)
    assert list(drained.refused.values()) == [reason]
    ((created, refused),) = client("SELECT created, refused FROM goscheduler_inbox_refused")
    for moment in (created, refused):
        assert abs(moment_of(moment) - datetime.now(timezone.utc)) < timedelta(minutes=10)


def test_two_stores_that_drain_at_once_add_each_job_once(store, opened, place, make_job, client):
    stores = [store, opened(SQLAlchemyJobStore(place, server_time=False))]
    client("INSERT INTO goscheduler_inbox (request) VALUES " + ", ".join(f"('job-{number}')" for number in range(30)))
    added = []
    while client("SELECT id FROM goscheduler_inbox"):
        drained = in_threads([partial(each.drain_inbox, 4, lambda entry: make_job(entry.request)) for each in stores])
        added += [job for portion in drained for job in portion.jobs]
    assert sorted(job.id for job in added) == sorted(f"job-{number}" for number in range(30))


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)  # the writers of SQLite wait for each other
def test_an_entry_that_another_process_takes_is_left_to_it(store, opened, place, make_job, client):
    other = opened(SQLAlchemyJobStore(place, server_time=False))
    client("INSERT INTO goscheduler_inbox (request) VALUES ('a'), ('b')")
    seen = []

    def read(entry):
        seen.append([job.id for job in other.drain_inbox(10, lambda late: make_job(f"late {late.request}")).jobs])
        return make_job(entry.request)

    assert [job.id for job in store.drain_inbox(1, read).jobs] == ["a"]
    assert seen == [["late b"]]


def test_a_command_line_sees_jobs_and_their_states(store, make_job, client):
    store.add_job(make_job("due", due=NOW, name=f"Näme {ODD}", tags=["t"]))
    store.add_job(make_job("stopped", due=None))
    store.edit_jobs(["stopped"], lambda job: with_stats(job, paused_by="me", pause_reason="it's \"late\" ✓"))
    store.add_job(make_job("failing", due=NOW))
    (run,) = [run for run in Requests().fire(store).runs if run.job.id == "failing"]
    assert not store.settle([failed(run)])
    seen = {row[0]: row[1:] for row in client(
        "SELECT id, status, name, executor, priority, attempts, owner, error, paused_by, pause_reason "
        "FROM goscheduler_jobs_v1"
    )}  # fmt: skip
    assert seen["due"][:2] == ["running", f"Näme {ODD}"]
    assert seen["due"][5] != "NULL"
    assert seen["stopped"][0] == "paused"
    assert seen["stopped"][7:] == ["me", "it's \"late\" ✓"]
    assert seen["failing"][0] == "scheduled"
    assert (seen["failing"][4], seen["failing"][5], "ValueError" in seen["failing"][6]) == ("1", "NULL", True)
    ((due,),) = client("SELECT due FROM goscheduler_jobs_v1 WHERE id = 'failing'")
    assert moment_of(due) == store.lookup_job("failing").next_run_time


def test_a_command_line_sees_runs_and_how_attempts_ended(store, make_job, client):
    store.add_jobs([make_job("a", due=NOW, retry=2), make_job("b", due=NOW), make_job("c", due=NOW)])
    runs = {run.job.id: run for run in Requests().fire(store).runs}
    assert not store.settle([failure(runs["a"]), succeeded(runs["b"])])
    store.add_run(asked_for(make_job("later"), "by-hand", NOW + MINUTE))
    seen = client("SELECT job_id, status, attempts, error FROM goscheduler_runs_v1 ORDER BY job_id, attempts, status")
    assert [row[:3] for row in seen if row[0] != "a"] == [
        ["b", "succeeded", "1"], ["c", "claimed", "1"], ["later", "pending", "1"],
    ]  # fmt: skip
    assert [row[1:] for row in seen if row[0] == "a"] == [["failed", "1", "no"], ["pending", "2", "NULL"]]
    ((due,),) = client("SELECT due FROM goscheduler_runs_v1 WHERE id = 'by-hand'")
    assert moment_of(due) == NOW + MINUTE
    finished = client("SELECT finished FROM goscheduler_runs_v1 WHERE job_id = 'b'")[0][0]
    assert moment_of(finished) == store.attempts(runs["b"].id)[0].finished_at


def test_a_command_line_sees_messages(place, client):
    with ManualScheduler(jobstores={"default": SQLAlchemyJobStore(place, server_time=False)}) as scheduler:
        outbox = MessageScheduler(scheduler=scheduler, transport=lambda delivery: None)
        outbox.schedule(Message(f"order {ODD}", payload=b"\0x", id="m", scheduled_at=scheduler.clock.now() + MINUTE))
        scheduler.add_job(print, "interval", minutes=1, id="no message")
        seen = client("SELECT id, status, event, attempts, owner, error FROM goscheduler_messages_v1")
        assert seen == [["m", "pending", f"order {ODD}", "0", "NULL", "NULL"]]


def test_words_that_a_server_does_not_take_as_text_stay_json(store, make_job, client, place):
    store.add_job(make_job("a"))
    store.edit_jobs(["a"], lambda job: with_stats(job, pause_reason="half a character \ud800, none \0"))
    ((reason,),) = client("SELECT pause_reason FROM goscheduler_jobs_v1")
    assert "half a character" in reason


def test_views_belong_to_their_tables(place, opened, make_job):
    first, second = (opened(SQLAlchemyJobStore(place, tablename=name)) for name in ("one", "two"))
    first.add_job(make_job("a"))
    engine = create_engine(place)
    with engine.connect() as connection:
        for view in VIEWS:
            connection.execute(text(f"SELECT * FROM two_{view}"))
        assert connection.execute(text("SELECT id FROM one_jobs_v1")).scalars().all() == ["a"]
        assert connection.execute(text("SELECT id FROM two_jobs_v1")).scalars().all() == []
    engine.dispose()
    assert [job.id for job in first.find_jobs(JobQuery()).jobs] == ["a"]
    assert second.find_jobs(JobQuery()).jobs == []


def moment_of(words: str) -> datetime:
    """Return a moment as a command line prints it; without a zone it is in UTC."""
    words = words.replace("Z", "+00:00")
    moment = datetime.fromisoformat(f"{words}:00" if words[-3] in "+-" else words)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


def with_stats(job, **changes):
    edited = copy_with(job, next_run_time=None)
    edited.stats = job.stats._replace(**changes)
    return edited
