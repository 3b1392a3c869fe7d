"""The configuration of a scheduler, parsed once into a frozen value.

It comes as a flat mapping with dotted keys (an ini file), as nested mappings, as keyword options, or mixed, and values
may be strings. Everything wrong with it is reported at once, and nothing that the caller handed over is changed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Literal, TypeVar, cast

from goscheduler._resolver import ANY_MODULE
from goscheduler.errors import InvalidArgument, UnknownOption, shown
from goscheduler.executors.enclosure import Enclosure, read_enclosures
from goscheduler.options import CHECKS, OPTION_NAMES
from goscheduler.plugins import Kind, base_class, read_plugin
from goscheduler.references import ref_to_obj
from goscheduler.runs.records import Retention
from goscheduler.times import astimezone, local_timezone
from goscheduler.util import asbool

#: Prefixes of the keys that concern a scheduler, in a mapping that it may share with a whole application.
DEFAULT_PREFIXES = ("goscheduler.", "apscheduler.")

EVENT_DISPATCH = ("thread", "sync")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The settings of a scheduler, checked."""

    logger: logging.Logger | None = None
    """Where the scheduler writes; None: its own."""
    timezone: tzinfo = field(default_factory=local_timezone)
    """The zone in which times without one are read; by default the machine's."""
    jobstore_retry_interval: float = 10.0
    """Seconds until a store that failed is asked again."""
    poll_interval: float = 10.0
    """The longest rest, in seconds, before the stores are asked for work that nobody has told of."""
    lease: float = 30.0
    """After how many seconds without a sign of life the others give a scheduler up that shares their store."""
    start_timeout: float | None = None
    """For how many seconds a start waits for stores that cannot be reached; None: for ever."""
    job_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Checked options for jobs that do not say otherwise."""
    executors: Mapping[str, Any] = field(default_factory=dict)
    """Executors by alias: instances, or dicts that :func:`goscheduler.plugins.create_plugin` understands."""
    jobstores: Mapping[str, Any] = field(default_factory=dict)
    """Job stores by alias, likewise."""
    event_dispatch: Literal["thread", "sync"] = "thread"
    """Whether listeners are called on a thread of their own or on the one where the event happens."""
    registered_only: bool = False
    """Whether jobs may be of registered tasks only, and not of any function that can be imported."""
    allowed_modules: tuple[str, ...] = ()
    """Installed modules that stored references may lead into, beside the program's own; "any" alone for all."""
    retention: Retention = field(default_factory=Retention)
    """How long records of finished attempts are kept."""
    around: tuple[Enclosure, ...] = ()
    """What encloses each run, from the outside in."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Options that only one scheduler class knows, as given."""


def parse_config(
    gconfig: Mapping[str, Any] | None = None,
    prefix: str | Iterable[str] | None = DEFAULT_PREFIXES,
    options: Mapping[str, Any] | None = None,
    extra_keys: Collection[str] = (),
) -> SchedulerConfig:
    """Return the configuration that ``gconfig`` and the keyword ``options`` describe.

    Of ``gconfig`` only the keys that begin with ``prefix`` count, all of them if it is empty; dots in the rest make
    nested mappings. ``options`` replace whole top-level keys. ``extra_keys`` are those that the scheduler class adds.

    :raises UnknownOption: for a key that nobody knows
    :raises InvalidArgument: for a value that makes no sense, or for several errors together
    """
    return parse_settings(collect_settings(gconfig, prefix, options), extra_keys)


def collect_settings(
    gconfig: Mapping[str, Any] | None, prefix: str | Iterable[str] | None, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return what was given, as nested dicts without prefixes, nothing checked yet; the caller may change it."""
    faults = _Faults()
    settings = _nested(_matching(gconfig or {}, prefix, faults), faults) | dict(options or {})
    faults.raise_if_any()
    return settings


def parse_settings(settings: Mapping[str, Any], extra_keys: Collection[str] = ()) -> SchedulerConfig:
    """Return the configuration that collected settings describe. Raises as :func:`parse_config`."""
    faults = _Faults()
    parsed: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in settings.items():
        if name in extra_keys:
            extra[name] = value
        elif name in _PARSERS:
            parsed[name] = faults.catch(_PARSERS[name], value, faults)
        else:
            faults.add(_unknown(name, extra_keys))
    faults.raise_if_any()
    return SchedulerConfig(**{name: value for name, value in parsed.items() if value is not None}, extra=extra)


class _Faults:
    """Gathers errors, so that a configuration is mended in one go."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def add(self, error: Exception) -> None:
        self._errors.append(error)

    def catch(self, parse: Callable[..., _T], *arguments: Any) -> _T | None:
        try:
            return parse(*arguments)
        except (ValueError, TypeError, LookupError, ImportError) as error:
            self.add(error)
            return None

    def raise_if_any(self) -> None:
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            lines = "".join(f"\n- {error}" for error in self._errors)
            raise InvalidArgument(
                f"{len(self._errors)} errors in the configuration:{lines}", field="config", value=tuple(self._errors)
            )


def _matching(gconfig: Mapping[str, Any], prefix: str | Iterable[str] | None, faults: _Faults) -> dict[str, Any]:
    """Return the settings under one of the prefixes, without it."""
    if not isinstance(gconfig, Mapping):
        raise TypeError(f"The configuration must be a mapping, got {shown(gconfig)}")
    if prefix is not None and not isinstance(prefix, (str, tuple, list)):
        raise TypeError(f"prefix must be a string, got {shown(prefix)}")
    prefixes = (prefix or "",) if isinstance(prefix, str) or prefix is None else tuple(prefix)
    found: dict[str, Any] = {}
    for one in prefixes:
        for key, value in gconfig.items():
            if not isinstance(key, str) or not key.startswith(one):
                continue
            name = key[len(one) :]
            if name in found:
                faults.add(InvalidArgument(f"{key} is configured under another prefix too", field=name, value=value))
            found.setdefault(name, value)
    return found


def _nested(flat: Mapping[str, Any], faults: _Faults) -> dict[str, Any]:
    """Return mappings of mappings for dotted keys; mappings that were given are copied before anything is put in."""
    root: dict[str, Any] = {}
    for key in sorted(flat, key=lambda name: name.count(".")):
        *parents, last = key.split(".")
        try:
            level = _descend(root, parents)
        except TypeError:
            faults.add(InvalidArgument(f"{key} cannot be set beside a value for {'.'.join(parents)}", field=key))
            continue
        if last in level:
            faults.add(InvalidArgument(f"{key} is configured twice", field=key, value=flat[key]))
            continue
        level[last] = dict(flat[key]) if isinstance(flat[key], Mapping) else flat[key]
    return root


def _descend(level: dict[str, Any], parents: list[str]) -> dict[str, Any]:
    for name in parents:
        inner = level.get(name, {})
        if not isinstance(inner, Mapping):
            raise TypeError(name)
        level[name] = dict(inner)
        level = level[name]
    return level


def _unknown(name: str, extra_keys: Collection[str]) -> UnknownOption:
    where = "the scheduler itself (it belongs into job_defaults)" if name in CHECKS else "the scheduler"
    return UnknownOption(str(name), [*_PARSERS, *extra_keys], where=where)


def _parse_logger(value: Any, _faults: _Faults) -> logging.Logger | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = ref_to_obj(value) if ":" in value else logging.getLogger(value)
    if not callable(getattr(value, "info", None)) or not callable(getattr(value, "exception", None)):
        raise TypeError(f"logger must be a logger, its name or a reference to one, got {shown(value)}")
    return cast(logging.Logger, value)


def _parse_timezone(value: Any, _faults: _Faults) -> tzinfo | None:
    return astimezone(value)


def _parse_retry_interval(value: Any, _faults: _Faults) -> float:
    return _seconds("jobstore_retry_interval", value)


def _parse_poll_interval(value: Any, _faults: _Faults) -> float:
    return _seconds("poll_interval", value)


def _parse_lease(value: Any, _faults: _Faults) -> float:
    return _seconds("lease", value)


def _parse_start_timeout(value: Any, _faults: _Faults) -> float | None:
    return None if value is None else _seconds("start_timeout", value)


def _seconds(field: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidArgument(
            f"{field} must be a positive number of seconds, got {shown(value)}", field=field, value=value
        )
    return seconds


def _parse_job_defaults(value: Any, faults: _Faults) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, option in _as_mapping("job_defaults", value).items():
        if name not in CHECKS:
            faults.add(UnknownOption(str(name), OPTION_NAMES, where="job_defaults"))
        else:
            checked[name] = faults.catch(CHECKS[name], option)
    return checked


def _parse_executors(value: Any, faults: _Faults) -> dict[str, Any]:
    return _parse_plugins("executor", value, faults)


def _parse_jobstores(value: Any, faults: _Faults) -> dict[str, Any]:
    return _parse_plugins("jobstore", value, faults)


def _parse_plugins(kind: Kind, value: Any, faults: _Faults) -> dict[str, Any]:
    plugins = dict(_as_mapping(f"{kind}s", value))
    for alias, plugin in plugins.items():
        if not isinstance(alias, str) or not alias:
            faults.add(TypeError(f"An alias in {kind}s must be a nonempty string, got {shown(alias)}"))
        elif not isinstance(plugin, base_class(kind)):
            faults.catch(read_plugin, kind, alias, plugin)
    return plugins


def _parse_event_dispatch(value: Any, _faults: _Faults) -> str:
    if value not in EVENT_DISPATCH:
        raise InvalidArgument(
            f"event_dispatch must be 'thread' or 'sync', got {shown(value)}", field="event_dispatch", value=value
        )
    return str(value)


def _parse_retention(value: Any, _faults: _Faults) -> Retention | None:
    return None if value is None else Retention.of(value)


def _parse_registered_only(value: Any, _faults: _Faults) -> bool:
    try:
        return asbool(value)
    except ValueError:
        raise InvalidArgument(
            f"registered_only must be true or false, got {shown(value)}", field="registered_only", value=value
        ) from None


def _parse_allowed_modules(value: Any, _faults: _Faults) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else value
    names = list(given) if isinstance(given, Iterable) else [given]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f'allowed_modules must be a list of names of modules, or "any", got {shown(value)}')
    names = [name.strip() for name in names]
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")) or (name == ANY_MODULE and len(names) > 1):
            raise InvalidArgument(
                f'allowed_modules must have names of modules such as "requests.api", or be "any", got {shown(name)}',
                field="allowed_modules",
                value=value,
            )
    return tuple(names)


def _parse_around(value: Any, _faults: _Faults) -> tuple[Enclosure, ...]:
    return () if value is None else read_enclosures(value)


def _as_mapping(name: str, value: Any) -> Mapping[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, got {shown(value)}")
    return value


_PARSERS: Mapping[str, Callable[[Any, _Faults], Any]] = {
    "logger": _parse_logger,
    "timezone": _parse_timezone,
    "jobstore_retry_interval": _parse_retry_interval,
    "poll_interval": _parse_poll_interval,
    "lease": _parse_lease,
    "start_timeout": _parse_start_timeout,
    "job_defaults": _parse_job_defaults,
    "executors": _parse_executors,
    "jobstores": _parse_jobstores,
    "event_dispatch": _parse_event_dispatch,
    "registered_only": _parse_registered_only,
    "allowed_modules": _parse_allowed_modules,
    "retention": _parse_retention,
    "around": _parse_around,
}
