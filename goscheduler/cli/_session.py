"""What a command works on: the operations, on stores that a URL names or on a scheduler of the user's."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from goscheduler.apscheduler_import.passwords import passwords_hidden
from goscheduler.cli._command_error import FAILED, CommandError, errors_told
from goscheduler.cli._logging import silent_log
from goscheduler.cli._options import Where
from goscheduler.cli._stores import require_store, tell_of_narrow_sight
from goscheduler.errors import shown
from goscheduler.ops.access import Principal, Role
from goscheduler.ops.registry import OPERATIONS
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source
from goscheduler.schedulers.base import BaseScheduler

#: How many seconds a store that does not answer is waited for.
START_TIMEOUT = 5.0
#: So many rows an operation gives at once.
PAGE = 200
APP_VARIABLE, STORE_VARIABLE = "GOSCHEDULER_APP", "GOSCHEDULER_STORE"

_STORE = re.compile(r"(?:(?P<alias>[^=:/?@\s]+)=)?(?P<url>[A-Za-z][A-Za-z0-9+.-]*://.*)", re.DOTALL)

_SQLITE_FILE = re.compile(r"sqlite(?:\+\w+)?:///(?P<path>[^?:]+)(?:\?.*)?")


class Place(NamedTuple):
    """Where to look: into stores by their URLs, or into the scheduler of a module."""

    urls: Mapping[str, str]
    app: str | None
    alias: str | None
    """The job store that is meant; None for all."""


def place_of(app: str | None, stores: Sequence[str]) -> Place:
    """Return what options and environment name; options go before the environment, and URLs there before a module.

    :raises CommandError: if that is nothing, or two things
    """
    urls, aliases = _urls_and_aliases(stores)
    if len(aliases) > 1:
        raise CommandError(f"--store: give one alias, got {', '.join(map(shown, aliases))}")
    alias = aliases[0] if aliases else None
    if urls and app:
        raise CommandError("give --store with a URL or --app, not both")
    if not urls and not app:
        urls, _ = _urls_and_aliases(os.environ.get(STORE_VARIABLE, "").split())
        app = None if urls else os.environ.get(APP_VARIABLE)
    if not urls and not app:
        raise CommandError(
            f"which jobs? Give the URL of their store with --store or in the variable {STORE_VARIABLE}, or a scheduler "
            f"as module:scheduler with --app or in the variable {APP_VARIABLE}"
        )
    return Place(urls, app, alias)


def _urls_and_aliases(stores: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    urls: dict[str, str] = {}
    aliases: list[str] = []
    for given in stores:
        match = _STORE.fullmatch(given)
        if match is None:
            aliases.append(given)
            continue
        alias = match["alias"] or "default"
        if alias in urls:
            raise CommandError(f"--store: several are called {shown(alias)}; name them as alias=URL")
        urls[alias] = match["url"]
    return urls, aliases


class Session:
    """Calls operations as the person at the terminal, who may do everything."""

    def __init__(self, scheduler: BaseScheduler, jobstore: str | None = None) -> None:
        self.scheduler = scheduler
        self._operations = Operations(Source(scheduler))
        self._jobstore = jobstore
        self.principal = Principal(f"{_user()}@{socket.gethostname()}", Role.ADMIN, see_arguments=True)

    def call(self, operation: str, **arguments: Any) -> Any:
        """Return the view of an operation in plain values; an argument that is None is not given."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if self._jobstore is not None and any(param.name == "jobstore" for param in OPERATIONS[operation].params):
            given["jobstore"] = self._jobstore
        return self._operations.call(operation, self.principal, given, via="cli")

    def pages(
        self, operation: str, limit: int, cursor: str, start: str | None = None, **arguments: Any
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return up to ``limit`` rows of an operation that gives pages, and the cursor of what follows.

        ``cursor`` is the argument by which the operation goes on.
        """
        rows: list[dict[str, Any]] = []
        while len(rows) < limit:
            page = self.call(operation, limit=min(PAGE, limit - len(rows)), **{cursor: start}, **arguments)
            rows += page["items"]
            start = page["next"]
            if start is None:
                break
        return rows, start


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no name for the user id, as in some containers
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


@contextmanager
def opened(where: Where, *, read_only: bool = False) -> Iterator[Session]:
    """Give a session, and close it; errors become one line and an exit code."""
    with errors_told(where.debug), ExitStack() as closing:
        place = place_of(where.app, where.store or ())
        if place.urls:
            scheduler = closing.enter_context(_observer(place, where.debug, read_only))
        elif read_only:
            raise CommandError("--read-only goes with the URL of a store, not with --app")
        else:
            from goscheduler.cli._host import found, started  # a module of the user's is imported

            scheduler = closing.enter_context(started(found(place.app), place.alias))
        yield Session(scheduler, place.alias)


def _require_file(url: str) -> None:
    """Refuse the URL of a SQLite file that is not there: opening it would make one, and show that it has no jobs."""
    match = _SQLITE_FILE.fullmatch(url)
    if match is not None and not os.path.exists(match["path"]):
        raise CommandError(f"--store: there is no file {match['path']}", FAILED)


@contextmanager
def _observer(place: Place, debug: bool, read_only: bool) -> Iterator[BaseScheduler]:
    from goscheduler.observer import Observer

    with ExitStack() as closing:
        for url in place.urls.values():
            _require_file(url)
            closing.enter_context(passwords_hidden(url))
        if not debug:
            closing.enter_context(silent_log())
        observer = closing.enter_context(Observer(place.urls, read_only=read_only, start_timeout=START_TIMEOUT))
        require_store(observer.engine.stores, place.alias)
        tell_of_narrow_sight(observer.engine.stores)
        yield observer
