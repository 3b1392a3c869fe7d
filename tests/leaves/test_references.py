from __future__ import annotations

import asyncio
import functools
import importlib
import json
import logging
import os
import subprocess
import sys
import time
from datetime import timedelta
from types import ModuleType

import pytest

from goscheduler.errors import InvalidArgument
from goscheduler.references import get_callable_name, iscoroutinefunction_partial, maybe_ref, obj_to_ref, ref_to_obj


def plain() -> None: ...


def shadowed() -> str:
    return "first"


first_shadowed = shadowed


def shadowed() -> str:  # type: ignore[no-redef]
    return "second"


def _private() -> None: ...


@functools.lru_cache
def remembered() -> None: ...


async def coroutine() -> None: ...


class Base:
    def method(self) -> None: ...

    @classmethod
    def class_method(cls) -> None: ...

    @staticmethod
    def static_method() -> None: ...

    def __call__(self) -> None: ...

    class Inner:
        def method(self) -> None: ...


class Derived(Base): ...


class AsyncCallable:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (plain, "plain"),
        (_private, "_private"),
        (remembered, "remembered"),
        (Base, "Base"),
        (Base.method, "Base.method"),
        (Base.class_method, "Base.class_method"),
        (Base.static_method, "Base.static_method"),
        (Derived.class_method, "Derived.class_method"),
        (Base.Inner.method, "Base.Inner.method"),
    ],
)
def test_a_reference_leads_back_to_the_object(obj: object, path: str) -> None:
    ref = obj_to_ref(obj)
    assert ref == f"{__name__}:{path}"
    assert ref_to_obj(ref) == obj


def test_functions_of_the_standard_library_have_references() -> None:
    assert obj_to_ref(timedelta) == "datetime:timedelta"
    assert obj_to_ref(time.sleep) == "time:sleep"
    assert obj_to_ref(print) == "builtins:print"
    assert ref_to_obj("builtins:print") is print
    assert ref_to_obj("sys:stdout.write") == sys.stdout.write


def test_the_reference_to_a_bound_method_names_the_class_of_its_object() -> None:
    assert obj_to_ref(Derived().method) == f"{__name__}:Derived.method"


def test_partials_lambdas_and_nested_functions_have_no_reference() -> None:
    def nested() -> None: ...

    for obj, text in [
        (functools.partial(plain), "Cannot create a reference to a partial()"),
        (lambda: None, "Cannot create a reference to a lambda"),
        (nested, "Cannot create a reference to a nested function"),
    ]:
        with pytest.raises(ValueError, match="Cannot create") as caught:
            obj_to_ref(obj)
        assert str(caught.value) == text


def test_a_callable_instance_has_no_reference_because_it_would_come_back_as_its_class() -> None:
    with pytest.raises(InvalidArgument, match="an instance of Base; give a function"):
        obj_to_ref(Base())


def test_a_function_that_its_name_no_longer_leads_to_has_no_reference() -> None:
    with pytest.raises(InvalidArgument, match="does not lead back to it"):
        obj_to_ref(first_shadowed)
    with pytest.raises(InvalidArgument, match="does not lead back to it"):
        obj_to_ref([].append)


def test_what_is_not_callable_has_no_name() -> None:
    with pytest.raises(TypeError, match="Unable to determine a name for 5 -- maybe it is not a callable"):
        obj_to_ref(5)


DECORATED = """
from goscheduler.references import obj_to_ref
refs = []
def collect(func):
    refs.append(obj_to_ref(func))
    return func

@collect
def job(): ...

class Jobs:
    @collect
    def method(self): ...
"""


def test_a_decorator_can_refer_to_a_function_that_its_module_does_not_have_yet(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "decorated_module.py").write_text(DECORATED)  # type: ignore[operator]
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("decorated_module")
    try:
        assert module.refs == ["decorated_module:job", "decorated_module:Jobs.method"]
        assert importlib.reload(module).refs == module.refs
    finally:
        del sys.modules["decorated_module"]


def test_a_script_can_refer_to_its_own_functions(tmp_path: os.PathLike[str]) -> None:
    script = tmp_path / "script.py"  # type: ignore[operator]
    script.write_text(DECORATED + "import goscheduler.references as r\nprint(refs, r.ref_to_obj(refs[0]) is job)")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    assert done.stdout == "['__main__:job', '__main__:Jobs.method'] True\n", done.stderr


@pytest.mark.parametrize(
    "ref",
    [
        "os:system",
        "os.path:join",
        "posix:system",
        "builtins:eval",
        "builtins:exec",
        "builtins:__import__",
        "subprocess:run",
        "sys:exit",
        "shutil:rmtree",
        "importlib:import_module",
        "importlib.util:find_spec",
        "pickle:loads",
        "timeit:timeit",
        "logging:os.system",
        "json:codecs.sys.exit",
        "asyncio:create_subprocess_shell",
        "tempfile:_shutil.rmtree",
        "json:dumps.__globals__",
        "json:JSONDecoder.__init__",
        "datetime:datetime.__class__",
    ],
)
def test_a_reference_into_the_interpreters_tools_is_refused(ref: str) -> None:
    with pytest.raises(InvalidArgument, match="Refused reference"):
        ref_to_obj(ref)


def test_a_reference_to_a_command_under_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    alias = ModuleType("alias_of_os")
    alias.harmless = os.system  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "alias_of_os", alias)
    with pytest.raises(InvalidArgument, match="leads into module"):
        ref_to_obj("alias_of_os:harmless")


def test_no_reference_is_made_to_what_could_not_be_resolved_later() -> None:
    for func in (os.system, subprocess.run, eval):
        with pytest.raises(InvalidArgument, match="name a function of your own"):
            obj_to_ref(func)


@pytest.mark.parametrize(
    ("ref", "error", "text"),
    [
        (object(), TypeError, "References must be strings"),
        ("module", ValueError, "Invalid reference"),
        ("", ValueError, "Invalid reference"),
        ("json:", ValueError, "Invalid reference"),
        (":dumps", ValueError, "Empty module name"),
        ("no.such.module:f", LookupError, "Error resolving reference no.such.module:f: could not import module"),
        ("json:no_such", LookupError, "Error resolving reference json:no_such: error looking up object"),
        ("a..b:f", LookupError, "could not import module"),
        (".relative:f", LookupError, "could not import module"),
        ("nul\0:f", LookupError, r"nul\\x00:f"),
    ],
)
def test_what_is_no_reference_gets_a_clear_error(ref: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ref_to_obj(ref)  # type: ignore[arg-type]


def test_a_module_that_raises_while_it_is_imported_is_a_failed_lookup(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_module.py").write_text("1 / 0")  # type: ignore[operator]
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LookupError, match="could not import module"):
        ref_to_obj("raising_module:f")


def test_references_to_apscheduler_lead_to_our_modules() -> None:
    from goscheduler.triggers.date import DateTrigger

    assert ref_to_obj("apscheduler.triggers.date:DateTrigger") is DateTrigger


def test_references_to_modules_of_apscheduler_that_we_lack_lead_there(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = ModuleType("apscheduler.of_their_own")
    theirs.plain = plain  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "apscheduler.of_their_own", theirs)
    assert ref_to_obj("apscheduler.of_their_own:plain") is plain


def test_maybe_ref_resolves_strings_and_leaves_the_rest() -> None:
    assert maybe_ref("datetime:timedelta") is timedelta
    assert maybe_ref(plain) is plain
    assert maybe_ref(None) is None


@pytest.mark.parametrize(
    ("func", "name"),
    [
        (asyncio.sleep, "sleep"),
        (timedelta, "timedelta"),
        (Base.method, "Base.method"),
        (Base().method, "Base.method"),
        (Derived().method, "Derived.method"),
        (Base.class_method, "Base.class_method"),
        (Base.static_method, "Base.static_method"),
        (Base(), "Base"),
        (functools.partial(functools.partial(plain)), "plain"),
        (json.dumps, "dumps"),
        (logging.getLogger("x").info, "Logger.info"),
    ],
)
def test_callables_have_the_name_that_people_know(func: object, name: str) -> None:
    assert get_callable_name(func) == name


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (coroutine, True),
        (functools.partial(functools.partial(coroutine)), True),
        (AsyncCallable(), True),
        (AsyncCallable, False),
        (plain, False),
        (functools.partial(plain), False),
        (5, False),
    ],
)
def test_coroutine_functions_are_recognised_through_partials_and_instances(func: object, expected: bool) -> None:
    assert iscoroutinefunction_partial(func) is expected
