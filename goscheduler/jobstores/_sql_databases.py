"""Which database a URL is of."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url

from goscheduler.jobstores._sql_dialects import Dialect
from goscheduler.jobstores._sql_mysql import MySQL
from goscheduler.jobstores._sql_postgresql import PostgreSQL
from goscheduler.jobstores._sql_sqlite import SQLite


def dialect_of(url: str | URL) -> Dialect:
    """Return what is known about the database of a URL."""
    url = make_url(url)
    backend = url.get_backend_name()
    if backend == "sqlite":
        return SQLite(url)
    return {"postgresql": PostgreSQL, "mysql": MySQL, "mariadb": MySQL}.get(backend, Dialect)()
