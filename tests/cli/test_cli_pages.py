"""The pages about the command line tell of every command and option there is, and of no other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from goscheduler.cli.app import app

HOW_TO = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to"
COMMAND_LINE = (HOW_TO / "command-line.md").read_text(encoding="utf-8")
WORKER = (HOW_TO / "worker.md").read_text(encoding="utf-8")
MOVE = (HOW_TO / "move-from-apscheduler.md").read_text(encoding="utf-8")
WEB = (HOW_TO / "web.md").read_text(encoding="utf-8")
BACKFILL = (HOW_TO / "backfill.md").read_text(encoding="utf-8")
CALENDARS = (HOW_TO / "calendars.md").read_text(encoding="utf-8")
PAGES_OF_THEIR_OWN = {
    "goscheduler worker": WORKER, "goscheduler import-apscheduler": MOVE, "goscheduler web": COMMAND_LINE + WEB,
    "goscheduler token add": COMMAND_LINE + WEB, "goscheduler token list": COMMAND_LINE + WEB,
    "goscheduler token revoke": COMMAND_LINE + WEB, "goscheduler jobs backfill": COMMAND_LINE + BACKFILL,
    "goscheduler blackouts add": COMMAND_LINE + CALENDARS, "goscheduler import-ics": COMMAND_LINE + CALENDARS,
}  # fmt: skip


def commands(group: Any, path: str = "goscheduler") -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it."""
    for name, command in group.commands.items():
        if getattr(command, "invoke_without_command", False):
            yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


ALL = dict(commands(typer.main.get_command(app)))


def test_the_table_of_commands_has_every_command_and_no_other() -> None:
    listed = re.findall(r"^\| `(goscheduler [a-z -]+)` \|", COMMAND_LINE, re.MULTILINE)
    assert sorted(listed) == sorted(ALL)


@pytest.mark.parametrize("path", ALL)
def test_the_page_names_every_option_of_the_command(path: str) -> None:
    page = PAGES_OF_THEIR_OWN.get(path, COMMAND_LINE)
    options = {name for parameter in ALL[path].params for name in parameter.opts if name.startswith("-")}
    assert {name for name in options - {"--help"} if f"`{name}" not in page} == set()


def test_the_page_about_the_worker_names_the_variables_of_the_options() -> None:
    variables = {str(parameter.envvar) for parameter in ALL["goscheduler worker"].params if parameter.envvar}
    assert variables == {"GOSCHEDULER_APP", "CONCURRENCY", "POLL_INTERVAL", "QUEUES"}
    assert {name for name in variables if f"`{name}`" not in WORKER} == set()


def test_the_page_shows_what_is_printed(invoke: Callable[..., Any]) -> None:
    shown = re.findall(r"^```sh\n(goscheduler next [^\n]*)\n```\n\n```text\n(.*?)^```$", COMMAND_LINE, re.M | re.S)
    assert shown
    for command, printed in shown:
        assert invoke(*shlex.split(command)[1:]).stdout == printed
