"""Alerts: rules about jobs and processes, and one notice from the whole cluster where one is broken."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goscheduler.alerts.alert import Alert
    from goscheduler.alerts.channels import Channel
    from goscheduler.alerts.config import load_config
    from goscheduler.alerts.front import Alerts, send_test
    from goscheduler.alerts.model import Notice, NoticeKind
    from goscheduler.alerts.rules import (
        ClockSkew,
        DeadLetters,
        FailureRate,
        Failures,
        JobSuspended,
        Late,
        LimitFull,
        Missed,
        NoSuccess,
        Processes,
        ProcessLost,
        Queue,
        Slow,
        StoreDown,
    )

__all__ = [
    "Alert",
    "Alerts",
    "Channel",
    "ClockSkew",
    "DeadLetters",
    "FailureRate",
    "Failures",
    "JobSuspended",
    "Late",
    "LimitFull",
    "Missed",
    "NoSuccess",
    "Notice",
    "NoticeKind",
    "ProcessLost",
    "Processes",
    "Queue",
    "Slow",
    "StoreDown",
    "load_config",
    "send_test",
]

#: Where names are that are no rules; all are loaded when they are first used.
_HOMES = {
    "Alert": "alert", "Alerts": "front", "Channel": "channels", "Notice": "model", "NoticeKind": "model",
    "load_config": "config", "send_test": "front",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'rules')}"), name)
