from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from goscheduler import plugins
from goscheduler.errors import InvalidArgument, UnknownOption
from goscheduler.executors.debug import DebugExecutor
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.plugins import BUILT_IN, BuiltIn, Kind, create_plugin, create_trigger, load_plugin
from goscheduler.triggers.date import DateTrigger
from goscheduler.triggers.interval import IntervalTrigger

MODULE = """
from goscheduler.triggers.base import BaseTrigger
class Ours(BaseTrigger):
    def get_next_fire_time(self, previous_fire_time, now): return None
class Theirs(Ours): ...
class Unrelated: ...
"""
ENTRY_POINTS = """
[goscheduler.triggers]
both = offered_plugins:Ours
interval = offered_plugins:Ours
unrelated = offered_plugins:Unrelated
missing = no_such_module:X
[apscheduler.triggers]
both = offered_plugins:Theirs
only_old = offered_plugins:Theirs
rethink = apscheduler.triggers.date:DateTrigger
"""


@pytest.fixture
def _offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a distribution that offers triggers under the group names of both packages."""
    (tmp_path / "offered_plugins.py").write_text(MODULE)
    metadata = tmp_path / "offered-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    plugins._entry_points.cache_clear()
    yield
    plugins._entry_points.cache_clear()
    sys.modules.pop("offered_plugins", None)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in BUILT_IN.items() for name in names])
def test_every_built_in_name_leads_to_a_class_of_its_kind(kind: Kind, name: str) -> None:
    assert issubclass(load_plugin(kind, name), plugins.base_class(kind))


def test_built_in_names_need_no_installed_metadata() -> None:
    # APScheduler 3 finds "interval" only through its metadata, which frozen programs lack.
    code = (
        "import importlib.metadata as m; m.entry_points = None; from goscheduler.plugins import load_plugin;"
        "print(load_plugin('trigger', 'interval').__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "IntervalTrigger\n"


@pytest.mark.usefixtures("_offered")
def test_entry_points_of_both_packages_are_found() -> None:
    assert load_plugin("trigger", "both").__name__ == "Ours"
    assert load_plugin("trigger", "only_old").__name__ == "Theirs"
    assert load_plugin("trigger", "interval") is IntervalTrigger


@pytest.mark.usefixtures("_offered")
def test_an_entry_point_of_the_wrong_class_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="The trigger entry point does not point to a trigger class"):
        load_plugin("trigger", "unrelated")


@pytest.mark.usefixtures("_offered")
def test_an_entry_point_that_cannot_be_imported_names_itself() -> None:
    with pytest.raises(ImportError, match=r'The trigger "missing" \(no_such_module:X\) could not be loaded'):
        load_plugin("trigger", "missing")


@pytest.mark.usefixtures("_offered")
def test_entry_points_that_lead_into_apscheduler_itself_are_not_offered() -> None:
    with pytest.raises(LookupError, match='No trigger by the name "rethink" was found'):
        load_plugin("trigger", "rethink")


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("trigger", "intervall", 'No trigger by the name "intervall" was found; did you mean "interval"?'),
        ("executor", "nothing at all", 'No executor by the name "nothing at all" was found; known names: asyncio'),
        ("jobstore", "memry", 'No jobstore by the name "memry" was found; did you mean "memory"?'),
        ("trigger", "a\nb", r'No trigger by the name "a\nb" was found'),
    ],
)
def test_an_unknown_name_is_answered_with_what_was_probably_meant(kind: Kind, name: str, text: str) -> None:
    with pytest.raises(LookupError) as caught:
        load_plugin(kind, name)
    assert str(caught.value).startswith(text)


def test_a_name_that_is_no_string_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="The name of a trigger must be a string, got 5"):
        load_plugin("trigger", 5)  # type: ignore[arg-type]


def test_a_missing_dependency_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store_with_driver.py").write_text("import some_missing_driver")
    monkeypatch.syspath_prepend(tmp_path)
    table = {**BUILT_IN, "jobstore": {"fancy": BuiltIn("store_with_driver:Fancy", extra="fancy")}}
    monkeypatch.setattr(plugins, "BUILT_IN", table)
    with pytest.raises(ImportError, match=r'some_missing_driver.*pip install "goscheduler\[fancy\]"'):
        load_plugin("jobstore", "fancy")


@pytest.mark.parametrize(
    "value",
    [
        {"type": "threadpool", "max_workers": "3"},
        {"class": "goscheduler.executors.pool:ThreadPoolExecutor", "max_workers": 3},
        {"class": "apscheduler.executors.pool:ThreadPoolExecutor", "max_workers": "3"},
        {"class": ThreadPoolExecutor, "max_workers": 3},
    ],
)
def test_a_dict_describes_a_plugin_and_can_be_used_twice(value: dict[str, Any]) -> None:
    before = dict(value)
    assert isinstance(create_plugin("executor", "x", value), ThreadPoolExecutor)
    assert isinstance(create_plugin("executor", "x", value), ThreadPoolExecutor)
    assert value == before


def test_an_instance_is_taken_as_it_is() -> None:
    store = MemoryJobStore()
    assert create_plugin("jobstore", "x", store) is store


@pytest.mark.parametrize(
    ("kind", "value", "error", "text"),
    [
        ("executor", 5, TypeError, "Expected executor instance or dict for executors['x'], got int instead"),
        ("jobstore", 5, TypeError, "Expected job store instance or dict for jobstores['x'], got int instead"),
        ("executor", "threadpool", TypeError, "Expected executor instance or dict for executors['x'], got str"),
        ("jobstore", "ftp://me:secret@x", ValueError, "No job store is known for the URL 'ftp://me:***@x'; known are"),
        ("jobstore", "ftp://x?its_password=s&b", ValueError, "No job store is known for the URL 'ftp://x?its_password=***&b'"),
        ("jobstore", "postgres://x", ValueError, "No job store is known for the URL 'postgres://x'; did you mean postgresql://?"),
        ("jobstore", "mongo://x", ValueError, "No job store is known for the URL 'mongo://x'; did you mean mongodb://?"),
        ("executor", {}, ValueError, 'Cannot create executor "x" -- either "type" or "class" must be defined'),
        ("jobstore", {}, ValueError, 'Cannot create job store "x" -- either "type" or "class" must be defined'),
        ("executor", {"type": "nope"}, LookupError, 'No executor by the name "nope" was found'),
        ("executor", {"class": "datetime:date"}, TypeError, "The class of executors['x'] does not point to an"),
        ("executor", {"class": "os:system"}, InvalidArgument, "Refused reference"),
        ("executor", {"class": DebugExecutor()}, TypeError, "The class of executors['x'] does not point to an"),
        ("executor", {"type": "threadpool", "max_worker": 3}, UnknownOption, "unknown option 'max_worker'"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(
    kind: Kind, value: object, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        create_plugin(kind, "x", value)
    assert str(caught.value).startswith(text)


def test_a_trigger_by_name_gets_the_zone_unless_one_is_given() -> None:
    berlin, tokyo = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")
    assert create_trigger("interval", {"seconds": 5}, berlin).timezone is berlin
    assert create_trigger("interval", {"seconds": 5, "timezone": tokyo}, berlin).timezone is tokyo


def test_combining_triggers_can_be_made_by_name() -> None:
    # APScheduler 3 always passes them a timezone, which they do not take.
    trigger = create_trigger("or", {"triggers": [DateTrigger("2030-01-01")]}, ZoneInfo("Europe/Berlin"))
    assert str(trigger).startswith("or[date[2030-01-01")


def test_a_misspelt_trigger_argument_is_answered_with_what_was_meant() -> None:
    with pytest.raises(UnknownOption, match="unknown option 'minuts' for interval trigger; did you mean 'minutes'"):
        create_trigger("interval", {"minuts": 5}, None)
