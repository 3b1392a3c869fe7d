"""Which modules are the program's own code, so that a stored reference may lead into them.

Whoever can write into a job store can write any reference. A reference from a store therefore leads only into code of
the program itself, never into the standard library or an installed package, where something that runs a command can
always be found. The program's own code is:

* ``__main__``
* the modules of a **project**: a folder that holds code which made a scheduler, which was the start of the program, or
  whose functions were given to ``add_job``, ``register`` or ``task``. It reaches up to the nearest folder with a
  ``pyproject.toml``, ``setup.py`` or ``.git``. Installed packages inside of it do not belong to it
* the package that made a scheduler, if that package is installed itself, as an application often is
* a single function, wherever it comes from, that this process gave to ``add_job``

Nothing is imported to find out.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, distributions
from itertools import count
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

MAIN = "__main__"

#: Packages that are never the program's own, wherever they lie: this one, and the one whose records it reads.
_NEVER = frozenset({"goscheduler", "apscheduler"})
#: How many answers are remembered.
_MOST_KNOWN = 4096
#: What the folder at the top of a project has in it.
_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", ".hg")
#: Folders that package managers install into.
_INSTALLED = frozenset({"site-packages", "dist-packages"})
#: Modules of ours that make schedulers for whoever calls them.
_MAKERS = ("goscheduler.schedulers", "goscheduler.observer")


class Program:
    """Knows the code of one process's own program. Threads may share it: each step is one operation on a set."""

    def __init__(self) -> None:
        self._projects: set[str] = set()
        self._packages: set[str] = set()
        self._references: set[str] = set()
        self._owned: dict[str, bool] = {}
        self._editions = count()
        self.edition = 0
        """Another number after the program has turned out to have more code."""
        self.is_target = False
        """Whether the ``goscheduler`` command is loading this program, to start its scheduler itself."""

    @contextmanager
    def as_target(self) -> Iterator[None]:
        """Load the program as the target of a command: applications that start their scheduler leave that out."""
        self.is_target = True
        try:
            yield
        finally:
            self.is_target = False

    def made_scheduler(self, frame: FrameType | None) -> None:
        """Note where a scheduler was made: the caller's code, and all code of projects that led there."""
        modules = list(map(_module_of, _frames(frame)))
        names = [name for name in modules if name.partition(".")[0] not in _NEVER]
        ours = [name for name in names if not _is_stdlib(name)]
        if ours and ours[0] != MAIN and not _is_of_a_command(modules):
            self._add(self._packages, _package_of(ours[0]))
        for name in (*ours, MAIN):
            self.has_code_in(name)

    def has_code_in(self, module_name: str) -> None:
        """Note that a module is part of the program: its project is, unless the module is installed."""
        folder = _start_folder() if module_name == MAIN else _folder_of(module_name)
        if folder is not None and not _is_bundled() and not _is_installed(folder, module_name):
            self._add(self._projects, _project_around(folder))

    def lies_in(self, folder: str) -> None:
        """Note that the program is the project around a folder, although none of its code has been loaded."""
        self._add(self._projects, _project_around(os.path.realpath(folder)))

    def gave(self, ref: str) -> None:
        """Note that the program itself has named a function."""
        if ref not in self._references:
            self._add(self._references, ref)
            self.has_code_in(ref.partition(":")[0])

    def named(self, ref: str) -> bool:
        """Tell whether the program itself has named this function."""
        return ref in self._references

    def owns(self, module_name: str) -> bool:
        """Tell whether a module is the program's own code."""
        owned = self._owned.get(module_name)
        if owned is None:
            if len(self._owned) >= _MOST_KNOWN:  # the names come from stores, and may be anything
                self._owned = {}
            owned = self._owned[module_name] = self._looks_owned(module_name)
        return owned

    def _looks_owned(self, module_name: str) -> bool:
        if module_name == MAIN:
            return True
        if module_name.partition(".")[0] in _NEVER:
            return False
        if any(prefix in self._packages for prefix in _prefixes(module_name)):
            return True
        folder = _folder_of(module_name)
        if folder is None or _is_installed(folder, module_name):
            return False
        return any(_is_within(folder, project) for project in self._projects)

    def _add(self, known: set[str], value: str) -> None:
        if value not in known:
            known.add(value)
            self._owned = {}
            self.edition = next(self._editions) + 1


def _is_of_a_command(modules: Iterable[str]) -> bool:
    """Tell whether a command of ours has made a scheduler for itself: what called the command is not the program."""
    maker = next((name for name in modules if not name.startswith(_MAKERS)), "")
    return maker.startswith("goscheduler.cli")


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module_of(frame: FrameType) -> str:
    """Return the name under which a frame's module is imported; of a module run with ``-m`` the real one."""
    name = frame.f_globals.get("__name__")
    spec = frame.f_globals.get("__spec__")
    if name == MAIN and isinstance(spec, ModuleSpec):
        return spec.name
    return name if isinstance(name, str) else MAIN


def _package_of(module_name: str) -> str:
    """Return the package that a module belongs to; below a namespace package, which belongs to many, the next one."""
    for prefix in _prefixes(module_name):
        module = sys.modules.get(prefix)
        if module is None or getattr(module, "__file__", None) is not None:
            return prefix
    return module_name


def _prefixes(module_name: str) -> Iterator[str]:
    parts = module_name.split(".")
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])


def _folder_of(module_name: str) -> str | None:
    """Return the folder that the top of a module's package lies in; None if it lies in none, or cannot be found."""
    places: list[str] | None = None
    for prefix in _prefixes(module_name):
        spec = _spec_of(prefix, places)
        if spec is None:
            return None
        if spec.has_location and spec.origin is not None:
            origin = Path(os.path.realpath(spec.origin))
            return str(origin.parent.parent if spec.submodule_search_locations is not None else origin.parent)
        places = list(spec.submodule_search_locations or ())  # a namespace package: look into it
        if not places:
            return None
    return None


def _spec_of(name: str, places: list[str] | None) -> ModuleSpec | None:
    module = sys.modules.get(name)
    if isinstance(module, ModuleType) and isinstance(module.__spec__, ModuleSpec):
        return module.__spec__
    if places is None and name in sys.builtin_module_names:
        return None
    if places is not None:
        return PathFinder.find_spec(name, places)
    # Every finder is asked: an editable install may have one of its own.
    specs = (_asked(finder, name) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in specs if spec is not None), None)


def _asked(finder: Any, name: str) -> ModuleSpec | None:
    try:
        spec = finder.find_spec(name, None)
    except Exception:  # finders of others choke on names that no module can have; such a name leads nowhere
        return None
    return spec if isinstance(spec, ModuleSpec) else None


def _start_folder() -> str | None:
    """Return the folder of the program's start; that of a console is where it was started."""
    main = sys.modules.get(MAIN)
    spec = getattr(main, "__spec__", None)
    if isinstance(spec, ModuleSpec):
        return _folder_of(spec.name)
    file = getattr(main, "__file__", None)
    if isinstance(file, str):
        return str(Path(os.path.realpath(file)).parent)
    return os.getcwd() if "" in sys.path else None


def _project_around(folder: str) -> str:
    """Return the top of the project that a folder is in, or the folder itself if nothing marks one."""
    home = os.path.realpath(Path.home()) if "HOME" in os.environ or os.name == "nt" else None
    for place in (Path(folder), *Path(folder).parents):
        if str(place) == home or place == place.parent:
            break
        if any((place / mark).exists() for mark in _MARKS):
            return str(place)
    return folder


def _is_stdlib(module_name: str) -> bool:
    """Tell whether a module that is loaded comes with Python; one of the same name elsewhere does not."""
    root = module_name.partition(".")[0]
    if root not in sys.stdlib_module_names or root == MAIN:
        return False
    folder = _folder_of(root)
    return folder is None or _is_bundled() or any(_is_within(folder, place) for place in _python_folders())


def _is_installed(folder: str, module_name: str) -> bool:
    """Tell whether a module was installed, or comes with Python, by the folder that its package lies in."""
    if not _INSTALLED.isdisjoint(Path(folder).parts):
        return True
    if any(_is_within(folder, place) for place in _python_folders()):
        return True
    return module_name.partition(".")[0] in _installed_beside(folder)


@lru_cache(maxsize=1)
def _python_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    return tuple({os.path.realpath(path) for name in names if (path := sysconfig.get_path(name))})


@lru_cache(maxsize=256)
def _installed_beside(folder: str) -> frozenset[str]:
    """Return the names at the top of the packages that were installed into a folder, as ``pip --target`` does."""
    found: set[str] = set()
    for distribution in distributions(path=[folder]):
        found.update(_top_names(distribution))
    return frozenset(found)


def _top_names(distribution: Distribution) -> Iterator[str]:
    """Yield what a distribution has installed. One that is merely developed in this folder has no record of it."""
    if distribution.read_text("RECORD") is None:
        return
    for file in distribution.files or ():
        yield file.parts[0].partition(".")[0]


def _is_within(folder: str, place: str) -> bool:
    return folder == place or folder.startswith(place.rstrip(os.sep) + os.sep)


def _is_bundled() -> bool:
    """Tell whether the program was made into one file, where all modules seem to lie in the same folder."""
    return bool(getattr(sys, "frozen", False))


#: What is known of the program that this process runs.
PROGRAM = Program()
