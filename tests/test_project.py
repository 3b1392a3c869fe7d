"""The project around the package holds together: what the pages say exists, and what is shipped is light and whole."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

import goscheduler
from goscheduler._version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MADE_HERE = {
    "__pycache__", ".git", ".venv", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "build", "dist",
}  # fmt: skip

#: What costs time or memory to import, in the standard library and among our dependencies.
HEAVY = (
    "asyncio", "concurrent.futures", "multiprocessing", "sqlite3", "ssl", "email", "http", "urllib.request", "pickle",
    "croniter", "dateutil", "tzlocal", "sqlalchemy", "redis", "pymongo", "kazoo", "etcd3gw",
)


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = _modules_after("import goscheduler")
    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("goscheduler.")} <= {"goscheduler._version"}


def test_importing_the_background_scheduler_loads_neither_asyncio_nor_processes_nor_drivers() -> None:
    loaded = _modules_after("from goscheduler import BackgroundScheduler")
    assert not loaded & {"asyncio", "multiprocessing", "croniter", "sqlalchemy", "redis", "pymongo", "kazoo", "etcd3gw"}


def test_the_package_tells_its_version() -> None:
    assert goscheduler.__version__ == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", __version__)


def test_the_changelog_has_a_section_for_the_current_version() -> None:
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    assert re.search(rf"^##\s+\[?{re.escape(__version__)}\b", changelog, re.MULTILINE)


def test_every_make_command_that_the_pages_mention_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    command = re.compile(r"(?:`|^)make ([a-z]+)", re.MULTILINE)
    mentioned = {target for page in PAGES for target in command.findall(page.read_text(encoding="utf-8"))}
    assert {"demo", "test"} <= mentioned
    assert mentioned <= targets


def test_every_extra_that_the_pages_mention_can_be_installed() -> None:
    extras = set(PYPROJECT["project"]["optional-dependencies"])
    mentioned = {
        extra.strip()
        for page in PAGES
        for listed in re.findall(r"goscheduler\[([a-z, ]+)\]", page.read_text(encoding="utf-8"))
        for extra in listed.split(",")
    }
    assert mentioned <= extras


def test_the_extra_called_all_holds_every_store() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    # Qt takes 84 MB, and a program chooses its binding itself.
    assert set(re.findall(r"\w+", everything)[1:]) == set(extras) - {"all", "test", "dev", "bench", "docs", "qt"}


def test_the_readme_names_every_extra_that_users_choose_from() -> None:
    install = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Install")[2].partition("## ")[0]
    extras = set(PYPROJECT["project"]["optional-dependencies"]) - {"test", "dev", "bench", "docs"}
    assert {extra for extra in extras if f"`{extra}`" not in install} == set()


def test_the_classifiers_name_every_python_from_the_oldest_that_can_be_installed() -> None:
    project = PYPROJECT["project"]
    named = [found[1] for line in project["classifiers"] if (found := re.search(r":: 3\.(\d+)$", line))]
    oldest = int(re.findall(r"\d+", project["requires-python"])[1])
    assert [int(minor) for minor in named] == list(range(oldest, oldest + len(named)))
    assert sys.version_info.minor in map(int, named)


def test_an_issue_form_asks_for_the_version_the_store_and_the_answer_of_why() -> None:
    forms = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in ROOT.glob(".github/ISSUE_TEMPLATE/*.yml")}
    defect = {field["id"]: field for field in forms["defect"]["body"]}
    assert "goscheduler version" in defect["version"]["attributes"]["label"]
    assert "scheduler.why(" in defect["why"]["attributes"]["description"]
    kinds = PYPROJECT["project"]["entry-points"]["goscheduler.jobstores"]
    assert len(defect["store"]["attributes"]["options"]) == len(kinds) + 3  # three databases speak SQL; one's own


@pytest.mark.parametrize("kind", ["triggers", "executors", "jobstores"])
def test_every_entry_point_leads_to_a_class_of_its_kind(kind: str) -> None:
    expected = {"triggers": "BaseTrigger", "executors": "BaseExecutor", "jobstores": "BaseJobStore"}[kind]
    declared = PYPROJECT["project"]["entry-points"][f"goscheduler.{kind}"]
    checks = [f"from goscheduler.{kind}.base import {expected}"]
    for reference in declared.values():
        module, _, name = reference.partition(":")
        checks += [f"from {module} import {name}", f"assert issubclass({name}, {expected})"]
    _run_elsewhere("\n".join(checks))
    installed = {found.name for found in entry_points(group=f"goscheduler.{kind}")}
    assert declared.keys() <= installed, "the installed package is not this one; pip install --editable ."


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "goscheduler" / "py.typed").is_file()


def test_no_file_names_a_package_registry() -> None:
    # Put together here, so that this file does not name them either.
    hosts = [f"{name}.{top}" for name, top in (("pypi", "org"), ("pythonhosted", "org"), ("anaconda", "org"))]
    named = {
        str(file.relative_to(ROOT))
        for file in _project_files()
        if any(host in file.read_text(encoding="utf-8", errors="replace") for host in hosts)
    }
    assert not named


def _project_files() -> Iterator[Path]:
    for folder, folders, files in os.walk(ROOT):
        folders[:] = set(folders) - MADE_HERE
        yield from (Path(folder, name) for name in files)


def _module_names() -> list[str]:
    return [module.name for module in pkgutil.walk_packages(goscheduler.__path__, "goscheduler.")]


#: Modules that cannot be imported here: etcd3 cannot be installed beside the drivers of the other modules, and apps of
#: Django want a project around them.
ELSEWHERE = ("goscheduler._drivers.etcd.grpc", "goscheduler.contrib.django.")


def test_the_examples_in_docstrings_are_true() -> None:
    names = [name for name in _module_names() if not name.startswith(ELSEWHERE)]
    _run_elsewhere(f"""
import doctest, importlib
wrong = [name for name in {names!r} if doctest.testmod(importlib.import_module(name)).failed]
assert wrong == []
""")


def _run_elsewhere(code: str) -> None:
    """Run code in an interpreter of its own: Qt replaces the import function, and clusters cannot be forked."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def _modules_after(statement: str) -> set[str]:
    """Return what a new interpreter has loaded after ``statement`` and had not before."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
