"""The entry points, and what they say where Typer and Rich are not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
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


@pytest.mark.parametrize("command", [["version"], ["next", "* * * * *", "-n", "1000"]], ids=["little", "much"])
def test_nothing_is_said_of_a_reader_that_has_gone(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [sys.executable, "-m", "goscheduler", *command]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    os.close(writing)
    assert done.stderr == ""


def test_control_c_during_the_imports_is_exit_code_130_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from goscheduler.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


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
