"""Triggers, executors and job stores by name.

A name is looked up in the table of what is built in, which needs no installed metadata and so works in frozen and
vendored programs too, and then among the entry points of the groups ``goscheduler.triggers``, ``.executors`` and
``.jobstores`` and their ``apscheduler.`` namesakes. Nothing is imported before its name is asked for.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from goscheduler._urls import has_clear_login, masked
from goscheduler.errors import InvalidArgument, UnknownOption, nearest, shown
from goscheduler.references import maybe_ref

Kind = Literal["trigger", "executor", "jobstore"]


class BuiltIn(NamedTuple):
    """Where a built-in class is found, and the extra that brings what it needs."""

    reference: str
    extra: str | None = None


BUILT_IN: Mapping[str, Mapping[str, BuiltIn]] = MappingProxyType(
    {
        "trigger": {
            "date": BuiltIn("goscheduler.triggers.date:DateTrigger"),
            "interval": BuiltIn("goscheduler.triggers.interval:IntervalTrigger"),
            "cron": BuiltIn("goscheduler.triggers.cron:CronTrigger"),
            "calendarinterval": BuiltIn("goscheduler.triggers.calendarinterval:CalendarIntervalTrigger"),
            "and": BuiltIn("goscheduler.triggers.combining:AndTrigger"),
            "or": BuiltIn("goscheduler.triggers.combining:OrTrigger"),
            "rrule": BuiltIn("goscheduler.triggers.rrule:RRuleTrigger"),
        },
        "executor": {
            "threadpool": BuiltIn("goscheduler.executors.pool:ThreadPoolExecutor"),
            "processpool": BuiltIn("goscheduler.executors.pool:ProcessPoolExecutor"),
            "asyncio": BuiltIn("goscheduler.executors.asyncio:AsyncIOExecutor"),
            "debug": BuiltIn("goscheduler.executors.debug:DebugExecutor"),
            "futures": BuiltIn("goscheduler.executors.futures:FuturesExecutor"),
            "dask": BuiltIn("goscheduler.executors.dask:DaskExecutor", "dask"),
            "kubernetes": BuiltIn("goscheduler.executors.kubernetes:KubernetesExecutor", "kubernetes"),
            "tornado": BuiltIn("goscheduler.executors.tornado:TornadoExecutor", "tornado"),
            "gevent": BuiltIn("goscheduler.executors.gevent:GeventExecutor", "gevent"),
            "twisted": BuiltIn("goscheduler.executors.twisted:TwistedExecutor", "twisted"),
            "qt": BuiltIn("goscheduler.executors.qt:QtExecutor", "qt"),
        },
        "jobstore": {
            "memory": BuiltIn("goscheduler.jobstores.memory:MemoryJobStore"),
            "sqlalchemy": BuiltIn("goscheduler.jobstores.sqlalchemy:SQLAlchemyJobStore", "sqlalchemy"),
            "redis": BuiltIn("goscheduler.jobstores.redis:RedisJobStore", "redis"),
            "mongodb": BuiltIn("goscheduler.jobstores.mongodb:MongoDBJobStore", "mongodb"),
            "etcd": BuiltIn("goscheduler.jobstores.etcd:EtcdJobStore", "etcd"),
            "zookeeper": BuiltIn("goscheduler.jobstores.zookeeper:ZooKeeperJobStore", "zookeeper"),
        },
    }
)

#: What a job store's URL begins with → the plug-in, and the extra that brings its driver.
STORE_URLS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "sqlite": ("sqlalchemy", "sqlalchemy"),
        "postgresql": ("sqlalchemy", "postgresql"),
        "mysql": ("sqlalchemy", "mysql"),
        "mariadb": ("sqlalchemy", "mysql"),
        "oracle": ("sqlalchemy", "sqlalchemy"),
        "mssql": ("sqlalchemy", "sqlalchemy"),
        "redis": ("redis", "redis"),
        "rediss": ("redis", "redis"),
        "redis+sentinel": ("redis", "redis"),
        "rediss+sentinel": ("redis", "redis"),
        "mongodb": ("mongodb", "mongodb"),
        "mongodb+srv": ("mongodb", "mongodb"),
        "etcd": ("etcd", "etcd"),
        "etcds": ("etcd", "etcd"),
        "zookeeper": ("zookeeper", "zookeeper"),
    }
)

_BASES: Mapping[str, str] = {
    "trigger": "goscheduler.triggers.base:BaseTrigger",
    "executor": "goscheduler.executors.base:BaseExecutor",
    "jobstore": "goscheduler.jobstores.base:BaseJobStore",
}
_NOUNS: Mapping[str, str] = {"trigger": "trigger", "executor": "executor", "jobstore": "job store"}


def create_plugin(kind: Kind, alias: str, value: Any) -> Any:
    """Return the executor or job store that a configuration describes: an instance, a dict to make one from, or the
    URL of a job store."""
    if isinstance(value, base_class(kind)):
        return value
    make, options = read_plugin(kind, alias, value)
    made = make(**options)
    if kind == "jobstore" and isinstance(options.get("url"), str):
        made.address = masked(options["url"])
    return made


def read_plugin(kind: Kind, alias: str, value: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return what makes the plug-in that a configuration describes, and the arguments for that, checked.

    A dict has ``type``, a plug-in name or the URL of a job store, or ``class``, a class or a reference to one; the rest
    are arguments. It is not changed.
    """
    where = f"{kind}s[{shown(alias)}]"
    if kind == "jobstore" and isinstance(value, str):
        value = {"type": value}
    if not isinstance(value, Mapping):
        raise TypeError(f"Expected {_NOUNS[kind]} instance or dict for {where}, got {type(value).__name__} instead")
    options = dict(value)
    name, cls = options.pop("type", None), options.pop("class", None)
    if not name and not cls:
        raise InvalidArgument(
            f'Cannot create {_NOUNS[kind]} "{alias}" -- either "type" or "class" must be defined', field=where
        )
    if kind == "jobstore" and isinstance(name, str) and "://" in name:
        found = _class_for_url(name)
        check_plugin_options(found, options, where)
        return found.from_url, {"url": name, **options}
    found = load_plugin(kind, name) if name else _checked(kind, maybe_ref(cls), f"The class of {where}")
    check_plugin_options(found, options, where)
    return found, options


def _class_for_url(url: str) -> type[Any]:
    """Return the class of the job store for a URL."""
    scheme = url.partition("://")[0].lower()
    plugin, extra = STORE_URLS.get(scheme) or STORE_URLS.get(scheme.partition("+")[0]) or ("", "")
    if not plugin:
        near = nearest(scheme, STORE_URLS)
        hint = f"did you mean {near}://?" if near else f"known are {', '.join(f'{each}://' for each in STORE_URLS)}"
        raise InvalidArgument(f"No job store is known for the URL {shown(url)}; {hint}", field="url", value=masked(url))
    if plugin in BUILT_IN["jobstore"]:
        return _load_built_in("jobstore", masked(url), BUILT_IN["jobstore"][plugin]._replace(extra=extra))
    return load_plugin("jobstore", plugin)


def require_clear_login(url: str, *, first_at: bool = False) -> None:
    """Refuse a URL in which it cannot be told where the password ends, as :func:`has_clear_login` tells it.

    :raises InvalidArgument: without any part of the URL
    """
    if not has_clear_login(url, first_at=first_at):
        raise InvalidArgument(
            "url: it cannot be told where the password ends; write @ as %40, / as %2F, : as %3A, ? as %3F and # as %23 "
            "in user, password and path",
            field="url",
        )


def create_trigger(
    name: str, options: Mapping[str, Any], timezone: tzinfo | None, also_known: Iterable[str] = ()
) -> Any:
    """Return the trigger of this name, made with ``options``, on the ``calendar`` among them.

    ``timezone`` is put in where none is given, unless the trigger has none of its own, such as ``and``. ``also_known``
    are options that the caller itself takes, for the hint about a misspelt one.
    """
    cls: Callable[..., Any] = load_plugin("trigger", name)
    accepted = _parameters(cls)
    around = {name: value for name, value in options.items() if name in ("calendar", "on_closed")}
    wanted = {name: value for name, value in options.items() if name not in around}
    if timezone is not None and (accepted is None or "timezone" in accepted):
        wanted.setdefault("timezone", timezone)
    check_plugin_options(cls, wanted, f"{name} trigger", {*also_known, "calendar", "on_closed"})
    made = cls(**wanted)
    if not around:
        return made
    from goscheduler.triggers.calendar import on_calendar  # few programs need it

    return on_calendar(made, around)


def check_plugin_options(
    cls: Callable[..., Any], options: Mapping[str, Any], where: str, also_known: Iterable[str] = ()
) -> None:
    """Raise :class:`UnknownOption` for an option that the constructor of ``cls`` does not take."""
    accepted = _parameters(cls)
    for option in options:
        if accepted is not None and option not in accepted:
            raise UnknownOption(str(option), {*accepted, *also_known}, where=where)


@lru_cache(maxsize=256)
def _parameters(cls: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names of what a constructor takes by keyword, or None if that is anything or cannot be told."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except ValueError:
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(parameter.name for parameter in parameters if parameter.kind in named)


def load_plugin(kind: Kind, name: str) -> type[Any]:
    """Return the class that is known by this name.

    :raises LookupError: if no such name is known
    :raises ImportError: if something that it needs is not installed
    """
    if not isinstance(name, str):
        raise TypeError(f"The name of a {_NOUNS[kind]} must be a string, got {shown(name)}")
    if name in BUILT_IN[kind]:
        return _load_built_in(kind, name, BUILT_IN[kind][name])
    if name in (found := _entry_points(kind)):
        return _load_entry_point(kind, found[name])
    raise _no_such_plugin(kind, name, [*BUILT_IN[kind], *found])


def base_class(kind: Kind) -> type[Any]:
    """Return the class that all plug-ins of a kind derive from."""
    return _import(_BASES[kind])


def _load_built_in(kind: Kind, name: str, entry: BuiltIn) -> type[Any]:
    try:
        return _import(entry.reference)
    except ImportError as exc:
        if entry.extra is None:
            raise
        raise ImportError(
            f'The {_NOUNS[kind]} "{name}" needs a package that is not installed ({exc}); '
            f'install it with: pip install "goscheduler[{entry.extra}]"',
            name=exc.name,
        ) from exc


def _load_entry_point(kind: Kind, entry: EntryPoint) -> type[Any]:
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as exc:
        raise ImportError(f'The {_NOUNS[kind]} "{entry.name}" ({entry.value}) could not be loaded: {exc}') from exc
    return _checked(kind, loaded, f"The {kind} entry point")


@lru_cache(maxsize=len(_BASES))
def _entry_points(kind: Kind) -> Mapping[str, EntryPoint]:
    """Return what other packages offer. APScheduler's own classes are left out: they are built for its base classes."""
    found: dict[str, EntryPoint] = {}
    for root in ("goscheduler", "apscheduler"):
        for entry in entry_points(group=f"{root}.{kind}s"):
            if not entry.value.startswith("apscheduler."):
                found.setdefault(entry.name, entry)
    return found


def _no_such_plugin(kind: Kind, name: str, known: list[str]) -> LookupError:
    near = nearest(name, known)
    hint = f'did you mean "{near}"?' if near else f"known names: {', '.join(sorted(set(known)))}"
    return LookupError(f'No {kind} by the name "{shown(name)[1:-1]}" was found; {hint}')


def _checked(kind: Kind, loaded: Any, what: str) -> type[Any]:
    base = base_class(kind)
    if isinstance(loaded, type) and issubclass(loaded, base):
        return loaded
    article = "an" if kind == "executor" else "a"
    raise TypeError(
        f"{what} does not point to {article} {kind} class: {shown(loaded)} is no subclass of "
        f"{base.__module__}.{base.__qualname__}"
    )


@lru_cache(maxsize=256)
def _import(reference: str) -> type[Any]:
    module, _, name = reference.partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), name)
    return cls
