"""The table of all operations, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from goscheduler.ops import adding, bulk, calendar, cluster, doctor, fronts, jobs, letters, overview, runs
from goscheduler.ops.operation import Operation

MODULES: tuple[ModuleType, ...] = (
    overview, jobs, adding, bulk, runs, letters, cluster, calendar, fronts, doctor,
)  # fmt: skip


def _collected() -> Mapping[str, Operation]:
    found: dict[str, Operation] = {}
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, Operation) and value.function.__module__ == module.__name__:
                found[value.name] = value
    return MappingProxyType(found)


OPERATIONS = _collected()
