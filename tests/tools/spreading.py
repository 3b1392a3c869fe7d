"""Spreads tests over worker processes, with ``-n`` and ``--dist loadgroup``: what belongs together stays together.

Tests of one ``xdist_group`` never run beside one another; those without one are kept together by class, or by function
with all its parameters. Groups that wait much come first, so that none of them is left over in the end, and after
them the units with the most tests. (xdist groups by marking the ids of tests, which pytest 9.2 does not take notice
of, and gives every ungrouped test away by itself.)
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

#: Groups that take long, the longest first.
LONGEST = ("cluster-0", "serial", "cluster-1", "documents", "locks-0", "locks-1", "rabbitmq")
_UNITS = "units_of_tests"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where to write which unit each test belongs to; only workers know marks."""
    node.workerinput[_UNITS] = str(_file(node.config))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring the units of tests into the order in which they are to be given away."""
    if not hasattr(config, "workerinput"):
        return
    units = {item: _unit(item) for item in items}
    sizes = Counter(units.values())
    places = {unit: place for place, unit in enumerate(dict.fromkeys(units.values()))}

    def order(item: pytest.Item) -> tuple[int, int, int]:
        unit = units[item]
        return _rank(unit), -sizes[unit], places[unit]

    items.sort(key=order)


def _rank(unit: str) -> int:
    if unit in LONGEST:
        return LONGEST.index(unit)
    return len(LONGEST) + (not unit.endswith("AgainstTheModel"))  # one test each, and a long one


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    given = getattr(session.config, "workerinput", {})
    if given.get("workerid") == "gw0":
        Path(given[_UNITS]).write_text(json.dumps({item.nodeid: _unit(item) for item in session.items}))


def _unit(item: pytest.Item) -> str:
    groups = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
    if groups:
        return "serial" if "serial" in groups else min(groups)
    return "::".join(item.nodeid.split("[")[0].split("::")[:2])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # the workers have put them in order

    class Spreading(LoadScopeScheduling):
        """Gives whole units away."""

        def _split_scope(self, nodeid: str) -> str:
            return str(self._units()[nodeid])

        def _units(self) -> dict[str, str]:
            if not hasattr(self, "_read"):
                self._read = json.loads(_file(config).read_text())
            return self._read

    return Spreading(config, log)


_FILE = pytest.StashKey[Path]()


def _file(config: pytest.Config) -> Path:
    if _FILE not in config.stash:
        folder = tempfile.mkdtemp(prefix="goscheduler-units-")
        config.stash[_FILE] = Path(folder, "units.json")
    return config.stash[_FILE]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _FILE in config.stash:
        file = config.stash[_FILE]
        file.unlink(missing_ok=True)
        file.parent.rmdir()
