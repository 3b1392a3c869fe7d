"""The pages are true: their code runs and prints what they say, their links lead somewhere, their tables fit the code.

A ``python`` block is a program. ``python continued`` goes on with the program before it, ``python no-run`` needs
software that is not here, ``python server`` needs a server and is run by the tests of what it shows, and the ``text``
block after a program is what it prints.
"""

from __future__ import annotations

import ast
import dataclasses
import fnmatch
import inspect
import os
import pkgutil
import re
import runpy
import subprocess
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import warm

import goscheduler
from goscheduler import config, errors, events
from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from goscheduler.job import Job
from goscheduler.jobstores.base import BaseJobStore
from goscheduler.options import JobOptions
from goscheduler.plugins import BUILT_IN
from goscheduler.runs import transitions
from goscheduler.runs.limits import Ledger
from goscheduler.runs.model import Attempt, DeadLetter, Outcome, OutcomeKind, Run, RunState, Settlement, Source
from goscheduler.runs.plan import ConcurrencyState, plan_firing
from goscheduler.runs.records import Record, Retention, record_of
from goscheduler.runs.retry import Retry, exponential
from goscheduler.schedulers._announce import CODE_OF
from goscheduler.schedulers.asyncio import AsyncIOScheduler
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.testing import ManualScheduler
from goscheduler.triggers.cron._crontab import MACROS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MOST_BLOCKS_NOT_RUN = 3


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    info: list[str]
    body: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Program(NamedTuple):
    """Blocks that run together, and what they print if the page says so."""

    blocks: tuple[Block, ...]
    printed: str | None = None

    @property
    def source(self) -> str:
        """The code on the lines where it stands in the page, so that a traceback shows them."""
        lines: list[str] = []
        for block in self.blocks:
            lines += [""] * (block.line - len(lines)) + block.body.splitlines()
        return "\n".join(lines) + "\n"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["info"].split(), found["body"])
        for found in FENCE.finditer(text)
    ]


def programs_of(page: Path) -> list[Program]:
    programs: list[Program] = []
    previous: list[str] = []
    for block in blocks_of(page):
        if block.info == ["python"]:
            programs.append(Program((block,)))
        elif block.info == ["python", "continued"]:
            programs[-1] = Program((*programs[-1].blocks, block), programs[-1].printed)
        elif block.info == ["text"] and previous[:1] == ["python"] and previous != ["python", "server"]:
            programs[-1] = programs[-1]._replace(printed=(programs[-1].printed or "") + block.body)
        previous = block.info
    return programs


def all_programs() -> Iterator[Any]:
    for page in PAGES:
        for program in programs_of(page):
            yield pytest.param(program, id=program.blocks[0].place)


@pytest.mark.parametrize("program", list(all_programs()))
def test_the_code_of_the_page_runs_and_prints_what_the_page_says(program: Program, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(program.source, encoding="utf-8")
    done = run_python("-W", "error", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    if program.printed is not None:
        assert done.stdout == program.printed


def run_python(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return warm.run(*arguments, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_few_blocks_are_not_run_and_all_of_them_are_python() -> None:
    not_run = [block for page in PAGES for block in blocks_of(page) if block.info == ["python", "no-run"]]
    assert len(not_run) <= MOST_BLOCKS_NOT_RUN
    for block in not_run:
        compile(block.body, block.place, "exec")


def test_every_block_says_what_it_is() -> None:
    known = [["python", kind] for kind in ("continued", "no-run", "server")]
    known += [["python"], ["text"], ["sh"], ["toml"], ["yaml"], ["go"]]
    assert [block.place for page in PAGES for block in blocks_of(page) if block.info not in known] == []


def test_the_job_store_of_the_how_to_page_passes_the_contract_of_stores(tmp_path: Path) -> None:
    blocks = [block.body for block in blocks_of(DOCS / "how-to" / "write-a-job-store.md") if "python" in block.info]
    (tmp_path / "test_page.py").write_text("\n".join(blocks), encoding="utf-8")
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 30


def test_every_link_leads_somewhere() -> None:
    broken = [f"{page.name}: {link}" for page in PAGES for link in links_of(page) if not leads_somewhere(page, link)]
    assert broken == []


def links_of(page: Path) -> list[str]:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if not link.startswith("http")]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.is_file() and (not anchor or anchor in anchors_of(target))


@cache
def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, new = set[Path](), {DOCS / "index.md"}
    while new:
        page = new.pop()
        reached.add(page)
        targets = {(page.parent / link.partition("#")[0]).resolve() for link in links_of(page) if link[0] != "#"}
        new |= {target for target in targets if target.suffix == ".md"} - reached
    assert set(DOCS.rglob("*.md")) <= reached


def test_every_page_has_its_place_in_the_contents_of_the_site() -> None:
    contents = runpy.run_path(str(DOCS / "conf.py"))["contents"]
    listed = [
        (DOCS / folder / f"{line}.md").resolve()
        for folder, index in (("", "index"), ("decisions", "decisions/index"))
        for line in contents(index).splitlines()
        if re.fullmatch(r"[\w/-]+", line)
    ]
    assert sorted([*listed, DOCS / "index.md"]) == sorted(DOCS.rglob("*.md"))


def rows(page: Path, *header: str) -> list[list[str]]:
    """Return the rows of all tables of a page whose first columns have these headings, without code marks."""
    found: list[list[str]] = []
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.replace("`", "").split("|")[1:-1]] if line.startswith("|") else []
        if not cells:
            inside = False
        elif tuple(cells[: len(header)]) == header:
            inside = True
        elif inside and not set(line) <= set("|-"):
            found.append(cells)
    assert found, f"{page.name} has no table with the columns {header}"
    return found


ADD_JOB = DOCS / "reference" / "add-job.md"


def test_the_reference_of_add_job_has_every_option_and_no_other() -> None:
    parameters = list(inspect.signature(BaseScheduler.add_job).parameters)
    listed = [row[0] for row in rows(ADD_JOB, "option", "meaning", "default")]
    assert sorted(listed) == sorted(set(parameters) - {"self", "trigger_args"})


def test_the_reference_of_add_job_tells_the_true_defaults() -> None:
    listed = {row[0]: row[-1] for row in rows(ADD_JOB, "option", "meaning", "default")}
    for field in dataclasses.fields(JobOptions):
        assert listed[field.name] == repr(field.default).replace("'", '"')


def test_the_table_of_the_retry_policy_has_every_field_and_the_true_defaults() -> None:
    listed = {row[0]: row[-1] for row in rows(ADD_JOB, "field", "meaning", "default")}
    assert listed.pop("backoff") == "exponential(1, factor=2, cap=300)"
    assert Retry().backoff == exponential(1, factor=2, cap=300)
    others = {field.name: field.default for field in dataclasses.fields(Retry) if field.name != "backoff"}
    assert listed == {name: repr(default).replace("'", '"') for name, default in others.items()}


def test_every_name_of_the_front_door_stands_in_the_reference() -> None:
    reference = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
    facts_of_the_package = {"__version__", "release", "version", "version_info"}
    names = set(goscheduler.__all__) - facts_of_the_package
    assert {name for name in names if not re.search(rf"`(goscheduler\.)?{name}\b", reference)} == set()


def test_the_page_on_limits_tells_the_true_defaults() -> None:
    listed = {row[0]: row[-1] for row in rows(DOCS / "how-to" / "limits.md", "option", "question", "default")}
    for name, told in listed.items():
        assert told.partition(":")[0] == repr(getattr(JobOptions(), name))


EVENTS = DOCS / "reference" / "events.md"


def test_the_table_of_events_has_every_code_with_its_value() -> None:
    listed = {row[1]: int(row[0]) for row in rows(EVENTS, "code", "name", "sent when", "class")}
    assert listed == {f"EVENT_{code.name}": code.value for code in events.EventCode}
    assert all(getattr(events, name) == value for name, value in listed.items())


def test_the_table_of_event_classes_has_every_class_and_attribute() -> None:
    listed = {row[0]: row[1] for row in rows(EVENTS, "class", "attributes")}
    classes = [cls for name, cls in vars(events).items() if name.endswith("Event") and isinstance(cls, type)]
    assert listed.keys() == {cls.__name__ for cls in classes}
    for cls in classes:
        inherited = {name for base in cls.__bases__ if base in classes for name in inspect.signature(base).parameters}
        own = inspect.signature(cls).parameters.keys() - inherited
        assert all(re.search(rf"\b{name}\b", listed[cls.__name__]) for name in own)


RUNS = DOCS / "reference" / "run-states.md"


def test_the_table_of_run_changes_is_what_a_walk_over_all_changes_finds() -> None:
    listed = {(row[0], row[1], row[2]) for row in rows(RUNS, "from", "to", "by")}
    assert listed == set(walk_over_changes())


def walk_over_changes() -> Iterator[tuple[str, str, str]]:
    """Try every change on a run in every state, and yield those that can be made: from, to, by."""
    job = a_job_with_a_backlog()
    plan = plan_firing(job, NOW, ConcurrencyState(0, 0, 1, Ledger()), "owner", lambda: "run")
    for run in (*plan.start, *plan.wait):
        yield "–", run.state.value, "plan_firing"
    yield "–", transitions.asked_for(job, "run", NOW).state.value, "asked_for"
    dead = Run("run", job, NOW, NOW, "owner", 1)
    letter = DeadLetter(dead, record_of(Attempt(dead, Outcome(OutcomeKind.FAILED), NOW)), "")
    yield "–", transitions.redriven(letter, NOW).state.value, "redriven"
    for run in (Run("run", job, NOW, NOW), Run("run", job, NOW, NOW, "owner", 1)):
        for name, change in CHANGES:
            try:
                changed = change(run)
            except transitions.IllegalChange:
                continue
            yield run.state.value, changed, name


def a_job_with_a_backlog() -> Job:
    with ManualScheduler() as scheduler:
        return scheduler.add_job(
            print, "interval", hours=1, coalesce=False, start_date=NOW - timedelta(hours=2),
            next_run_time=NOW - timedelta(hours=2),
        )  # fmt: skip


def settled(kind: OutcomeKind) -> Callable[[Run], str]:
    def change(run: Run) -> str:
        return _after(transitions.settle(run, Outcome(kind), NOW))

    return change


def _after(settlement: Settlement) -> str:
    return RunState.FINISHED.value if settlement.follow_up is None else settlement.follow_up.state.value


CHANGES: Sequence[tuple[str, Callable[[Run], str]]] = (
    ("claimed", lambda run: transitions.claimed(run, "other", run.fence + 1).state.value),
    ("put_back", lambda run: transitions.put_back(run).state.value),
    ("recovered", lambda run: transitions.recovered(run).state.value),
    ("retried", lambda run: transitions.retried(run, NOW).state.value),
    ("called_off", lambda run: _after(transitions.called_off(run, "why", NOW))),
    ("crashed", lambda run: _after(transitions.crashed(run, NOW))),
    *(("settle", settled(kind)) for kind in OutcomeKind),
)


def test_every_change_of_the_module_is_walked() -> None:
    public = {
        name
        for name, value in vars(transitions).items()
        if inspect.isfunction(value) and value.__module__ == transitions.__name__ and not name.startswith("_")
    }
    assert public == {name for name, _ in CHANGES} | {"asked_for", "with_attempt", "redriven"}


def test_the_tables_of_states_and_outcomes_are_complete() -> None:
    assert [row[0] for row in rows(RUNS, "state", "meaning")] == [state.value for state in RunState]
    outcomes = {row[0]: row[-1] for row in rows(RUNS, "outcome", "meaning", "event")}
    assert outcomes == {
        kind.value: f"EVENT_{CODE_OF[kind].name}" if kind in CODE_OF else "none" for kind in OutcomeKind
    }


HISTORY = DOCS / "reference" / "history.md"


def test_the_table_of_records_has_every_field_and_the_methods_take_every_filter() -> None:
    properties = [name for name, value in vars(Record).items() if isinstance(value, property)]
    assert [row[0] for row in rows(HISTORY, "field", "meaning")] == [*Record._fields, *properties]
    filters = [row[0] for row in rows(HISTORY, "filter", "meaning")]
    taken = set(inspect.signature(BaseScheduler.runs).parameters) - {"self"}
    assert sorted(filters) == sorted(taken)


def test_the_table_of_the_retention_has_every_field_and_the_true_defaults() -> None:
    listed = {row[0]: row[-1] for row in rows(HISTORY, "retention", "meaning", "default")}
    assert listed.keys() == {field.name for field in dataclasses.fields(Retention)}
    assert Retention(**listed) == Retention()


def test_the_page_on_runs_names_every_source() -> None:
    page = RUNS.read_text(encoding="utf-8")
    assert {source.value for source in Source if f"`{source.value}`" not in page} == set()


def test_the_reference_of_errors_has_every_error_and_its_base() -> None:
    listed = {row[0]: row[1] for row in rows(DOCS / "reference" / "errors.md", "error", "also a")}
    classes = {
        name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, Exception)
    }
    assert listed.keys() == classes.keys()
    for name, cls in classes.items():
        bases = [base.__name__ for base in cls.__bases__ if base is not errors.GoSchedulerError]
        assert listed[name] == ", ".join(bases)


SCHEDULERS = DOCS / "reference" / "schedulers.md"


def test_the_reference_of_schedulers_has_every_public_method() -> None:
    page = SCHEDULERS.read_text(encoding="utf-8")
    for_executors = {"report", "may_start", "clock", "extra_options"}
    public = {name for name in vars(BaseScheduler) if not name.startswith("_")} - for_executors
    assert {name for name in public if not re.search(rf"`{name}\b", page)} == set()


def test_the_reference_of_schedulers_has_every_key_of_the_configuration() -> None:
    listed = {key for row in rows(SCHEDULERS, "key", "value", "default") for key in row[0].split(", ")}
    loops = {"io_loop", "reactor"}  # the options of TornadoScheduler and TwistedScheduler
    assert listed == {*config._PARSERS, *AsyncIOScheduler.extra_options, *loops}


def test_the_reference_of_schedulers_has_every_attribute_of_a_job() -> None:
    page = SCHEDULERS.read_text(encoding="utf-8")
    for_schedulers = {"options", "copy_with", "take_over_from", "waits_for"}
    public = {name for name in dir(Job) if not name.startswith("_")} - for_schedulers
    assert {name for name in public if not re.search(rf"`{name}\b", page)} == set()


def test_the_reference_of_job_stores_has_every_method_of_the_port() -> None:
    page = (DOCS / "reference" / "job-stores.md").read_text(encoding="utf-8")
    public = {name for name in vars(BaseJobStore) if not name.startswith("_")}
    assert {name for name in public if not re.search(rf"`{name}\b", page)} == set()


GLOSSARY = DOCS / "glossary.md"


def test_the_glossary_is_in_alphabetical_order() -> None:
    words = [row[0].strip("*").lower() for row in rows(GLOSSARY, "word", "meaning")]
    assert words == sorted(words)


def test_every_class_that_the_glossary_names_exists() -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "goscheduler").rglob("*.py"))
    named = set(re.findall(r"`([A-Z]\w+)`", GLOSSARY.read_text(encoding="utf-8")))
    assert named
    assert {name for name in named if not re.search(rf"^class {name}\b", source, re.MULTILINE)} == set()


@pytest.mark.parametrize(
    ("page", "kind"), [("triggers.md", "trigger"), ("executors.md", "executor"), ("job-stores.md", "jobstore")]
)
def test_the_reference_has_every_built_in_name(page: str, kind: str) -> None:
    listed = {row[0] for row in rows(DOCS / "reference" / page, "name", "class")}
    assert listed - {""} == BUILT_IN[kind].keys()


def test_the_reference_of_executors_has_every_option_of_the_pools() -> None:
    table = rows(DOCS / "reference" / "executors.md", "pool_kwargs", "for")
    listed = {name for row in table for name in row[0].split(", ")}
    with pytest.raises(TypeError, match="known options") as threads:
        ThreadPoolExecutor(pool_kwargs={"zzz": 1})
    with pytest.raises(TypeError, match="known options") as processes:
        ProcessPoolExecutor(pool_kwargs={"zzz": 1})
    texts = [str(error.value).partition("known options: ")[2] for error in (threads, processes)]
    assert listed == {name for text in texts for name in text.split(", ")}


def test_the_reference_of_crontab_has_every_macro() -> None:
    page = (DOCS / "reference" / "crontab.md").read_text(encoding="utf-8")
    assert {macro for macro in MACROS if f"`{macro}`" not in page} == set()


@cache
def modules() -> list[str]:
    found = pkgutil.walk_packages(goscheduler.__path__, "goscheduler.")
    return [module.name.removeprefix("goscheduler.") for module in found]


@cache
def layers_of(module: str) -> list[str]:
    """Return the layers of ARCHITECTURE whose row names this module; a name goes before a pattern."""
    table = layers()
    by_name = [row[0] for row in table if module in row[2].split(", ")]
    by_pattern = [row[0] for row in table if any(fnmatch.fnmatch(module, pattern) for pattern in row[2].split(", "))]
    return by_name or by_pattern


@cache
def layers() -> list[list[str]]:
    return rows(ROOT / "ARCHITECTURE.md", "layer", "what", "modules")


def test_the_architecture_page_puts_every_module_into_one_layer() -> None:
    assert {module: layers_of(module) for module in modules() if len(layers_of(module)) != 1} == {}


def test_the_architecture_page_names_no_module_that_does_not_exist() -> None:
    known = modules()
    for row in layers():
        for pattern in row[2].split(", "):
            assert fnmatch.filter(known, pattern), pattern


def test_no_module_imports_a_layer_above_its_own() -> None:
    upward = [
        f"{module} imports {other}"
        for module in modules()
        if not module.startswith("testing")
        for other in imports_of(module)
        if not layers_of(other)[0] <= layers_of(module)[0]
    ]
    assert upward == []


def imports_of(module: str) -> set[str]:
    """Return the modules of the package that a module imports, at its top or later, other than for type checkers."""
    path = ROOT / "goscheduler" / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for_checkers = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in for_checkers]
    names = {
        name
        for node in imports
        for name in (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    return {name.removeprefix("goscheduler.") for name in names} & set(modules())
