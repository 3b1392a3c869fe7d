"""The setting ``GOSCHEDULER``, read into checked values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from goscheduler.errors import nearest, shown

NAME = "GOSCHEDULER"
EXAMPLE = 'GOSCHEDULER = {"STORE": "db:default"}'
DATABASE = "db:"


class ProjectSettings(NamedTuple):
    """What ``GOSCHEDULER`` says."""

    store: Any
    """``db:<alias>`` for a database of Django, the URL of a job store, ``memory``, or a mapping as in ``jobstores``."""
    autodiscover: str | None = "jobs"
    """The module of each app that declares jobs; None for no search."""
    job_defaults: Mapping[str, Any] = MappingProxyType({})
    executors: Mapping[str, Any] = MappingProxyType({})
    timezone: str | None = None
    """The zone of schedules that name none; None for ``TIME_ZONE``."""
    options: Mapping[str, Any] = MappingProxyType({})
    """Further options of the scheduler, such as ``lease``."""

    @property
    def alias(self) -> str | None:
        """The database of Django that keeps the jobs; None if they are kept elsewhere."""
        is_database = isinstance(self.store, str) and self.store.startswith(DATABASE)
        return self.store[len(DATABASE) :] if is_database else None


def project_settings() -> ProjectSettings:
    """Return the settings of this project.

    :raises ImproperlyConfigured: if they are missing or make no sense
    """
    given = getattr(settings, NAME, None)
    if given is None:
        raise ImproperlyConfigured(missing(name for name in dir(settings) if name.isupper()))
    return parse(given, set(getattr(settings, "DATABASES", {})))


def missing(names: Iterable[str]) -> str:
    """Return what is wrong in settings of these names."""
    alike = nearest(NAME, [name for name in names if name != NAME])
    meant = f"there is {alike}; did you mean {NAME}?" if alike else f"add, for example, {EXAMPLE}"
    return f"The settings have no {NAME}: {meant}"


def parse(given: Any, databases: set[str]) -> ProjectSettings:
    """Return the checked values of a mapping.

    :raises ImproperlyConfigured: naming the key that is unknown or makes no sense
    """
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"{NAME} must be a mapping such as {EXAMPLE}, got {shown(given)}")
    known = [name.upper() for name in ProjectSettings._fields]
    for key in given:
        if key not in known:
            alike = nearest(str(key).upper(), known)
            hint = f"did you mean {alike!r}?" if alike else f"known are {', '.join(known)}"
            raise ImproperlyConfigured(f"{NAME} has an unknown key {shown(key)}; {hint}")
    if "STORE" not in given:
        raise ImproperlyConfigured(f"{NAME} has no STORE. Add, for example, {EXAMPLE}")
    read = ProjectSettings(**{key.lower(): value for key, value in given.items()})
    _check_store(read, databases)
    _check_kinds(read)
    return read


def _check_store(read: ProjectSettings, databases: set[str]) -> None:
    store = read.store
    if read.alias is not None and read.alias not in databases:
        alike = nearest(read.alias, databases)
        hint = f"did you mean {DATABASE + alike!r}?" if alike else f"DATABASES has {', '.join(sorted(databases))}"
        raise ImproperlyConfigured(f"{NAME}: STORE is {shown(store)}, and DATABASES has no {shown(read.alias)}; {hint}")
    text = isinstance(store, str) and (read.alias is not None or store == "memory" or "://" in store)
    if not text and not isinstance(store, Mapping):
        raise ImproperlyConfigured(
            f'{NAME}: STORE must be "{DATABASE}" and the alias of a database, the URL of a job store such as '
            f'redis://localhost/0, "memory", or a mapping, got {shown(store)}'
        )


def _check_kinds(read: ProjectSettings) -> None:
    for name in ("job_defaults", "executors", "options"):
        if not isinstance(getattr(read, name), Mapping):
            raise ImproperlyConfigured(
                f"{NAME}: {name.upper()} must be a mapping, got {shown(getattr(read, name))}"
            )
    module = read.autodiscover
    if module is not None and (not isinstance(module, str) or not module.isidentifier()):
        raise ImproperlyConfigured(
            f'{NAME}: AUTODISCOVER must be the name of a module in an app, such as "jobs", or None, got {shown(module)}'
        )
