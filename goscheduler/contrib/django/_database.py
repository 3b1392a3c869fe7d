"""Databases of Django, as job stores see them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from goscheduler.contrib.django._settings import DATABASE, NAME
from goscheduler.errors import shown

#: Options that are for Django and not for the driver.
OF_DJANGO = frozenset({
    "isolation_level", "server_side_binding", "pool", "assume_role", "transaction_mode", "init_command", "timeout",
    "prepare_threshold", "cursor_factory", "context", "autocommit", "conv",
})  # fmt: skip
#: Options that no URL can carry, because they are objects.
SCALARS = (str, int, float, bool)
#: What Django calls its drivers → what SQLAlchemy calls them.
MYSQL_DRIVERS = {"MySQLdb": "mysql+mysqldb", "pymysql": "mysql+pymysql"}


def store_url(alias: str) -> str:
    """Return the URL of the job store on a database of Django, as it is now: tests have another than the site.

    :raises ImproperlyConfigured: if no job store can be kept there
    """
    connection = connections[alias]
    driver = getattr(getattr(connection, "Database", None), "__name__", "")
    return url_of(connection.vendor, driver, connection.settings_dict, alias)


def url_of(vendor: str, driver: str, settings: Mapping[str, Any], alias: str = "default") -> str:
    """Return the URL for SQLAlchemy of what ``DATABASES`` has under an alias."""
    if vendor == "sqlite":
        return _sqlite_url(str(settings["NAME"]), alias)
    if vendor == "postgresql":
        return _server_url("postgresql+psycopg", settings, "host")
    if vendor == "mysql" and driver in MYSQL_DRIVERS:
        return _server_url(MYSQL_DRIVERS[driver], settings, "unix_socket")
    raise ImproperlyConfigured(
        f"{NAME}: STORE is {shown(DATABASE + alias)}, and that is a database of {vendor or 'an unknown vendor'}"
        f"{f' by the driver {driver}' if driver else ''}. Jobs can be kept in databases of SQLite, PostgreSQL, MySQL "
        "and MariaDB; give the URL of another job store"
    )


def _sqlite_url(name: str, alias: str) -> str:
    if name == ":memory:":
        raise ImproperlyConfigured(
            f"{NAME}: STORE is {shown(DATABASE + alias)}, and that database lives in the memory of one connection, "
            "where no job store can see it. Give it a file"
        )
    if name.startswith("file:"):
        return f"sqlite:///{name}{'&' if '?' in name else '?'}uri=true"
    return f"sqlite:///{os.path.abspath(name)}"


def _server_url(scheme: str, settings: Mapping[str, Any], socket: str) -> str:
    """Return the URL of a database on a server; the host may be the path of a socket."""
    user, password = quote(settings.get("USER") or "", safe=""), quote(settings.get("PASSWORD") or "", safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    host, port = str(settings.get("HOST") or ""), str(settings.get("PORT") or "")
    query = _query(settings.get("OPTIONS") or {})
    if host.startswith("/"):
        query, host = {**query, socket: host}, ""
        if port and socket == "host":  # PostgreSQL names its sockets after the port
            query, port = {**query, "port": port}, ""
    if ":" in host:
        host = f"[{host}]"
    place = f"{host}:{port}" if port and host else f"localhost:{port}" if port else host
    text = f"?{urlencode(query)}" if query else ""
    return f"{scheme}://{login}{place}/{settings.get('NAME') or ''}{text}"


def _query(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options for the driver, as a URL carries them."""
    found = {
        name: str(value) for name, value in options.items() if name not in OF_DJANGO and isinstance(value, SCALARS)
    }
    tls = options.get("ssl")
    if isinstance(tls, Mapping):
        found.update({f"ssl_{name}": str(value) for name, value in tls.items()})
    return found
