"""Triggers, executors and stores of other packages, found through entry points of both names."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any

import pytest

from goscheduler import plugins
from goscheduler.executors.debug import DebugExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.testing import ManualScheduler
from goscheduler.testing.clock import START
from goscheduler.triggers.base import BaseTrigger


def noop() -> None:
    pass


class Fortnightly(BaseTrigger):
    def __init__(self, timezone: Any = None, start: str = "") -> None:
        self.timezone = timezone

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return (previous_fire_time or now) + timedelta(days=14)


class Zoneless(BaseTrigger):
    def __init__(self, days: int = 1) -> None:
        self.days = days

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        return (previous_fire_time or now) + timedelta(days=self.days)


class OwnExecutor(DebugExecutor):
    pass


class OwnStore(MemoryJobStore):
    pass


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Pretend that another package offers entry points."""
    module = ModuleType("plugin_package")
    for cls in (Fortnightly, Zoneless, OwnExecutor, OwnStore):
        setattr(module, cls.__name__, cls)
    module.number = 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "plugin_package", module)

    def install(*offers: tuple[str, str, str]) -> None:
        entries = [EntryPoint(name, f"plugin_package:{value}", group) for group, name, value in offers]

        def entry_points(**wanted: str) -> EntryPoints:
            return EntryPoints(entries).select(**wanted)

        monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
        monkeypatch.setattr(plugins, "entry_points", entry_points)
        plugins._entry_points.cache_clear()

    yield install
    monkeypatch.undo()
    plugins._entry_points.cache_clear()


@pytest.mark.parametrize("root", ["apscheduler", "goscheduler"])
def test_plug_ins_of_both_groups_are_found(install: Callable[..., None], root: str) -> None:
    install(
        (f"{root}.triggers", "fortnightly", "Fortnightly"),
        (f"{root}.executors", "own", "OwnExecutor"),
        (f"{root}.jobstores", "own", "OwnStore"),
    )
    with ManualScheduler(executors={"x": {"type": "own"}}) as scheduler:
        scheduler.add_jobstore("own", "own")
        job = scheduler.add_job(noop, "fortnightly", jobstore="own", executor="x")
        assert job.next_run_time == START + timedelta(days=14)
        assert job.trigger.timezone == scheduler.timezone


def test_a_trigger_that_takes_no_zone_is_not_given_one(install: Callable[..., None]) -> None:
    """APScheduler 3 fails here."""
    install(("apscheduler.triggers", "zoneless", "Zoneless"))
    with ManualScheduler() as scheduler:
        assert scheduler.add_job(noop, "zoneless", days=3).next_run_time == START + timedelta(days=3)


def test_a_built_in_name_cannot_be_taken_over(install: Callable[..., None]) -> None:
    install(("goscheduler.triggers", "interval", "Fortnightly"))
    with ManualScheduler() as scheduler:
        assert str(scheduler.add_job(noop, "interval", hours=1).trigger) == "interval[1:00:00]"


def test_built_in_names_need_no_installed_metadata(install: Callable[..., None]) -> None:
    install()
    with ManualScheduler(executors={"pool": {"type": "threadpool"}}, jobstores={"m": {"type": "memory"}}) as scheduler:
        for name in ("date", "interval", "cron"):
            assert scheduler.add_job(noop, name, **({"hours": 1} if name == "interval" else {}))


@pytest.mark.parametrize(
    ("group", "value", "text"),
    [
        ("triggers", "OwnStore", "The trigger entry point does not point to a trigger class"),
        ("triggers", "number", "The trigger entry point does not point to a trigger class"),
    ],
)
def test_an_entry_point_of_the_wrong_kind_is_refused(
    install: Callable[..., None], group: str, value: str, text: str
) -> None:
    install((f"apscheduler.{group}", "odd", value))
    with ManualScheduler() as scheduler:
        with pytest.raises(TypeError, match=text):
            scheduler.add_job(noop, "odd")
        assert scheduler.get_jobs() == []


def test_an_entry_point_that_cannot_be_loaded_is_named(install: Callable[..., None]) -> None:
    install(("goscheduler.triggers", "gone", "Nothing"))
    with ManualScheduler() as scheduler, pytest.raises(ImportError, match=r"gone.*plugin_package:Nothing"):
        scheduler.add_job(noop, "gone")


def test_an_unknown_name_suggests_plug_ins_of_others_too(install: Callable[..., None]) -> None:
    install(("goscheduler.triggers", "fortnightly", "Fortnightly"))
    text = r'^No trigger by the name "fortnigtly" was found; did you mean "fortnightly"'
    with ManualScheduler() as scheduler, pytest.raises(LookupError, match=text):
        scheduler.add_job(noop, "fortnigtly")


def test_options_of_a_plug_in_are_checked_by_name(install: Callable[..., None]) -> None:
    install(("goscheduler.triggers", "fortnightly", "Fortnightly"))
    with ManualScheduler() as scheduler, pytest.raises(TypeError, match="did you mean 'start'"):
        scheduler.add_job(noop, "fortnightly", strat="2026-01-01")
