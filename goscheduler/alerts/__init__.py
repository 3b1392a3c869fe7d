"""Alerts: rules about jobs and processes, and one notice from the whole cluster where one is broken."""

from __future__ import annotations

from importlib import import_module

_HOMES = {
    "Alert": "alert", "Alerts": "front", "Channel": "channels", "Notice": "model", "NoticeKind": "model",
    "load_config": "config",
    **dict.fromkeys(
        (
            "ClockSkew", "DeadLetters", "FailureRate", "Failures", "JobSuspended", "Late", "LimitFull", "Missed",
            "NoSuccess", "ProcessLost", "Processes", "Queue", "Slow", "StoreDown",
        ),
        "rules",
    ),
}  # fmt: skip

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
