"""A Django project with jobs: migrations, transactions, checks, too early, admin; each in a process of its own."""

from __future__ import annotations

from typing import Any

import pytest
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

# Jobs that follow others: after the commit, all of them or none. What makes no sense is refused at the call.
for way in ("committed", "rolled back"):
    try:
        with transaction.atomic():
            User.objects.create(username=way)
            scheduler.chain([{"func": bill, "args": [1]}, {"func": bill, "args": [2]}], "interval", hours=1, id="chain")
            scheduler.add_job(bill, "interval", hours=1, args=[1], id="first")
            scheduler.add_job(bill, args=[2], after="first", id="second")
            scheduler.add_job(bill, args=[3], after=["second", "chain.2"], id="third")
            scheduler.add_jobs(
                [{"func": bill, "args": [1], "after": "m2", "id": "m1"}, {"func": bill, "args": [1], "id": "m2"}]
            )
            try:
                with transaction.atomic():
                    scheduler.add_job(bill, "interval", hours=1, args=[1], id="behind")
                    scheduler.add_job(bill, args=[1], after="behind", id="last")
                    raise Undo
            except Undo:
                pass
            for wrong in ({"after": "behind"}, {"after": "nope"}, {"after": "first", "id": "second"}):
                try:
                    scheduler.add_job(bill, **{"args": [1], "id": "wrong", **wrong})
                except ValueError:
                    continue
                except ConflictingIdError as error:
                    assert "second" in str(error)
                    continue
                raise AssertionError(wrong)
            User.objects.create(username=f"{way} too")
            if way == "rolled back":
                raise Undo
    except Undo:
        pass
    added = ["chain", "chain.2", "first", "m1", "m2", "second", "third"] if way == "committed" else []
    assert [job for job in ids() if job in "chain chain.2 first second third behind last wrong m1 m2".split()] == added
    for job_id in added:
        scheduler.remove_job(job_id)
assert not User.objects.filter(username__startswith="rolled").exists()

# All other writes are refused at once: nothing of theirs could be rolled back.
scheduler.add_job(bill, "interval", hours=1, args=[1], id="busy")
with transaction.atomic():
    User.objects.create(username="cid")
    for act in (lambda: scheduler.run_now("busy"), lambda: scheduler.get_job("busy").pause(),
                lambda: scheduler.modify_job("busy", name="x"), lambda: scheduler.remove_job("busy")):
        try:
            act()
        except transaction.TransactionManagementError as error:
            assert "transaction.on_commit(lambda: scheduler." in str(error), error
            continue
        raise AssertionError("went through")
    transaction.on_commit(lambda: scheduler.pause_job("busy"))
    assert scheduler.get_job("busy").next_run_time is not None
assert scheduler.get_job("busy").next_run_time is None and scheduler.live_runs() == []
with transaction.atomic(using="other"):
    try:
        scheduler.resume_job("busy")
    except transaction.TransactionManagementError as error:
        assert 'using="other"' in str(error), error
    else:
        raise AssertionError("went through")

# In a test case of Django its own transaction does not count.
from django.test import TestCase

class Case(TestCase):
    databases = {"default", "other"}

    def runTest(self):
        scheduler.resume_job("busy")
        with self.captureOnCommitCallbacks(execute=True):
            with transaction.atomic():
                transaction.on_commit(lambda: scheduler.pause_job("busy"))
        assert scheduler.get_job("busy").next_run_time is None
        with transaction.atomic(), self.assertRaises(transaction.TransactionManagementError):
            scheduler.resume_job("busy")

outcome = Case().run()
assert outcome.wasSuccessful(), outcome.errors + outcome.failures
scheduler.remove_job("busy")

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


CHECKS = """
import io
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import override_settings
from goscheduler.contrib.django import scheduler
from goscheduler.contrib.django.tasks import Backend

def told(*databases, **options):
    out = io.StringIO()
    try:
        call_command("check", databases=list(databases), stdout=out, stderr=out, **options)
    except CommandError as error:
        return f"failed: {error}"
    return out.getvalue()

def with_settings(given):
    with override_settings(GOSCHEDULER=given):
        return told()

for given, expected in [
    (None, "failed: "), (None, "add, for example, GOSCHEDULER"),
    ({"STORE": "db:defualt"}, "did you mean 'db:default'?"),
    ({"STORE": "db:default", "AUTODISCOVERY": "jobs"}, "did you mean 'AUTODISCOVER'?"),
    ({"STORE": "memory"}, "a worker does not see the jobs"),
]:
    assert expected in with_settings(given), (expected, with_settings(given))
for option, expected in [({"retyr": 3}, "did you mean 'retry'?"), ({"priority": 3}, "follows from the task")]:
    try:
        Backend("default", {"OPTIONS": option})
    except ImproperlyConfigured as error:
        assert expected in str(error) and 'TASKS["default"]["OPTIONS"]' in str(error), error
    else:
        raise AssertionError(option)
settings.GOSHEDULER = {}
assert "there is GOSHEDULER; did you mean GOSCHEDULER?" in with_settings(None)
del settings.GOSHEDULER

# The tables: none yet, which Django itself tells; of this version; older ones, which the command brings up.
assert "no issues" in told("default")
call_command("migrate", verbosity=0)
assert "no issues" in told("default")
call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
printed = io.StringIO()
call_command("sqlmigrate", "goscheduler", "0001", stdout=printed)
assert "CREATE TABLE goscheduler_jobs" in printed.getvalue()
with connection.cursor() as cursor:
    cursor.execute("UPDATE goscheduler_meta SET value = 4 WHERE name = 'schema'")
assert "are of version 4; this goscheduler needs version" in told("default")
call_command("goscheduler", "migrate", "up")
assert "no issues" in told("default")

# Settings that have changed: another store; what declares no store cannot be asked.
with override_settings(GOSCHEDULER={"STORE": "memory"}):
    scheduler.add_job("shop.duties:bill", "interval", hours=1, args=[1], id="in-memory")
    assert [job.id for job in scheduler.get_jobs()] == ["in-memory"]
assert scheduler.get_jobs() == []
print("checked")
"""


def test_the_checks_name_what_is_wrong_in_the_settings_and_in_the_tables(project: Any) -> None:
    assert project().run(CHECKS).endswith("The tables are up to date.\nchecked\n")


CONNECTIONS = """
import threading
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import connection
from goscheduler.contrib.django import scheduler

call_command("migrate", verbosity=0)
worker = scheduler.for_worker()
worker.start()
opened, ended = [], threading.Semaphore(0)

def probe():
    opened.append((threading.current_thread().name, connection.connection, len(connection.queries_log)))
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    ended.release()

async def probe_from_a_loop():
    await sync_to_async(probe)()

for job in (probe, probe_from_a_loop):
    for _ in range(2):
        worker.add_job(job)
        assert ended.acquire(timeout=60)
worker.shutdown()
assert [left for _, *left in opened] == [[None, 0]] * 4, opened  # nothing is left of the run before on the thread
assert opened[0][0] == opened[1][0] and opened[2][0] == opened[3][0]
print("clean")
"""


def test_each_run_begins_without_the_connections_and_queries_of_the_run_before(project: Any) -> None:
    one_thread = {"STORE": "db:default", "EXECUTORS": {"default": {"type": "threadpool", "max_workers": 1}}}
    assert project().run(CONNECTIONS, {"GOSCHEDULER": {**one_thread, "AUTODISCOVER": None}}) == "clean\n"


ADMIN = """
from html import unescape
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.test.utils import setup_test_environment
from goscheduler.contrib.django import scheduler
from shop.duties import bill
import goscheduler.contrib.django._proxy

setup_test_environment()
call_command("migrate", verbosity=0)
for each in connections.all():
    each.settings_dict["ATOMIC_REQUESTS"] = True  # acts are no part of the transaction of a request
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


TASK_OF_THE_PROJECT = """
from shop.errands import task
from goscheduler import Snooze

begun = []

@task()
def patient():
    begun.append(1)
    if len(begun) == 1:
        raise Snooze(0)
    return len(begun)
"""
OUTSIDE_OF_APPS = """
import sys, threading
from django.core.management import call_command
from goscheduler.contrib.django import scheduler
from goscheduler.contrib.django._task_api import task_finished
from goscheduler.contrib.django._task_results import find_task

call_command("migrate", verbosity=0)
assert "site_settings.chores" not in sys.modules
patient = find_task("site_settings.chores.patient")
told, finished = [], threading.Event()

def tell(sender, task_result, **_):
    told.append((str(task_result.status), len(task_result.errors)))
    finished.set()

task_finished.connect(tell)
worker = scheduler.for_worker()
worker.start()
result = patient.enqueue()
assert finished.wait(60)
worker.shutdown()
assert told == [("SUCCESSFUL", 0)], told
print("found")
"""


def test_a_task_outside_of_apps_is_found_and_one_that_puts_itself_off_has_not_failed(project: Any) -> None:
    site = project()
    package = site.folder / "site_settings"
    package.mkdir()
    (site.folder / "site_settings.py").rename(package / "__init__.py")
    (package / "chores.py").write_text(TASK_OF_THE_PROJECT, encoding="utf-8")
    assert site.run(OUTSIDE_OF_APPS).endswith("found\n")
