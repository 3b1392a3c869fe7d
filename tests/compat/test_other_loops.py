"""The schedulers and executors of other loops take what APScheduler's take, under the names that it has for them."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from goscheduler.plugins import load_plugin

CLASSES = [
    ("tornado", "schedulers", "TornadoScheduler", "BaseScheduler SchedulerNotRunningError"),
    ("tornado", "executors", "TornadoExecutor", "BaseExecutor run_job run_coroutine_job"),
    ("gevent", "schedulers", "GeventScheduler", "BaseScheduler BlockingScheduler"),
    ("gevent", "executors", "GeventExecutor", "BaseExecutor run_job"),
    ("twisted", "schedulers", "TwistedScheduler", "BaseScheduler SchedulerNotRunningError"),
    ("twisted", "executors", "TwistedExecutor", "BaseExecutor run_job"),
    ("qt", "schedulers", "QtScheduler", "BaseScheduler"),
]
PACKAGES = {"qt": "PySide6"}


@pytest.mark.parametrize(("loop", "kind", "name", "others"), CLASSES)
def test_a_class_for_another_loop_is_used_as_in_apscheduler(loop: str, kind: str, name: str, others: str) -> None:
    pytest.importorskip(PACKAGES.get(loop, loop), exc_type=ImportError)
    theirs, ours = (import_module(f"{root}.{kind}.{loop}") for root in ("apscheduler", "goscheduler"))

    for other in others.split():
        assert hasattr(theirs, other)
        assert hasattr(ours, other)
    for method in ("__init__", "start", "shutdown", "add_job" if kind == "schedulers" else "submit_job"):
        old, new = (inspect.signature(getattr(getattr(home, name), method)).parameters for home in (theirs, ours))
        named = [p.name for p in old.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert list(new)[: len(named)] == named
        assert [p.name for p in list(new.values())[len(named) :] if p.default is p.empty and p.kind < 2] == []
    if kind == "executors":
        assert load_plugin("executor", loop) is getattr(ours, name)
