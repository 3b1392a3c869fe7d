"""What the code must look like, whoever writes it: layers, imports, who may read the clock, how long is too long.

Everything is read from the source with ``ast``; nothing is imported. Imports under ``if TYPE_CHECKING`` do not count.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "goscheduler"
TESTS = ROOT / "tests"
pytestmark = pytest.mark.xdist_group("source")  # parsed by one worker, once

#: Module prefix → layer. The longest prefix that fits counts. A module imports its own layer and those below.
LAYERS = {
    "goscheduler.contrib": 8,
    "goscheduler.cli": 7,
    "goscheduler.__main__": 7,
    "goscheduler.web": 7,
    "goscheduler.rpc": 7,
    "goscheduler.alerts": 6,
    "goscheduler.telemetry": 6,
    "goscheduler.ops": 6,
    "goscheduler.messages": 6,
    "goscheduler.observer": 5,
    "goscheduler.schedulers.": 5,
    "goscheduler.schedulers._": 4,
    "goscheduler.periodic": 4,
    "goscheduler.jobstores.": 3,
    "goscheduler._drivers": 3,
    "goscheduler.executors.": 3,
    "goscheduler.apscheduler_import": 3,
    "goscheduler.transports.": 3,
    "goscheduler.transports.base": 2,
    "goscheduler.documents": 4,
    "goscheduler.documents.memory": 3,
    "goscheduler.documents.mongodb": 3,
    "goscheduler.documents.redis": 3,
    "goscheduler.documents.sqlalchemy": 3,
    "goscheduler.documents._sql_columns": 3,
    "goscheduler.documents.base": 2,
    "goscheduler.documents.model": 1,
    "goscheduler.documents._rules": 1,
    "goscheduler.locks": 3,
    "goscheduler.locks.base": 2,
    "goscheduler.jobstores.base": 2,
    "goscheduler.jobstores.types": 2,
    "goscheduler.jobstores.reading": 2,
    "goscheduler.jobstores._local": 2,
    "goscheduler.executors.base": 2,
    "goscheduler.executors.around": 2,
    "goscheduler.executors.call": 2,
    "goscheduler.executors.context": 2,
    "goscheduler.executors.enclosure": 2,
    "goscheduler.executors._log": 2,
    "goscheduler.plugins": 2,
    "goscheduler.config": 2,
    "goscheduler.job": 1,
    "goscheduler.options": 1,
    "goscheduler.triggers": 1,
    "goscheduler.calendars": 1,
    "goscheduler.runs": 1,
    "goscheduler._text": 0,
    "goscheduler._typed": 0,
    "goscheduler.typing": 0,
    "goscheduler.calls": 0,
    "goscheduler.errors": 0,
    "goscheduler.clock": 0,
    "goscheduler.events": 0,
    "goscheduler.event_bus": 0,
    "goscheduler.logs": 0,
    "goscheduler.references": 0,
    "goscheduler._event_loop_thread": 0,
    "goscheduler._chance": 0,
    "goscheduler._program": 0,
    "goscheduler._resolver": 0,
    "goscheduler.tasks": 0,
    "goscheduler.times": 0,
    "goscheduler.codec": 0,
    "goscheduler._files": 0,
    "goscheduler._urls": 0,
    "goscheduler.serializers": 0,
    "goscheduler.util": 0,
    "goscheduler._version": 0,
}

#: Packages that only carry names: they import nothing but what is listed here.
NAMESPACES = {
    "goscheduler": {"goscheduler._version"},
    "goscheduler.schedulers": {"goscheduler.errors"},
    "goscheduler.executors": set(),
    "goscheduler.jobstores": set(),
    "goscheduler.jobstores._local": set(),
    "goscheduler.jobstores._shared": set(),
    "goscheduler.jobstores._keyvalue": set(),
    "goscheduler._drivers": set(),
    "goscheduler._drivers.etcd": set(),
    "goscheduler.jobstores.sqlalchemy.dialects": set(),
    "goscheduler.jobstores.sqlalchemy.dialects.postgresql": set(),
    "goscheduler.transports": set(),
}

#: Third-party package → the modules below ``goscheduler`` that may import it, with all that is in them.
THIRD_PARTY = {
    "pytest": (
        "testing.contract", "testing.contract_reads", "testing.contract_inbox", "testing.contract_following",
        "testing.plugin",
    ),
    "hypothesis": ("testing.model", "testing.model_limits"),
    "croniter": ("triggers.cron",),
    "tzlocal": ("times",),
    "holidays": ("calendars.holiday",),
    "dateutil": ("triggers._rrule_walk",),
    "typer": ("cli",),
    "rich": ("cli",),
    "starlette": ("web",),
    "jinja2": ("web",),
    "uvicorn": ("web", "cli"),
    "a2wsgi": ("web",),
    "flask": ("web", "contrib.flask"),
    "click": ("contrib.flask",),
    "sentry_sdk": ("contrib.sentry",),
    "structlog": ("contrib.structlog",),
    "django": ("web", "contrib.django"),
    "django_tasks": ("contrib.django",),
    "asgiref": ("contrib.django",),
    "opentelemetry": ("telemetry",),
    "sqlalchemy": (
        "jobstores.sqlalchemy", "_drivers.sql_watchdog", "documents.sqlalchemy", "documents._sql_columns", "locks.sql",
        "apscheduler_import.sources",
    ),
    "rq": ("periodic.dispatch",),
    "dramatiq": ("periodic.dispatch",),
    "redis": (
        "jobstores.redis", "_drivers.redis", "documents.redis", "transports.redis_streams", "locks.redis",
        "apscheduler_import.sources",
    ),
    "kombu": ("transports.kombu", "transports._kombu_link"),
    "nats": ("transports.nats",),
    "confluent_kafka": ("transports.kafka",),
    "httpx": ("transports.webhook",),
    "tornado": ("schedulers.tornado", "executors.tornado"),
    "gevent": ("schedulers.gevent", "executors.gevent"),
    "twisted": ("schedulers.twisted", "executors.twisted"),
    "pymongo": (
        "jobstores.mongodb", "_drivers.mongodb", "documents.mongodb", "locks.mongodb", "apscheduler_import.sources",
    ),
    "bson": ("jobstores.mongodb", "documents.mongodb", "apscheduler_import.sources"),
    "distributed": ("executors.dask", "executors._dask_worker"),
    "kubernetes": ("executors.kubernetes",),
    "urllib3": ("executors.kubernetes",),
    "kazoo": ("jobstores.zookeeper", "_drivers.zookeeper", "locks.zookeeper", "apscheduler_import.sources"),
    "etcd3": ("_drivers.etcd.grpc",),
    "grpc": ("_drivers.etcd.grpc", "rpc"),
    "grpc_health": ("rpc",),
    "grpc_reflection": ("rpc",),
    "google": ("_drivers.etcd.grpc", "rpc"),
    "etcd3gw": ("_drivers.etcd.gateway", "apscheduler_import.sources"),
    "requests": ("_drivers.etcd.gateway", "apscheduler_import.sources"),
}  # fmt: skip

CLOCK_READERS = {
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.localtime", "time.gmtime", "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
}  # fmt: skip

LONGEST_MODULE = 450
LONGEST_FUNCTION = 60
DEEPEST_NESTING = 3

#: Functions that may be nested deeper, and why.
DEEPER_FUNCTIONS = {"goscheduler.triggers.cron._calendar:after"}  # the hot path: calls would cost more

#: Modules that may be longer, and why.
LONGER_MODULES = {
    "goscheduler.testing.contract": 600,  # a test suite: many short tests that belong together
}

#: What protoc has written follows other rules; what it may import is the same.
GENERATED = "goscheduler.rpc.gen"

EMPTY_WORDS = re.compile(r"(Manager|Helper|Handler|Data|Info|Utils)(?![a-z])|(?:^|_)(manager|helper|utils)(?:_|$)")


class Module(NamedTuple):
    name: str
    path: Path
    tree: ast.Module
    lines: int

    @property
    def layer(self) -> int | None:
        fitting = [prefix for prefix in LAYERS if _fits(self.name, prefix)]
        return LAYERS[max(fitting, key=len)] if fitting else None


def _fits(name: str, prefix: str) -> bool:
    """Tell whether a module is meant: a prefix that ends in a dot or underscore fits all that begin with it."""
    return name == prefix or name.startswith(prefix if prefix[-1] in "._" else f"{prefix}.")


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, path, ast.parse(text), len(text.splitlines()))
    return found


def library() -> list[Module]:
    """Return the modules that run in production: all but the testing tools."""
    return [module for name, module in modules().items() if not _is_testing(name)]


def written() -> list[Module]:
    """Return the modules that were written by hand."""
    return [module for name, module in modules().items() if not _fits(name, GENERATED)]


@cache
def imports_of(module: Module) -> set[str]:
    """Return every module that is imported at run time, by its full name."""
    found: set[str] = set()
    for node in _runtime_nodes(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}:{node.lineno} imports relatively; write the full name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules() else str(node.module))
    return found


def our_imports_of(module: Module) -> set[str]:
    return {name for name in imports_of(module) if name.split(".")[0] == "goscheduler"}


def _runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    yield tree
    if isinstance(tree, ast.If) and _is_type_checking(tree.test):
        children: list[ast.AST] = list(tree.orelse)
    else:
        children = list(ast.iter_child_nodes(tree))
    for child in children:
        yield from _runtime_nodes(child)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _is_testing(name: str) -> bool:
    return name == "goscheduler.testing" or name.startswith("goscheduler.testing.")


def test_every_module_has_a_layer() -> None:
    homeless = [module.name for module in library() if module.name not in NAMESPACES and module.layer is None]
    assert homeless == [], "add these to LAYERS"


def test_every_layer_entry_names_something_that_exists() -> None:
    unused = [prefix for prefix in LAYERS if not any(_fits(name, prefix) for name in modules())]
    assert unused + [name for name in NAMESPACES if name not in modules()] == []


def test_no_module_imports_a_higher_layer() -> None:
    upward = [
        f"{module.name} (layer {module.layer}) imports {imported} (layer {modules()[imported].layer})"
        for module in library()
        if module.name not in NAMESPACES
        for imported in our_imports_of(module)
        if imported not in NAMESPACES and (modules()[imported].layer or 0) > (module.layer or 0)
    ]
    assert upward == []


def test_packages_that_only_carry_names_import_nothing_else() -> None:
    stray = {name: our_imports_of(modules()[name]) - allowed for name, allowed in NAMESPACES.items()}
    assert {name: imported for name, imported in stray.items() if imported} == {}


def test_modules_import_only_modules_that_exist() -> None:
    missing = [
        f"{module.name} imports {imported}"
        for module in modules().values()
        for imported in our_imports_of(module)
        if imported not in modules()
    ]
    assert missing == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: our_imports_of(module) for name, module in modules().items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"import cycle: {' → '.join((*path[path.index(name) :], name))}"
        if name in done:
            return
        for imported in sorted(graph[name]):
            visit(imported, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_nobody_imports_the_testing_tools() -> None:
    assert [module.name for module in library() if any(map(_is_testing, imports_of(module)))] == []


def test_third_party_packages_are_imported_only_by_their_adapter() -> None:
    known = {*sys.stdlib_module_names, "goscheduler"}
    stray = [
        f"{module.name} imports {package}"
        for module in modules().values()
        for package in {imported.split(".")[0] for imported in imports_of(module)} - known
        if not any(_fits(module.name, f"goscheduler.{adapter}") for adapter in THIRD_PARTY.get(package, ()))
    ]
    assert stray == []


def test_only_the_clock_module_reads_the_clock() -> None:
    read = [
        f"{module.name}:{node.lineno} {used}"
        for module in modules().values()
        if module.name != "goscheduler.clock"
        for node, used in _uses_of_time(module.tree)
        if used in CLOCK_READERS
    ]
    assert read == []


def test_the_rule_about_clocks_sees_a_reader_under_any_name() -> None:
    source = """
import time as t, datetime
from datetime import datetime as dt, date
from time import monotonic, sleep as nap
t.time(); dt.now(); monotonic(); datetime.datetime.now(); date.today(); nap(1)
"""
    used = {used for _, used in _uses_of_time(ast.parse(source))}
    assert used >= {"time.time", "datetime.now", "time.monotonic", "datetime.datetime.now", "date.today", "time.sleep"}


def _uses_of_time(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield every attribute and name that leads into ``time`` or ``datetime``, under its real name."""
    real = _names_from_time_modules(tree)
    if not real:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            first, *rest = _dotted(node)
            if first in real:
                yield node, ".".join([real[first], *rest])


def _dotted(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def _names_from_time_modules(tree: ast.AST) -> dict[str, str]:
    real = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            real.update({a.asname or a.name: a.name for a in node.names if a.name in ("time", "datetime")})
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            real.update({alias.asname or alias.name: f"time.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module == "datetime":
            real.update({a.asname or a.name: a.name for a in node.names if a.name in ("datetime", "date")})
    return real


def test_nothing_sleeps() -> None:
    tests = [path for path in TESTS.rglob("*.py") if "bench" not in path.relative_to(TESTS).as_posix()]
    sleeps = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted([*tests, *(module.path for module in modules().values())])
        if "sleep" in (text := path.read_text(encoding="utf-8"))
        for node in _sleeping_calls(ast.parse(text))
    ]
    assert sleeps == [], "move the clock, or wait for an event"


def _sleeping_calls(tree: ast.AST) -> list[ast.Call]:
    sleepers = {id(node) for node, used in _uses_of_time(tree) if used == "time.sleep"}
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node.func) in sleepers]


def test_no_error_is_swallowed_without_a_word() -> None:
    swallowed = [
        f"{module.name}:{node.lineno}"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node) and _does_nothing(node.body)
    ]
    assert swallowed == []


def _catches_everything(node: ast.ExceptHandler) -> bool:
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(error is None or ast.unparse(error) in ("Exception", "BaseException") for error in caught)


def _does_nothing(body: list[ast.stmt]) -> bool:
    return all(isinstance(statement, (ast.Pass, ast.Continue)) or _is_constant(statement) for statement in body)


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def test_a_module_can_be_read_in_one_go() -> None:
    lengths = {module.name: module.lines for module in written()}
    assert {
        name: lines for name, lines in lengths.items() if lines > LONGER_MODULES.get(name, LONGEST_MODULE)
    } == {}, "split these"


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in written():
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{module.name}:{node.name}", node


def test_a_function_fits_on_a_screen() -> None:
    lengths = {where: (function.end_lineno or 0) - function.lineno + 1 for where, function in _functions()}
    assert {where: length for where, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_functions_are_not_nested_too_deeply() -> None:
    depths = {where: _depth(function.body) for where, function in _functions()}
    deep = {where: depth for where, depth in depths.items() if depth > DEEPEST_NESTING}
    assert {where: depth for where, depth in deep.items() if where not in DEEPER_FUNCTIONS} == {}


_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def _depth(body: list[ast.stmt]) -> int:
    return max((_depth_of(statement) for statement in body), default=0)


def _depth_of(statement: ast.stmt) -> int:
    if not isinstance(statement, _BLOCKS):
        return 0
    if isinstance(statement, ast.If) and len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
        return max(1 + _depth(statement.body), _depth_of(statement.orelse[0]))  # an elif is not deeper than its if
    bodies = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
    bodies += [clause.body for part in ("handlers", "cases") for clause in getattr(statement, part, [])]
    return 1 + max(_depth(body) for body in bodies)


#: Members of named tuples, which begin with an underscore although they are public.
_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}

#: Underscore attributes that one package reads of another, and why. This list may only get shorter.
READ_FROM_OUTSIDE = {
    "_jobstore_alias": "a name of APScheduler 3: stores and executors that were written for it set and read it",
    "_modify": "a name of APScheduler 3: stores that were written for it call it",
    "_waits_for": "a store that builds a job sets it, as it sets _jobstore_alias",
    "_database": "a lock uses the connection of the job store that it was made of",
    "_poll": "a message scheduler sets how often the stores that it has made are asked",
    "_store": "not ours: the name under which mongomock keeps what a client has",
    "_tables": "a lock uses the connection of the job store that it was made of",
}


def test_packages_use_only_public_members_of_each_other() -> None:
    read = {
        name: where
        for module in modules().values()
        for name, where in _private_reads(module)
        if _package(module) not in _private_definitions().get(name, {_package(module)})
    }
    assert {name: where for name, where in read.items() if name not in READ_FROM_OUTSIDE} == {}, "make these public"
    assert sorted(set(READ_FROM_OUTSIDE) - set(read)) == [], "take these out of the list"


def _package(module: Module) -> str:
    """Return the first part of a module's name below ``goscheduler``."""
    return module.name.split(".")[1] if "." in module.name else ""


def _private_reads(module: Module) -> Iterator[tuple[str, str]]:
    """Yield underscore attributes that are read of other objects; what a class has from its bases is its own."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        receiver = ast.unparse(node.value)
        if receiver not in ("self", "cls", "super()") and node.attr not in _NAMED_TUPLES:
            yield node.attr, f"{module.name}:{node.lineno} {receiver}.{node.attr}"


@cache
def _private_definitions() -> dict[str, set[str]]:
    """Return underscore name → the packages that define it."""
    found: dict[str, set[str]] = {}
    for module in modules().values():
        for node in ast.walk(module.tree):
            for name in _defined_by(node):
                found.setdefault(name, set()).add(_package(module))
    return found


def _defined_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
        yield node.attr


def test_names_say_what_a_thing_does() -> None:
    defined = [
        (module.name, node.name)
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    defined += [(name, name.rsplit(".", 1)[-1]) for name in modules()]
    assert [(where, name) for where, name in defined if EMPTY_WORDS.search(name)] == []


#: Private words that the words of the field have replaced. Nothing is called so again.
RETIRED_WORDS = frozenset({
    "AGEING", "AT_ONCE", "Addition", "BELIEVED", "Caller", "Contents", "Elsewhere", "Ending", "Endings", "Hold",
    "Holds", "Inquiry",
    "JobLife", "Lane", "Lanes", "Left", "Life", "LoopThread", "NEWBORN", "News", "PutBack", "SchedulerLife",
    "Sentence", "Shelf", "Standing", "USUAL_HEAD_START", "Undertaker", "WaitingRoom", "Wanted", "What",
    "_endings", "_hire", "_left_to_themselves", "_legacy", "_staff", "account_of", "asked_to_end", "displace",
    "ends_written", "from_instant", "going_on", "hungry", "instant", "left_waiting",
    "life_of", "live_on", "may_have_forgotten", "movein", "obey", "put_back_strays", "putback", "strays_due_at",
    "Desk", "Doubt", "Doubts", "Flights", "Foresight", "Given", "LONGEST", "Looking", "MOST", "PATIENCE", "Part",
    "QUICKLY", "Seen", "Step", "Stray", "Strays", "TOGETHER", "WITNESSES", "Work", "can_fly", "look_ahead",
    "take_back_ends", "take_off", "tell_of_scheduler", "to_end", "told_reason", "untell", "wish", "wishes",
})  # fmt: skip


def test_retired_words_do_not_come_back() -> None:
    used = {name: module.name for module in modules().values() for name in _names_given_by(module)}
    assert {name: used[name] for name in sorted(RETIRED_WORDS & set(used))} == {}


def _names_given_by(module: Module) -> Iterator[str]:
    yield module.name.rsplit(".", 1)[-1]
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, module in modules().items() if not ast.get_docstring(module.tree)] == []


def test_every_module_with_annotations_postpones_them() -> None:
    annotated = [
        module
        for module in written()
        if any(isinstance(node, (ast.FunctionDef, ast.AnnAssign)) for node in ast.walk(module.tree))
    ]
    assert [module.name for module in annotated if "__future__" not in imports_of(module)] == []


def test_test_files_have_names_of_their_own() -> None:
    # What is called run.py is a command, and its folder says of what.
    others = ("conftest.py", "__init__.py", "run.py")
    names = [path.name for path in TESTS.rglob("*.py") if path.name not in others]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
    assert list(TESTS.rglob("__init__.py")) == []


def test_every_logger_is_guarded() -> None:
    # The guard itself, loggers of the user's, and the one that a scheduler guards with what a user gave instead.
    allowed = {
        "goscheduler.logs", "goscheduler.config", "goscheduler.cli._logging", "goscheduler.schedulers._settings",
    }  # fmt: skip
    makers = [module for module in library() if "getLogger" in module.path.read_text(encoding="utf-8")]
    unguarded = [module.name for module in makers if module.name not in allowed and _makes_bare_loggers(module.tree)]
    assert unguarded == [], "use goscheduler.logs.guarded_logger, so that what is logged is escaped"


def _makes_bare_loggers(tree: ast.AST) -> bool:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    guards = [call for call in calls if getattr(call.func, "id", "") == "GuardedLogger"]
    guarded = [id(argument) for call in guards for argument in call.args]
    return any(getattr(call.func, "attr", "") == "getLogger" and id(call) not in guarded for call in calls)
