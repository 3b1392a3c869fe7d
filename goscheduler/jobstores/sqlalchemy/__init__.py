"""The store on SQL databases: SQLite, PostgreSQL, MySQL and MariaDB, through SQLAlchemy."""

from goscheduler.jobstores.sqlalchemy.store import SQLAlchemyJobStore

__all__ = ["SQLAlchemyJobStore"]
