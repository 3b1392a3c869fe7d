"""The entry points, and what they say where Typer and Rich are not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from goscheduler._version import __version__
from goscheduler.cli import MISSING


def test_the_version_is_printed(invoke: Callable[..., Any]) -> None:
    result = invoke("version")
    assert (result.exit_code, result.stdout) == (0, f"{__version__}\n")


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "goscheduler", "version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{__version__}\n"


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from goscheduler.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"{MISSING}\n"
    assert 'pip install "goscheduler[cli]"' in MISSING


@pytest.mark.parametrize("command", ["worker", "jobs", "runs", "dead", "next"])
def test_every_command_has_a_help_page(invoke: Callable[..., Any], command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_an_unknown_command_is_exit_code_2(invoke: Callable[..., Any]) -> None:
    result = invoke("wrok")
    assert result.exit_code == 2
    assert "wrok" in result.stderr
