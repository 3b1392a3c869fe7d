"""What the setting GOSCHEDULER may say, and what becomes of a database of Django."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured
from rows import each_row
from sqlalchemy.engine import make_url

from goscheduler.contrib.django._database import url_of
from goscheduler.contrib.django._settings import missing, parse

DATABASES = {"default", "jobs"}


def test_what_is_left_open_has_its_default():
    read = parse({"STORE": "db:jobs"}, DATABASES)
    assert (read.alias, read.autodiscover, dict(read.job_defaults), read.timezone) == ("jobs", "jobs", {}, None)
    assert parse({"STORE": "redis://localhost/0", "AUTODISCOVER": None}, DATABASES).alias is None


@each_row(("given", "message"), [
    ({}, "has no STORE"),
    (["db:default"], "must be a mapping"),
    ({"STROE": "db:default"}, "unknown key 'STROE'; did you mean 'STORE'"),
    ({"STORE": "db:default", "store": 1}, "unknown key 'store'; did you mean 'STORE'"),
    ({"STORE": "db:default", "COLOUR": 1}, "unknown key 'COLOUR'; known are STORE, "),
    ({"STORE": "db:defualt"}, "DATABASES has no 'defualt'; did you mean 'db:default'"),
    ({"STORE": "db:"}, "DATABASES has no ''; DATABASES has default, jobs"),
    ({"STORE": "default"}, "STORE must be"),
    ({"STORE": None}, "STORE must be"),
    ({"STORE": "memory", "JOB_DEFAULTS": 3}, "JOB_DEFAULTS must be a mapping"),
    ({"STORE": "memory", "EXECUTORS": []}, "EXECUTORS must be a mapping"),
    ({"STORE": "memory", "AUTODISCOVER": "shop.jobs"}, "AUTODISCOVER must be the name of a module"),
    ({"STORE": "memory", "AUTODISCOVER": True}, "AUTODISCOVER must be the name of a module"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_by_its_name(given, message):
    with pytest.raises(ImproperlyConfigured) as refusal:
        parse(given, DATABASES)
    assert message in str(refusal.value)


def test_a_setting_that_is_missing_may_be_one_that_is_misspelt():
    assert missing(["DEBUG"]).endswith('no GOSCHEDULER: add, for example, GOSCHEDULER = {"STORE": "db:default"}')
    assert missing(["GOSHEDULER"]).endswith("there is GOSHEDULER; did you mean GOSCHEDULER?")


SERVER = {"NAME": "shop", "USER": "ada", "PASSWORD": "p@ss:/?#%", "HOST": "db", "PORT": 5433, "OPTIONS": {}}


@each_row(("vendor", "driver", "changes", "expected"), [
    ("postgresql", "psycopg", {}, ("postgresql+psycopg", "ada", "p@ss:/?#%", "db", 5433, "shop", {})),
    ("postgresql", "psycopg2", {"PORT": ""}, ("postgresql+psycopg", "ada", "p@ss:/?#%", "db", None, "shop", {})),
    ("postgresql", "psycopg", {"HOST": "/run/pg"},
     ("postgresql+psycopg", "ada", "p@ss:/?#%", None, None, "shop", {"host": "/run/pg", "port": "5433"})),
    ("postgresql", "psycopg", {"HOST": "::1", "PASSWORD": ""},
     ("postgresql+psycopg", "ada", None, "::1", 5433, "shop", {})),
    ("postgresql", "psycopg", {"OPTIONS": {"sslmode": "verify-full", "isolation_level": 3, "pool": True}},
     ("postgresql+psycopg", "ada", "p@ss:/?#%", "db", 5433, "shop", {"sslmode": "verify-full"})),
    ("postgresql", "psycopg", {**dict.fromkeys(SERVER, ""), "OPTIONS": {"service": "site"}},
     ("postgresql+psycopg", None, None, None, None, "", {"service": "site"})),
    ("mysql", "MySQLdb", {}, ("mysql+mysqldb", "ada", "p@ss:/?#%", "db", 5433, "shop", {})),
    ("mysql", "pymysql", {"HOST": "/run/my.sock", "PORT": "", "OPTIONS": {"ssl": {"ca": "/ca.pem"}}},
     ("mysql+pymysql", "ada", "p@ss:/?#%", None, None, "shop", {"unix_socket": "/run/my.sock", "ssl_ca": "/ca.pem"})),
])  # fmt: skip
def test_the_store_is_where_django_keeps_its_tables(vendor, driver, changes, expected):
    url = make_url(url_of(vendor, driver, {**SERVER, **changes}))
    place = url.username or None, url.password, url.host or None, url.port, url.database or ""
    assert (url.drivername, *place, dict(url.query)) == expected


def test_a_file_of_sqlite_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert url_of("sqlite", "sqlite3", {"NAME": "site.db"}) == f"sqlite:///{tmp_path}/site.db"
    shared = url_of("sqlite", "sqlite3", {"NAME": "file:memorydb_default?mode=memory&cache=shared"})
    assert shared == "sqlite:///file:memorydb_default?mode=memory&cache=shared&uri=true"


@each_row(("vendor", "driver", "name", "message"), [
    ("oracle", "oracledb", "shop", "a database of oracle by the driver oracledb"),
    ("mysql", "mysql.connector", "shop", "by the driver mysql.connector"),
    ("sqlite", "sqlite3", ":memory:", "lives in the memory of one connection"),
])  # fmt: skip
def test_a_database_that_cannot_keep_jobs_is_refused(vendor, driver, name, message):
    with pytest.raises(ImproperlyConfigured) as refusal:
        url_of(vendor, driver, {**SERVER, "NAME": name})
    assert message in str(refusal.value)
    assert "p@ss" not in str(refusal.value)
