"""A Django project with jobs: migrations, transactions, checks, too early, admin; each in a process of its own."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row
from sqlalchemy import create_engine, inspect, text

from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

KINDS = ["sqlite", "postgresql", "mariadb"]

TRANSACTIONS = """
import logging, threading
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from goscheduler.contrib.django import scheduler
from goscheduler.errors import ConflictingIdError
from shop.errands import add
from shop.duties import bill

call_command("migrate", verbosity=0)
call_command("check", databases=["default"], fail_level="WARNING", verbosity=0)

class Undo(Exception):
    pass

def ids():
    return sorted(job.id for job in scheduler.get_jobs())

# Rolled back: neither the user nor the job. Committed: both.
try:
    with transaction.atomic():
        User.objects.create(username="gone")
        scheduler.add_job(bill, args=[1], id="gone")
        raise Undo
except Undo:
    pass
assert ids() == [] and not User.objects.exists()
with transaction.atomic():
    User.objects.create(username="ada")
    scheduler.add_job(bill, "interval", hours=1, args=[{"a": "50 %", "b": "ü'\\\\"}], id="kept % 'here'")
    assert scheduler.get_job("kept % 'here'") is None  # for others it is not there yet
assert ids() == ["kept % 'here'"] and User.objects.count() == 1
assert scheduler.get_job("kept % 'here'").args == ({"a": "50 %", "b": "ü'\\\\"},)

# A savepoint takes back what was added behind it, and nothing else.
with transaction.atomic():
    scheduler.add_job(bill, args=[1], id="outer")
    try:
        with transaction.atomic():
            scheduler.add_job(bill, args=[1], id="inner")
            raise Undo
    except Undo:
        pass
assert ids() == ["kept % 'here'", "outer"]

# One id twice, and one that is taken: refused, and the transaction goes on.
with transaction.atomic():
    scheduler.add_job(bill, args=[1], id="twice")
    for taken in ("twice", "outer"):
        try:
            scheduler.add_job(bill, args=[2], id=taken)
        except ConflictingIdError:
            continue
        raise AssertionError(taken)
    User.objects.create(username="bob")
    assert scheduler.add_job(bill, args=[9], id="outer", if_exists="keep").args == (1,)
    scheduler.add_job(bill, args=[3], id="outer", if_exists="replace")
    scheduler.add_jobs([{"func": bill, "args": [4], "id": "a"}, {"func": bill, "args": [5], "id": "b"}])
assert ids() == ["a", "b", "kept % 'here'", "outer", "twice"] and User.objects.count() == 2
assert scheduler.get_job("twice").args == (1,) and scheduler.get_job("outer").args == (3,)

# What makes no sense is refused at the call, and breaks nothing.
with transaction.atomic():
    for wrong in ({"args": [object()]}, {"tirgger": 1}, {"priority": 12}):
        try:
            scheduler.add_job(bill, **{"args": [1], "id": "wrong", **wrong})
        except (ValueError, TypeError):
            continue
        raise AssertionError(wrong)
    scheduler.add_job(bill, args=[1], id="right")
assert "right" in ids() and "wrong" not in ids()

# A task of Django is a job too.
try:
    with transaction.atomic():
        undone = add.enqueue(1, 2)
        raise Undo
except Undo:
    pass
done = add.enqueue(1, 2)
assert undone.id not in ids() and done.id in ids()

# The transaction of another database: after its commit, and one warning.
warned = []
handler = logging.Handler()
handler.emit = lambda record: warned.append(record.getMessage())
logging.getLogger("goscheduler.django").addHandler(handler)
for name in ("x", "y"):
    with transaction.atomic(using="other"):
        scheduler.add_job(bill, args=[1], id=name)
        assert scheduler.get_job(name) is None
    assert scheduler.get_job(name) is not None
try:
    with transaction.atomic(using="other"):
        scheduler.add_job(bill, args=[1], id="z")
        raise Undo
except Undo:
    pass
assert scheduler.get_job("z") is None
assert len(warned) == 1 and "other" in warned[0] and "elsewhere" in warned[0], warned
# The only thread that may be there ends calls to a server that hangs.
assert {thread.name for thread in threading.enumerate()} <= {"MainThread", "goscheduler-sql-watchdog"}
print("kept")
"""


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_live_and_die_with_the_transactions_of_django(project: Any, kind: str) -> None:
    assert project(kind).run(TRANSACTIONS).endswith("kept\n")


@pytest.mark.parametrize("kind", KINDS)
def test_migrate_makes_the_tables_that_a_store_would_make(project: Any, kind: str, url_of: Any, tmp_path: Any) -> None:
    site = project(kind)
    done = site.manage("migrate", "goscheduler")
    assert done.returncode == 0, done.stderr
    there = site.environment["DATABASE"]
    by_hand = f"sqlite:///{tmp_path}/by-hand.db" if kind == "sqlite" else url_of(kind)
    stores = SQLAlchemyJobStore(by_hand), SQLAlchemyJobStore(there)
    assert stores[0].upgrade_schema()
    assert stores[1].schema_status().current
    assert _described(there) == _described(by_hand)
    for store in stores:
        store.shutdown()
    assert not _described(f"sqlite:///{site.folder}/other.db")["tables"]


def _described(url: str) -> dict[str, Any]:
    """Return the tables of goscheduler, with their columns, indexes and views."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = inspect(connection)
        names = sorted(name for name in found.get_table_names() if name.startswith("goscheduler_"))
        views = sorted(name for name in found.get_view_names() if name.startswith("goscheduler_"))
        place = str(engine.url.database)
        versions = connection.execute(text("SELECT name, value FROM goscheduler_meta")).all() if names else []
        described = {
            "tables": {name: _table(found, name) for name in names},
            "views": {name: str(found.get_view_definition(name)).replace(place, "") for name in views},
            "meta": sorted(map(tuple, versions)),
        }  # fmt: skip
    engine.dispose()
    return described


def _table(found: Any, name: str) -> Any:
    columns = [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)]
    indexes = sorted((index["name"], index["column_names"], index["unique"]) for index in found.get_indexes(name))
    return columns, indexes, found.get_pk_constraint(name)["constrained_columns"]


def test_what_is_done_too_early_or_in_the_wrong_process_says_what_to_do(project: Any) -> None:
    site = project()
    early = site.folder / "shop" / "models.py"
    early.write_text("from goscheduler.contrib.django import scheduler\nscheduler.get_jobs()\n", encoding="utf-8")
    done = site.manage("check")
    assert "scheduler.get_jobs was used before Django was ready" in done.stderr
    assert "@scheduler.scheduled_job" in done.stderr
    early.unlink()
    assert site.run(WRONG_PROCESS) == "refused\n"


WRONG_PROCESS = """
import threading
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from goscheduler.contrib.django import scheduler
assert repr(scheduler).startswith("<scheduler of this project"), repr(scheduler)
assert threading.active_count() == 1
call_command("migrate", verbosity=0)
for name in ("start", "shutdown", "resume"):
    try:
        getattr(scheduler, name)
    except ImproperlyConfigured as error:
        assert "manage.py goscheduler worker" in str(error)
    else:
        raise AssertionError(name)
from shop.duties import bill
for wrong in (lambda: None, "no.such:function"):
    try:
        scheduler.add_job(wrong, id="a")
    except (ValueError, LookupError, ImportError):
        continue
    raise AssertionError(wrong)
assert scheduler.get_jobs() == []  # also none of those that are declared: they are the worker's
scheduler.add_job(bill, args=[1], id="b")
try:
    scheduler.for_worker()
except ImproperlyConfigured as error:
    assert "used before the worker" in str(error)
print("refused")
"""


@each_row(("settings", "code", "expected"), [
    ({}, 1, "add, for example, GOSCHEDULER"),
    ({"GOSHEDULER": {"STORE": "db:default"}}, 1, "did you mean GOSCHEDULER?"),
    ({"GOSCHEDULER": {"STORE": "db:defualt"}}, 1, "did you mean 'db:default'?"),
    ({"GOSCHEDULER": {"STORE": "db:default", "AUTODISCOVERY": "jobs"}}, 1, "did you mean 'AUTODISCOVER'?"),
    ({"GOSCHEDULER": {"STORE": "memory"}}, 0, "a worker does not see the jobs"),
    ({"GOSCHEDULER": {"STORE": "db:default"}, "TASKS": {"default": {
        "BACKEND": "goscheduler.contrib.django.tasks.Backend", "OPTIONS": {"retyr": 3}}}}, 1, "did you mean 'retry'?"),
])  # fmt: skip
def test_the_checks_name_what_is_wrong_in_the_settings(
    checked_project: Any, settings: Any, code: int, expected: str
) -> None:
    done = checked_project.manage("check", settings=settings)
    assert expected in done.stderr, done.stderr
    assert done.returncode == code


@pytest.fixture
def checked_project(project: Any) -> Any:
    return project()


def test_tables_that_are_behind_are_told_of_and_brought_up_by_the_command(project: Any) -> None:
    site = project()
    assert site.manage("check", "--database", "default").returncode == 0  # Django tells of the migration itself
    assert site.manage("migrate", "-v", "0").returncode == 0
    assert "CREATE TABLE goscheduler_jobs" in site.manage("sqlmigrate", "goscheduler", "0001").stdout
    assert site.manage("makemigrations", "--check", "--dry-run").returncode == 0
    engine = create_engine(site.environment["DATABASE"])
    with engine.begin() as connection:
        connection.execute(text("UPDATE goscheduler_meta SET value = 4 WHERE name = 'schema'"))
    engine.dispose()
    told = site.manage("check", "--database", "default").stderr
    assert "are of version 4; this goscheduler needs version" in told
    assert site.manage("goscheduler", "migrate", "up").stdout == "The tables are up to date.\n"
    assert "no issues" in site.manage("check", "--database", "default").stdout


ADMIN = """
from html import unescape
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client
from django.test.utils import setup_test_environment
from goscheduler.contrib.django import scheduler
from shop.duties import bill
import goscheduler.contrib.django._proxy

setup_test_environment()
call_command("migrate", verbosity=0)
hostile = "<b>x</b>&'"
scheduler.add_job(bill, "interval", hours=1, args=[1], id=hostile)
scheduler.add_job(bill, "interval", hours=1, args=[1], id="plain")

def user(name, *permissions):
    made = User.objects.create_user(name, password="x", is_staff=True)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(made)
    return client

def post(client, place, act, *ids):
    answer = client.post(place, {"act": act, "id": ids}, follow=True)
    return [str(message) for message in answer.context["messages"]] if answer.status_code == 200 else answer.status_code

JOBS, RUNS, DEAD = "/admin/goscheduler/job/", "/admin/goscheduler/job/runs/", "/admin/goscheduler/job/dead/"
operator, viewer, nobody = user("olga", "view_job", "change_job"), user("vera", "view_job"), user("nils")

page = operator.get(JOBS).content.decode()
assert hostile not in page and hostile in unescape(page) and JOBS in operator.get("/admin/").content.decode()
assert post(operator, JOBS, "run_jobs", "plain") == ["Run now: done for plain."]
assert post(operator, JOBS, "pause_jobs", "plain", hostile) == [f"Pause: done for plain, {hostile}."]
assert scheduler.get_job("plain").stats.paused_by == "olga"
assert post(operator, JOBS, "resume_jobs", "plain", "nope")[0] == "Resume: done for plain."
assert post(operator, JOBS, "pause_jobs") == ["Pause: choose at least one row."]
assert "plain" not in operator.get(JOBS, {"text": "<b>"}).content.decode().split("<tbody>")[1]
assert "errornote" in operator.get(JOBS, {"state": "paussed"}).content.decode()
(run,) = scheduler.live_runs()
assert run.id in operator.get(RUNS).content.decode()
assert post(operator, RUNS, "cancel_runs", run.id) == [f"Cancel: done for {run.id}."]
assert "cancelled" in operator.get(RUNS).content.decode()
assert [view.status_code for view in map(operator.get, (JOBS, RUNS, DEAD))] == [200, 200, 200]
assert "No such" not in str(post(operator, DEAD, "redrive", "nope")) and post(operator, DEAD, "redrive", "nope")

# Looking is one permission, acting another one; acts of one page are not acts of another one.
assert "Run now" not in viewer.get(JOBS).content.decode()
assert [post(viewer, JOBS, "run_jobs", "plain"), post(operator, JOBS, "remove_jobs", "plain")] == [403, 403]
assert [nobody.get(place).status_code for place in (JOBS, RUNS, DEAD)] == [403, 403, 403]
assert Client().get(JOBS).status_code == 302
strict = Client(enforce_csrf_checks=True)
strict.force_login(User.objects.get(username="olga"))
assert strict.post(JOBS, {"act": "pause_jobs", "id": "plain"}).status_code == 403
assert scheduler.get_job("plain").stats.paused_by is None
print("served")
"""


def test_the_admin_shows_jobs_and_runs_to_those_who_may_look_and_acts_for_those_who_may(project: Any) -> None:
    assert project().run(ADMIN) == "served\n"
