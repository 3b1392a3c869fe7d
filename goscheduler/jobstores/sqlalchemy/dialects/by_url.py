"""Finds the dialect of a URL."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url

from goscheduler.jobstores.sqlalchemy.dialects.base import Dialect
from goscheduler.jobstores.sqlalchemy.dialects.mysql import MySQL
from goscheduler.jobstores.sqlalchemy.dialects.postgresql.dialect import PostgreSQL
from goscheduler.jobstores.sqlalchemy.dialects.sqlite import SQLite


def dialect_of(url: str | URL) -> Dialect:
    """Return the dialect of a URL."""
    url = make_url(url)
    backend = url.get_backend_name()
    if backend == "sqlite":
        return SQLite(url)
    return {"postgresql": PostgreSQL, "mysql": MySQL, "mariadb": MySQL}.get(backend, Dialect)()
