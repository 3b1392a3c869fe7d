"""System checks: what ``manage.py check`` says of the setting ``GOSCHEDULER`` and of the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from goscheduler.contrib.django._database import store_url
from goscheduler.contrib.django._settings import project_settings


def register_checks() -> None:
    """Have Django call the checks."""
    checks.register(check_settings)
    checks.register(check_tables, checks.Tags.database)


def check_settings(app_configs: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Report settings that are missing or make no sense, and a store that no other process can see."""
    try:
        read = project_settings()
        if read.alias is not None:
            store_url(read.alias)
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="goscheduler.E001")]
    if read.store == "memory":
        return [checks.Warning(
            "GOSCHEDULER: STORE is \"memory\": a worker does not see the jobs that web processes add.",
            hint='Give a store that processes share, such as "db:default".', id="goscheduler.W001",
        )]  # fmt: skip
    return []


def check_tables(databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """Report tables that are not of this version; only asked where Django may ask databases."""
    try:
        alias = project_settings().alias
    except ImproperlyConfigured:
        return []
    if alias is None or alias not in (databases or ()):
        return []
    from goscheduler.contrib.django._tables import tables_status

    connection = connections[alias]
    status = tables_status(connection)
    if status.current or (status.version is None and not _is_migrated(connection)):
        return []  # Django itself tells of a migration that was not applied
    there = "are missing" if status.version is None else f"are of version {status.version}"
    return [checks.Warning(
        f'The tables of goscheduler in the database "{alias}" {there}; this goscheduler needs version {status.wanted}.',
        hint="manage.py goscheduler migrate up makes them current; so does a worker when it starts.",
        id="goscheduler.W002",
    )]  # fmt: skip


def _is_migrated(connection: Any) -> bool:
    return any(app == "goscheduler" for app, _ in MigrationRecorder(connection).applied_migrations())
