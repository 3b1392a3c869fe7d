"""The tables of the job store, made by Django's migrations over Django's connection."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.db import router, transaction
from django.db.migrations.operations.base import Operation

from goscheduler.contrib.django._database import store_url
from goscheduler.contrib.django._settings import project_settings

if TYPE_CHECKING:  # where the jobs are in Redis nobody needs SQLAlchemy
    from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
    from goscheduler.jobstores.sqlalchemy.migrations import SchemaStatus


def tables_status(connection: Any) -> SchemaStatus:
    """Return which version of the tables is there, as Django's connection sees it."""
    from goscheduler.jobstores.sqlalchemy.migrations import SCHEMA, SchemaStatus
    from goscheduler.jobstores.sqlalchemy.tables import Tables

    meta = Tables("goscheduler", None).meta.name
    with connection.cursor() as cursor:
        if meta not in connection.introspection.table_names(cursor):
            return SchemaStatus(None)
        cursor.execute(f"SELECT value FROM {meta} WHERE name = %s", [SCHEMA])
        found = cursor.fetchone()
    return SchemaStatus(None if found is None else int(found[0]))


class StoreTables(Operation):  # type: ignore[misc]
    """Makes the tables of the job store, or brings older ones to a version; other databases it leaves alone."""

    reduces_to_sql = True
    reversible = True
    elidable = False

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change no model: there are none."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if not _keeps_jobs(connection.alias) or not router.allow_migrate(connection.alias, app_label):
            return
        if schema_editor.collect_sql:
            _execute(schema_editor)
            return
        status = tables_status(connection)
        if connection.vendor == "sqlite":  # a store does so too, but cannot while a transaction of Django is open
            with connection.cursor() as cursor:
                cursor.execute("PRAGMA journal_mode=WAL")
        if status.version is None:
            with transaction.atomic(using=connection.alias) if connection.features.can_rollback_ddl else nullcontext():
                _execute(schema_editor)
        elif status.version < self.version:
            _store(connection).upgrade_schema()  # steps that read and write, over a connection of the store

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Keep the tables: they hold jobs."""

    def describe(self) -> str:
        return f"Tables of goscheduler, version {self.version}"

    @property
    def migration_name_fragment(self) -> str:
        return f"tables_{self.version}"


def _keeps_jobs(alias: str) -> bool:
    """Tell whether the jobs are kept in a database; where the settings are wrong the checks say so."""
    try:
        return project_settings().alias == alias
    except ImproperlyConfigured:
        return False


def _execute(schema_editor: Any) -> None:
    for statement in _store(schema_editor.connection).schema_sql():
        schema_editor.execute(statement, params=None)


def _store(connection: Any) -> SQLAlchemyJobStore:
    from goscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore

    url = store_url(connection.alias)
    if connection.vendor == "mysql" and connection.mysql_is_mariadb:
        url = url.replace("mysql+", "mariadb+", 1)  # they know different collations
    return SQLAlchemyJobStore.from_url(url)
