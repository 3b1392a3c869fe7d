"""Telemetry: what is counted and traced, told to Prometheus, OpenTelemetry and the log.

A name is loaded on its first use, so that who wants metrics pays for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goscheduler.telemetry.json_log import JSONFormatter
    from goscheduler.telemetry.metrics import ClusterMetrics, Metrics, metrics_text, start_counting
    from goscheduler.telemetry.otel import instrument

__all__ = ["ClusterMetrics", "JSONFormatter", "Metrics", "instrument", "metrics_text", "start_counting"]

_HOMES = {
    "ClusterMetrics": "metrics", "JSONFormatter": "json_log", "Metrics": "metrics", "instrument": "otel",
    "metrics_text": "metrics", "start_counting": "metrics",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(f"goscheduler.telemetry.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise ImportError('OpenTelemetry is not installed: pip install "goscheduler[otel]"', name=error.name) from error
