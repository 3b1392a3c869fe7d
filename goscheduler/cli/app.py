"""All commands together, and where each of them is found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

import typer

from goscheduler._version import __version__

#: Command → module and what is there: a function, or an application with commands of its own.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "worker": ("worker", "run_worker"),
    "run-one": ("run_one", "run_one"),
    "jobs": ("jobs", "app"),
    "runs": ("runs", "app"),
    "dead": ("dead", "app"),
    "workers": ("workers", "app"),
    "bulk": ("bulk", "app"),
    "blackouts": ("blackouts", "app"),
    "backfills": ("backfills", "app"),
    "why": ("why", "explain_job"),
    "forecast": ("forecast", "show_forecast"),
    "doctor": ("doctor", "examine"),
    "health": ("health", "check_health"),
    "alerts": ("alerts", "app"),
    "limits": ("limits", "list_limits"),
    "audit": ("audit", "list_audit"),
    "grpc": ("grpc", "serve_grpc"),
    "web": ("web", "serve_web"),
    "token": ("token", "app"),
    "telemetry": ("telemetry", "app"),
    "migrate": ("migrate", "app"),
    "next": ("next", "show_next"),
    "import-ics": ("import_ics", "import_ics"),
    "import-apscheduler": ("import_apscheduler", "import_jobs"),
}
#: The variable by which a shell asks what a line may be completed to.
COMPLETION = "_GOSCHEDULER_COMPLETE"


def app_with(arguments: Sequence[str]) -> typer.Typer:
    """Return an application with the command that the arguments name; one with all commands if they name none.

    So a command imports its own module and no other.
    """
    named = arguments[0] if arguments else ""
    if COMPLETION in os.environ or named not in (*COMMANDS, "version"):
        return _made_of(COMMANDS)
    return _made_of([named] if named in COMMANDS else [])


def _made_of(names: Iterable[str]) -> typer.Typer:
    made = typer.Typer(
        help="Run a scheduler of yours, look into job stores, act on jobs, and try out crontab lines.",
        no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    )  # fmt: skip
    made.callback()(_nothing_before_the_command)
    for name in names:
        module, attribute = COMMANDS[name]
        command = getattr(import_module(f"goscheduler.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            made.add_typer(command, name=name)
        else:
            made.command(name)(command)
    made.command("version")(show_version)
    return made


def _nothing_before_the_command() -> None:
    """Make even an application of one command ask for its name."""


def show_version() -> None:
    """Print the version."""
    print(__version__)


def __getattr__(name: str) -> typer.Typer:
    """Make ``app``, with all commands, when it is asked for."""
    if name != "app":
        raise AttributeError(name)
    return _made_of(COMMANDS)
