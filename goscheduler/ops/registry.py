"""The table of all operations, by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from goscheduler.ops.operation import Operation

#: The modules whose operations are in the table, in this order.
MODULES = (
    "overview", "jobs", "adding", "backfill", "blackouts", "bulk", "runs", "letters", "cluster", "limits", "auditing",
    "calendar", "fronts", "doctor", "health", "alerts", "about",
)  # fmt: skip


def _collected() -> Mapping[str, Operation]:
    found: dict[str, Operation] = {}
    for name in MODULES:
        module = import_module(f"goscheduler.ops.{name}")
        for value in vars(module).values():
            if isinstance(value, Operation) and value.function.__module__ == module.__name__:
                found[value.name] = value
    return MappingProxyType(found)


OPERATIONS = _collected()
