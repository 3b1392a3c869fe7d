"""Finds the function of a stored job.

A store asks while it holds its rows, so an answer must be quick and must run nobody's code: :meth:`Resolver.find`
imports nothing. It answers with one of three:

* the function, if its module is loaded
* a :class:`MissingFunction` that says why there is none: the reference is refused, or the module could not be imported
* an :class:`UnresolvedFunction`, if the module has to be imported first. :meth:`Resolver.load` imports it, on a thread
  of its own; a job that is due meanwhile waits. An import that takes longer than :data:`IMPORT_SECONDS` suspends the
  job, until it has ended.

Who may be referred to is decided before anything is imported; see :mod:`goscheduler._program`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from goscheduler._program import PROGRAM, Program
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, described, shown
from goscheduler.references import ALLOWED_REFERENCES, check_reference, import_module, look_up

#: For how many seconds a due job waits while its module is imported, before it is suspended.
IMPORT_SECONDS = 5.0
#: For how many seconds a module that could not be imported is not tried again.
RETRY_AFTER = 60.0
#: How many modules may be under way at once.
MOST_LOADS = 16

#: What lets every installed module be referred to.
ANY_MODULE = "any"

#: How the reasons begin that go away when more is known of the program, or when an import ends.
FOREIGN = "it is not code of this program: "
IMPORTING = "its module is still being imported: "
#: Why a run is put back whose module is being imported.
NOT_LOADED_YET = "its module is being imported"

#: How many functions are remembered.
_MOST_FOUND = 4096
#: And how many modules that could not be imported.
_MOST_FAILED = 1000


class MissingFunction:
    """Stands for a function that a stored job refers to and that cannot be found; to call it raises LookupError."""

    __slots__ = ("reason", "ref", "unreadable")

    def __init__(self, ref: str, reason: str, *, unreadable: bool = False) -> None:
        self.ref = ref
        self.reason = reason
        self.unreadable = unreadable
        """Whether it is not the function but the whole job that could not be read."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise LookupError(self.reason)

    def __repr__(self) -> str:
        return f"<missing function {self.ref!r}>"


class UnresolvedFunction:
    """Stands for a function whose module has not been imported yet; to call it imports the module."""

    __slots__ = ("_resolver", "ref")

    def __init__(self, ref: str, resolver: Resolver) -> None:
        self.ref = ref
        self._resolver = resolver

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._resolver.require(self.ref)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<function {self.ref!r}, not imported yet>"


class ForeignReference(InvalidArgument):
    """A stored reference leads into code that is not the program's own."""


class _Load(NamedTuple):
    """An import that is under way or has failed."""

    since: float
    ended: threading.Event
    failure: str | None = None


class Resolver:
    """Finds functions by reference for one scheduler."""

    def __init__(self, program: Program = PROGRAM) -> None:
        self.allowed: tuple[str, ...] = ()
        """Names of installed modules that may be referred to, with all below them; or :data:`ANY_MODULE` alone."""
        self.when_loaded: Callable[[], None] = _nobody_waits
        """Called when an import has ended, on the thread that did it."""
        self.program = program
        self._found: dict[str, Callable[..., Any]] = {}
        self._loads: dict[str, _Load] = {}
        self._loaded = 0

    @property
    def edition(self) -> tuple[int, int]:
        """A value that is another one after the answer of :meth:`find` may have changed."""
        return self.program.edition, self._loaded

    def allow(self, modules: tuple[str, ...]) -> None:
        """Let references lead into these modules too."""
        self.allowed = modules
        self._found = {}

    def find(self, ref: str) -> Callable[..., Any]:
        """Return the function of a stored job, or what stands for it. Nothing is imported."""
        func = self._found.get(ref)
        module_name, _, path = ref.partition(":")
        unchanged = getattr(sys.modules.get(module_name), path, None) is func
        if func is not None and unchanged:
            return func
        try:
            return self._find(ref)
        except ForeignReference as error:
            return MissingFunction(ref, str(error))
        except Exception as error:
            return MissingFunction(ref, described(error))

    def require(self, ref: str) -> Callable[..., Any]:
        """Return the function that a reference names, and import its module if need be.

        :raises InvalidArgument: if the reference is refused; ForeignReference, if that is because of where it leads
        :raises LookupError: if there is no such function
        """
        module_name, path = check_reference(ref)
        self._refuse_foreign(module_name, ref)
        return self._checked(import_module(module_name, ref), path, ref)

    def load(self, ref: str) -> None:
        """Begin to import the module of a reference, unless that is under way."""
        name = ref.partition(":")[0]
        load = self._loads.get(name)
        if load is None or (load.failure is not None and load.since + RETRY_AFTER < SYSTEM_CLOCK.monotonic()):
            under_way = {name: each for name, each in list(self._loads.items()) if each.failure is None}
            if len(under_way) >= MOST_LOADS:
                return
            if len(self._loads) >= _MOST_FAILED:
                self._loads = under_way
            self._loads[name] = _Load(SYSTEM_CLOCK.monotonic(), threading.Event())
            thread = threading.Thread(target=self._load, args=(name, ref), name="goscheduler-import", daemon=True)
            thread.start()

    def wait_for_imports(self) -> bool:
        """Wait for the imports that are under way, for a while; false if there are none."""
        under_way = [load for load in list(self._loads.values()) if load.failure is None]
        waited = [load.ended.wait(IMPORT_SECONDS) for load in under_way]
        return any(waited)

    def is_foreign(self, ref: str) -> bool:
        """Tell whether a process that has not given this reference itself would refuse it."""
        return ref not in ALLOWED_REFERENCES and not self._may_lead_into(ref.partition(":")[0])

    def _find(self, ref: str) -> Callable[..., Any]:
        module_name, path = check_reference(ref)
        self._refuse_foreign(module_name, ref)
        module = sys.modules.get(module_name)
        load = self._loads.get(module_name)
        if module is None or (_is_being_imported(module) and not _has(module, path)):
            return self._waiting_for(load, ref)
        return self._checked(module, path, ref)

    def _waiting_for(self, load: _Load | None, ref: str) -> Callable[..., Any]:
        waited = 0.0 if load is None else SYSTEM_CLOCK.monotonic() - load.since
        if load is not None and load.failure is not None and waited < RETRY_AFTER:
            return MissingFunction(ref, load.failure)
        if load is not None and load.failure is None and waited > IMPORT_SECONDS:
            return MissingFunction(ref, f"{IMPORTING}{shown(ref)} has taken more than {IMPORT_SECONDS:g} seconds")
        return UnresolvedFunction(ref, self)

    def _checked(self, module: ModuleType, path: str, ref: str) -> Callable[..., Any]:
        found = look_up(module, path, ref, self._refuse_foreign)
        if not callable(found):
            raise TypeError(f"{shown(ref)} is not callable")
        if (home := _home_of(found)) is not None:
            self._refuse_foreign(home, ref)
        if len(self._found) >= _MOST_FOUND:
            self._found = {}
        self._found[ref] = found
        func: Callable[..., Any] = found
        return func

    def _load(self, name: str, ref: str) -> None:
        ended = self._loads[name].ended
        try:
            import_module(name, ref)
        except Exception as error:
            self._loads[name] = _Load(SYSTEM_CLOCK.monotonic(), ended, described(error))
        else:
            del self._loads[name]
        self._loaded += 1
        ended.set()
        self.when_loaded()

    def _refuse_foreign(self, module_name: str, ref: str) -> None:
        """Refuse a reference that leads into or through a module where none may lead."""
        if ref in ALLOWED_REFERENCES or self.program.named(ref) or self._may_lead_into(module_name):
            return
        raise ForeignReference(
            f"{FOREIGN}{shown(ref)} leads into the module {shown(module_name)}. To run it, give the scheduler "
            f"allowed_modules=[{shown(module_name)}]",
            field="ref",
            value=ref,
        )

    def _may_lead_into(self, module_name: str) -> bool:
        if self.allowed == (ANY_MODULE,) or self.program.owns(module_name):
            return True
        return any(module_name == one or module_name.startswith(f"{one}.") for one in self.allowed)


def _home_of(found: Any) -> str | None:
    """Return the module that a function was defined in; None for one that was made on the spot, as decorators do."""
    while isinstance(found, partial):
        found = found.func
    if "<locals>" in getattr(found, "__qualname__", ""):
        return None
    home = getattr(found, "__module__", None)
    return home if isinstance(home, str) else type(getattr(found, "__self__", found)).__module__


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _has(module: ModuleType, path: str) -> bool:
    return path.partition(".")[0] in vars(module)


def _nobody_waits() -> None:
    """Be the default of :attr:`Resolver.when_loaded`."""
