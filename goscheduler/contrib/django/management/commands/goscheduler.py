"""``manage.py goscheduler``: the command line of goscheduler, on the scheduler and the store of this project."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from goscheduler.cli import MISSING
from goscheduler.cli._session import APP_VARIABLE, STORE_VARIABLE
from goscheduler.contrib.django._database import store_url
from goscheduler.contrib.django._settings import project_settings

#: Where the command line finds the scheduler of the project.
WORKER = "goscheduler.contrib.django.worker:project_scheduler"
RELOAD = "--reload"


class Command(BaseCommand):  # type: ignore[misc]
    help = "Run the worker of this project, look at its jobs and runs, and act on them."
    requires_system_checks = ()

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("args", nargs=argparse.REMAINDER, metavar="command", help="Such as worker, or jobs list.")

    def run_from_argv(self, argv: list[str]) -> None:
        """Leave the arguments to the command line of goscheduler, but for those of Django itself."""
        django = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for option in ("--settings", "--pythonpath"):
            django.add_argument(option)
        _, rest = django.parse_known_args(argv[2:])
        try:
            self.handle(*rest)
        except (ImproperlyConfigured, CommandError) as error:
            self.stderr.write(f"Error: {error}")
            sys.exit(2)

    def handle(self, *args: str, **_: Any) -> None:
        """Call one command; it ends the process with its exit code if that is not 0."""
        arguments = list(args)
        if arguments[:1] == ["worker"]:
            self.check()
            if RELOAD in arguments:
                from goscheduler.contrib.django.worker import run_with_reloader

                arguments.remove(RELOAD)
                run_with_reloader(lambda: run_command_line(arguments))
                return
        run_command_line(arguments)


def run_command_line(arguments: Sequence[str]) -> None:
    """Run a command on the store and the scheduler of this project."""
    try:
        from goscheduler.cli.app import app_with
    except ModuleNotFoundError as error:
        raise CommandError(MISSING) from error
    url = _url()
    os.environ[APP_VARIABLE] = WORKER
    if url is not None:
        os.environ[STORE_VARIABLE] = url
    given = _with_url(arguments, url)
    try:
        app_with(given)(given, prog_name="manage.py goscheduler")
    except SystemExit as end:
        if end.code:
            raise


def _url() -> str | None:
    """Return the URL of the store, by which commands look in from outside; None if it has none."""
    read = project_settings()
    if read.alias is not None:
        return store_url(read.alias)
    return read.store if isinstance(read.store, str) and "://" in read.store else None


def _with_url(arguments: Sequence[str], url: str | None) -> list[str]:
    """Return the arguments, with the URL for ``migrate``, which asks for one."""
    given = list(arguments)
    named = any("://" in each for each in given)
    return [*given[:2], url, *given[2:]] if given[:1] == ["migrate"] and len(given) > 1 and url and not named else given
