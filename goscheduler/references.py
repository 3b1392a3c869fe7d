"""Functions by name: textual references, callable names, and what arguments a callable takes.

A reference is ``package.module:attribute.path``. It is how a stored job finds its function again, so making one proves
that it leads back to the same object. Resolving one refuses dunder attributes and some modules that plainly run
commands, however they are reached. That list cannot be complete and protects nothing by itself: which stored references
are followed at all is decided by :mod:`goscheduler._resolver`.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from goscheduler.errors import InvalidArgument, described, shown, survivable

#: Modules that no reference may lead into; their submodules are included.
# fmt: off
DENIED_MODULES = frozenset({
    "_ctypes", "_imp", "_io", "_pickle", "_posixsubprocess", "_socket", "asyncio.subprocess", "bdb",
    "builtins", "cProfile", "code", "codeop", "ctypes", "doctest", "imp", "importlib", "logging.config",
    "marshal", "multiprocessing", "nt", "os", "pdb", "pickle", "pkgutil", "posix", "profile", "pty", "pydoc",
    "runpy", "shutil", "socket", "subprocess", "sys", "timeit", "trace", "webbrowser",
})
# fmt: on

#: Harmless members of denied modules that people do schedule.
ALLOWED_REFERENCES = frozenset({"builtins:print", "sys:stdout.write", "sys:stderr.write"})

_OLD_ROOT, _OUR_ROOT = "apscheduler", "goscheduler"
_CALL = "__call__"

#: How many different ways of calling one function are remembered as good.
_SHAPES_KEPT = 16


def obj_to_ref(obj: Any) -> str:
    """Return the reference ``module:qualname`` under which ``obj`` can be found again.

    Raises ValueError where there is none: for partials, lambdas, nested functions, callable instances, and for
    anything whose name leads to another object.
    """
    if type(obj) is FunctionType and (ref := _plain_reference(obj)) is not None:
        return ref
    if isinstance(obj, partial):
        raise InvalidArgument("Cannot create a reference to a partial()", field="func", value=obj)
    name = get_callable_name(obj)
    if "<lambda>" in name:
        raise InvalidArgument("Cannot create a reference to a lambda", field="func", value=obj)
    if "<locals>" in name:
        raise InvalidArgument("Cannot create a reference to a nested function", field="func", value=obj)
    if not _has_own_name(obj):
        raise InvalidArgument(
            f"Cannot create a reference to an instance of {name}; give a function that calls it",
            field="func",
            value=obj,
        )
    ref = f"{_module_name(obj)}:{name}"
    _refuse_denied_reference(ref)
    if not _leads_back(ref, obj):
        raise InvalidArgument(
            f"Cannot create a reference to {shown(obj)}: {ref} does not lead back to it", field="func", value=obj
        )
    return ref


def _plain_reference(func: FunctionType) -> str | None:
    """Return the reference to a function at the top of its module, which is nearly all of them; else None."""
    module = sys.modules.get(func.__module__)
    if module is None or vars(module).get(func.__qualname__) is not func:
        return None
    return None if _is_denied(func.__module__) else f"{func.__module__}:{func.__qualname__}"


def get_callable_name(func: Any) -> str:
    """Return the name under which people know ``func``: its qualified name, or its class's for a callable instance."""
    while isinstance(func, partial):
        func = func.func
    owner = getattr(func, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        cls = owner if isinstance(owner, type) else type(owner)
        return f"{cls.__qualname__}.{func.__name__}"
    if callable(func):
        name = getattr(func, "__qualname__", None)
        return name if isinstance(name, str) else type(func).__qualname__
    raise TypeError(f"Unable to determine a name for {shown(func)} -- maybe it is not a callable?")


def _has_own_name(obj: Any) -> bool:
    """Tell whether the object itself carries a name; a mere instance only has its class's."""
    return isinstance(obj, MethodType) or isinstance(getattr(obj, "__qualname__", None), str)


def _module_name(obj: Any) -> str | None:
    if isinstance(obj, MethodType):
        owner = obj.__self__
        obj = owner if isinstance(owner, type) else type(owner)
    name = getattr(obj, "__module__", None)
    return name if isinstance(name, str) else None


def _leads_back(ref: str, obj: Any) -> bool:
    module_name, _, path = ref.partition(":")
    module = sys.modules.get(module_name)
    if module is None:
        return False
    try:
        found = _walk(module, path)
    except AttributeError:
        return _body_is_running(module)
    if found is obj or (isinstance(obj, MethodType) and (found is obj.__func__ or found == obj)):
        return True
    return _is_being_redefined(found, obj) and _body_is_running(module)


def _body_is_running(module: ModuleType) -> bool:
    """Tell whether this thread is still executing the module's own statements.

    A decorator sees its function before the module has it, so a name that is missing then says nothing.
    """
    for frame in _frames():
        if frame.f_globals is vars(module) and not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            return True
    return False


def _frames() -> Iterator[Any]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_being_redefined(found: Any, obj: Any) -> bool:
    """Tell whether ``obj`` is about to replace ``found``, as when a module is reloaded or a cell is run again."""
    old, new = getattr(found, "__code__", None), getattr(obj, "__code__", None)
    if old is None or new is None or found.__qualname__ != obj.__qualname__:
        return False
    return bool(old.co_filename != new.co_filename or old.co_firstlineno <= new.co_firstlineno)


def ref_to_obj(ref: str) -> Any:
    """Return the object that ``module:attribute.path`` names.

    Raises TypeError for what is no string, ValueError for what is no reference or leads where none may lead, and
    LookupError when the module cannot be imported or lacks the attribute.
    """
    module_name, path = check_reference(ref)
    return look_up(import_module(module_name, ref), path, ref)


def look_up(module: ModuleType, path: str, ref: str, refuse: Callable[[str, str], None] | None = None) -> Any:
    """Return the object at a path in a module.

    ``refuse(module name, ref)``, which may raise, is asked about each module that the path leads through.

    Raises ValueError where it leads where no reference may lead, and LookupError where there is nothing.
    """
    try:
        obj = _walk(module, path, refuse)
    except AttributeError as exc:
        raise LookupError(f"Error resolving reference {_printable(ref)}: error looking up object") from exc
    if ref not in ALLOWED_REFERENCES:
        _refuse_denied_object(obj, ref)
    return obj


def check_reference(ref: str) -> tuple[str, str]:
    """Return the module and the path of a reference that may be followed. Nothing is imported.

    Raises TypeError for what is no string, ValueError for what is no reference or names a module where none may lead.
    """
    if not isinstance(ref, str):
        raise TypeError("References must be strings")
    module_name, colon, path = ref.partition(":")
    if not colon or not path:
        raise InvalidArgument(f"Invalid reference {shown(ref)}: expected 'module:attribute'", field="ref", value=ref)
    if not module_name:
        raise InvalidArgument(f"Empty module name in reference {shown(ref)}", field="ref", value=ref)
    _refuse_denied_reference(ref)
    return module_name, path


def maybe_ref(ref: Any) -> Any:
    """Return the object that ``ref`` names if it is a string, else ``ref`` itself."""
    return ref_to_obj(ref) if isinstance(ref, str) else ref


def _refuse_denied_reference(ref: str) -> None:
    module_name, _, path = ref.partition(":")
    if ref in ALLOWED_REFERENCES:
        return
    if _is_denied(module_name):
        raise _denied(ref, f"module {_printable(module_name)!r} is not open to references")
    if any(segment.startswith("__") for segment in path.split(".")):
        raise _denied(ref, "it goes through a dunder attribute")


def _refuse_denied_object(obj: Any, ref: str) -> None:
    home = getattr(obj, "__module__", None)
    if callable(obj) and isinstance(home, str) and _is_denied(home):
        raise _denied(ref, f"it leads into module {home!r}, which is not open to references")


@lru_cache(maxsize=1024)
def _is_denied(module_name: str) -> bool:
    if module_name in DENIED_MODULES:
        return True
    parents = module_name.split(".")
    return any(".".join(parents[:count]) in DENIED_MODULES for count in range(1, len(parents)))


def _denied(ref: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"Refused reference {shown(ref)}: {why}; name a function of your own that does it", field="ref", value=ref
    )


def import_module(module_name: str, ref: str) -> ModuleType:
    """Return the module of a reference.

    Raises LookupError whatever the module does while it is imported, also if it ends the program: the reference is what
    cannot be resolved, and nobody else is to suffer.
    """
    try:
        return _import_ours(module_name) or importlib.import_module(module_name)
    except BaseException as exc:
        if not isinstance(exc, SystemExit) and not survivable(exc):
            raise
        why = described(exc) if isinstance(exc, SystemExit) else str(exc)
        raise LookupError(f"Error resolving reference {_printable(ref)}: could not import module ({why})") from exc


def _import_ours(module_name: str) -> ModuleType | None:
    """Return our module for one of APScheduler's, as configurations and records written for it name them."""
    root, _, rest = module_name.partition(".")
    if root != _OLD_ROOT:
        return None
    ours = f"{_OUR_ROOT}.{rest}" if rest else _OUR_ROOT
    try:
        return importlib.import_module(ours)
    except ModuleNotFoundError as exc:
        if exc.name is None or not (ours == exc.name or ours.startswith(f"{exc.name}.")):
            raise
        return None


def _walk(module: ModuleType, path: str, refuse: Callable[[str, str], None] | None = None) -> Any:
    obj: Any = module
    ref = f"{module.__name__}:{path}"
    for segment in path.split("."):
        obj = getattr(obj, segment)
        if isinstance(obj, ModuleType):
            if _is_denied(obj.__name__):
                raise _denied(ref, f"it leads into module {obj.__name__!r}")
            if refuse is not None:
                refuse(obj.__name__, ref)
    return obj


def iscoroutinefunction_partial(func: Any) -> bool:
    """Tell whether calling ``func`` gives a coroutine, also through partials and an async ``__call__``."""
    while isinstance(func, partial):
        func = func.func
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(type(func), _CALL, None))


def check_callable_args(func: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    """Return if ``func`` can be called with these arguments, else raise ValueError saying what is wrong.

    A callable that does not tell its signature is not checked. ``__wrapped__`` is not followed: what counts is what
    will be called.
    """
    bound = 0
    if isinstance(func, MethodType):
        func, bound = func.__func__, 1
    accepts = _signature_of(func)
    if accepts is None:
        return
    count = bound + len(args if isinstance(args, (tuple, list)) else tuple(args))
    shape = (count, *kwargs)
    if shape in accepts.good_shapes:
        return
    problem = _first_problem(accepts, count, bound, kwargs)
    if problem is not None:
        raise InvalidArgument(problem, field="args", value=(args, kwargs))
    if len(accepts.good_shapes) < _SHAPES_KEPT:
        accepts.good_shapes.add(shape)


class _Accepts(NamedTuple):
    """What a callable accepts, with the ways of calling it that were found good already."""

    positional_only: tuple[str, ...]
    positional_or_keyword: tuple[str, ...]
    required: frozenset[str]
    required_keywords: tuple[str, ...]
    keyword_only: frozenset[str]
    most: float
    any_keyword: bool
    good_shapes: set[tuple[object, ...]]


def _first_problem(accepts: _Accepts, count: int, bound: int, kwargs: Mapping[str, Any]) -> str | None:
    """Return the gravest thing wrong with a call, in the order in which APScheduler 3 reports them."""
    if wrong_keys := [key for key in kwargs if not isinstance(key, str)]:
        return f"Keyword argument names must be strings, got {shown(wrong_keys[0])}"
    positional = accepts.positional_only + accepts.positional_or_keyword
    by_position = set(positional[:count])
    if twice := [name for name in accepts.positional_or_keyword if name in by_position and name in kwargs]:
        return f"The following arguments are supplied in both args and kwargs: {', '.join(twice)}"
    unfilled = [name for name in accepts.positional_only if name not in by_position]
    if not accepts.any_keyword and (by_keyword := [name for name in unfilled if name in kwargs]):
        return f"The following arguments cannot be given as keyword arguments: {', '.join(by_keyword)}"
    given = by_position | (kwargs.keys() - set(accepts.positional_only))
    if missing := [name for name in positional if name in accepts.required and name not in given]:
        return f"The following arguments have not been supplied: {', '.join(missing)}"
    if missing := [name for name in accepts.required_keywords if name not in kwargs]:
        return f"The following keyword-only arguments have not been supplied in kwargs: {', '.join(missing)}"
    if count > accepts.most:
        return (
            "The list of positional arguments is longer than the target callable can handle "
            f"(allowed: {int(accepts.most) - bound}, given in args: {count - bound})"
        )
    if accepts.any_keyword:
        return None
    if unknown := [key for key in kwargs if key not in accepts.keyword_only | set(accepts.positional_or_keyword)]:
        return f"The target callable does not accept the following keyword arguments: {', '.join(unknown)}"
    return None


#: By id, because that is the cheapest key; an entry goes with its callable, and is believed only for the same object.
_signatures: dict[int, tuple[weakref.ref[Any], _Accepts | None]] = {}


def _signature_of(func: Any) -> _Accepts | None:
    key = id(func)
    entry = _signatures.get(key)
    if entry is not None and entry[0]() is func:
        return entry[1]
    accepts = _read_signature(func)
    with contextlib.suppress(TypeError):  # some objects allow no weak reference; theirs is read every time
        _signatures[key] = weakref.ref(func, lambda _: _signatures.pop(key, None)), accepts
    return accepts


def _read_signature(func: Any) -> _Accepts | None:
    try:
        signature = inspect.signature(func, follow_wrapped=False)
    except ValueError:
        return None
    kinds = inspect.Parameter
    parameters = signature.parameters.values()
    required = [p.name for p in parameters if p.default is kinds.empty]
    only = tuple(p.name for p in parameters if p.kind is kinds.POSITIONAL_ONLY)
    either = tuple(p.name for p in parameters if p.kind is kinds.POSITIONAL_OR_KEYWORD)
    keyword_only = [p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    takes_any = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    return _Accepts(
        positional_only=only,
        positional_or_keyword=either,
        required=frozenset(required),
        required_keywords=tuple(name for name in keyword_only if name in required),
        keyword_only=frozenset(keyword_only),
        most=float("inf") if takes_any else len(only) + len(either),
        any_keyword=any(p.kind is kinds.VAR_KEYWORD for p in parameters),
        good_shapes=set(),
    )


def _printable(text: str) -> str:
    return shown(text)[1:-1]
