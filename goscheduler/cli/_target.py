"""Finding the scheduler that ``module:scheduler`` names."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import cast

from goscheduler._program import PROGRAM
from goscheduler.cli._command_error import CommandError, one_line
from goscheduler.errors import shown
from goscheduler.schedulers.base import BaseScheduler

EXAMPLE = "such as myapp.jobs:scheduler"


def find_scheduler(target: str | None) -> BaseScheduler:
    """Return the scheduler, or what the function by this name returns. The current directory can be imported from.

    The scheduler of an application may stand for it, or the application: Flask's and Django's have ``for_worker``.

    :raises CommandError: saying what is wrong with the name, the module or what it holds
    """
    module_name, path = _parts(target)
    with PROGRAM.as_target():
        scheduler = _scheduler_of(_attribute(_module(module_name), path), f"{module_name}:{path}")
    if scheduler.running:
        scheduler.shutdown(wait=False)
        raise CommandError(
            f"{module_name}:{path} runs already: importing {module_name!r} has started it. "
            'Put its start() below: if __name__ == "__main__":'
        )
    return scheduler


def _parts(target: str | None) -> tuple[str, str]:
    if not target:
        raise CommandError(
            f"which scheduler? Give it as module:scheduler, {EXAMPLE}, with --app or in the variable GOSCHEDULER_APP"
        )
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise CommandError(f"expected module:scheduler, {EXAMPLE}, got {shown(target)}")
    if module_name.endswith(".py") or "/" in module_name or "\\" in module_name:
        dotted = module_name.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")
        raise CommandError(f"expected the name of a module, not of a file: write {shown(f'{dotted}:{path}')}")
    return module_name, path


def _module(name: str) -> ModuleType:
    here = import_from_here()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(f"there is no module {error.name!r} in {here} or on the Python path") from error
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:  # a module may do anything while it is imported
        raise _import_failed(name, error) from error


def import_from_here() -> str:
    """Let modules of the current directory be found, and return it."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    return here


def _import_failed(name: str, error: BaseException) -> CommandError:
    return CommandError(f"module {shown(name)} cannot be imported: {one_line(error)} (--debug shows where)")


def _attribute(module: ModuleType, path: str) -> object:
    found: object = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            known = [key for key, value in vars(module).items() if isinstance(value, BaseScheduler)]
            hint = f"; its schedulers are: {', '.join(sorted(known))}" if known else "; it has no scheduler"
            raise CommandError(f"module {module.__name__!r} has no {shown(path)}{hint}") from error
    return found


def _scheduler_of(found: object, name: str) -> BaseScheduler:
    scheduler = _scheduler_in(found, name)
    if scheduler is None:
        made = _made_by(found, name)
        scheduler = _scheduler_in(made, f"{name}()")
        if scheduler is None:
            raise CommandError(f"{name}() returned {shown(made)}, expected a scheduler")
    return scheduler


def _scheduler_in(found: object, name: str) -> BaseScheduler | None:
    """Return a scheduler, or the one of an application, which is known by what it has: none is imported here."""
    if isinstance(found, BaseScheduler):
        return found
    for_worker = getattr(found, "for_worker", None)
    if for_worker is None:  # an application of Flask has extensions
        extensions = getattr(found, "extensions", None)
        owner = extensions.get("goscheduler") if isinstance(extensions, dict) else None
        for_worker = getattr(owner, "for_worker", None)
    return cast(BaseScheduler, _made_by(for_worker, f"{name}.for_worker")) if callable(for_worker) else None


def _made_by(factory: object, name: str) -> object:
    if not callable(factory):
        raise CommandError(f"{name} is neither a scheduler nor a function that returns one, but {shown(factory)}")
    try:
        made = factory()
    except Exception as error:
        raise CommandError(f"{name}() failed: {one_line(error)} (--debug shows where)") from error
    if inspect.iscoroutine(made):
        made.close()
        raise CommandError(f"{name} is a coroutine function; give a plain one that returns the scheduler")
    return made
