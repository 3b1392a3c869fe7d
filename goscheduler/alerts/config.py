"""Alerts in a file, in TOML."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from goscheduler.alerts.alert import Alert
from goscheduler.alerts.channels import Channel, channel_of, revealed
from goscheduler.alerts.rules import RULES, Rule
from goscheduler.errors import GoSchedulerError, InvalidArgument, UnknownOption, shown

#: Rules that take one value: TOML gives it without a name.
_FIRST = {name: next(iter(fields(rule)), None) for name, rule in RULES.items()}
_SECTIONS = ("channels", "alerts", "interval", "grouping", "heartbeat")
_OPTIONS = ("match", "to", "repeat", "escalate")


@dataclass(frozen=True)
class AlertsConfig:
    """What a file says."""

    channels: Mapping[str, Channel]
    alerts: tuple[Alert, ...]
    settings: Mapping[str, Any]
    """Options of :class:`~goscheduler.alerts.front.Alerts` beside these."""


def load_config(path: str | Path) -> AlertsConfig:
    """Return what a TOML file says.

    :raises InvalidArgument: naming what makes no sense
    :raises OSError: if the file cannot be read
    """
    try:
        told = _toml().loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidArgument(f"{path} is not TOML: {error}", field="config") from error
    return read_config(told)


def read_config(told: Mapping[str, Any]) -> AlertsConfig:
    """Return what tables, as TOML has them, say."""
    _check("the file of alerts", told, _SECTIONS)
    channels = {name: _channel(name, table) for name, table in _tables("channels", told).items()}
    alerts = tuple(_alert(name, table) for name, table in _tables("alerts", told).items())
    settings = {name: told[name] for name in ("interval", "grouping") if name in told}
    if revealed("heartbeat", told.get("heartbeat", "")) != "":  # a variable that is empty means none
        settings["heartbeat"] = _channel("heartbeat", told["heartbeat"])
    return AlertsConfig(channels, alerts, settings)


def _channel(name: str, table: Any) -> Channel:
    options = dict(table) if isinstance(table, Mapping) else {"url": table}
    url = options.pop("url", None)
    if not isinstance(url, str):
        raise InvalidArgument(f"channel {shown(name)} needs a url", field=f"channels.{name}.url")
    try:
        return channel_of(url, **options)
    except GoSchedulerError as error:
        raise InvalidArgument(f"channel {shown(name)}: {error}", field=f"channels.{name}") from error


def _alert(name: str, table: Mapping[str, Any]) -> Alert:
    _check(f"alert {shown(name)}", table, (*_OPTIONS, *RULES))
    escalate = table.get("escalate", {})
    if not isinstance(escalate, Mapping):
        raise InvalidArgument(f"alert {shown(name)}: escalate needs after and to", field=f"alerts.{name}.escalate")
    _check(f"escalate of alert {shown(name)}", escalate, ("after", "to"))
    try:
        return Alert(
            name, [_rule(word, table[word]) for word in table if word in RULES and table[word] is not False],
            table.get("to", ()), table.get("match", ""), table.get("repeat"), escalate.get("after"),
            escalate.get("to", ()),
        )  # fmt: skip
    except (GoSchedulerError, TypeError) as error:
        raise InvalidArgument(f"alert {shown(name)}: {error}", field=f"alerts.{name}") from error


def _rule(word: str, told: Any) -> Rule:
    """Return a rule: of a table with its options, of its first option alone, or of ``true``."""
    rule, first = RULES[word], _FIRST[word]
    if told is True:
        return rule()
    if not isinstance(told, Mapping):
        if first is None or first.name == "for_":
            raise InvalidArgument(f"{word} must be true or a table, got {shown(told)}", field=word)
        return rule(**{first.name: told})
    known = [each.name.removesuffix("_") for each in fields(rule)]
    _check(word, told, tuple(known))
    return rule(**{"for_" if name == "for" else name: value for name, value in told.items()})


def _tables(name: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
    tables = told.get(name, {})
    if not isinstance(tables, Mapping) or not all(isinstance(each, Mapping) for each in tables.values()):
        raise InvalidArgument(f"{name} must be tables, as in [{name}.billing]", field=name)
    return tables


def _check(where: str, told: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in told:
        if name not in known:
            raise UnknownOption(name, known, where=where)


def _toml() -> Any:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError("A file of alerts needs Python 3.11, or the package tomli: pip install tomli") from error
