"""Type checkers see which arguments a call takes, and what it returns."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from goscheduler import (
    AndTrigger,
    CalendarIntervalTrigger,
    CronTrigger,
    DateTrigger,
    IntervalTrigger,
    RRuleTrigger,
    typing,
)
from goscheduler.job import Job
from goscheduler.options import OPTION_NAMES
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.triggers.after import AfterTrigger

ROOT = Path(__file__).resolve().parent.parent.parent
CALLS = Path(__file__).parent / "user_calls.py"
MARKED = {number for number, line in enumerate(CALLS.read_text("utf-8").splitlines(), 1) if line.endswith("# error")}


@pytest.mark.serial
def test_mypy_refuses_what_makes_no_sense_and_nothing_else() -> None:
    pytest.importorskip("mypy")
    said = checked("-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(CALLS))
    found = re.findall(r"^(?:.*[\\/])?([^\\/]+)\.py:(\d+): error:", said, re.MULTILINE)
    assert {int(line) for name, line in found if name == CALLS.stem} == MARKED, said
    assert {name for name, _ in found} == {CALLS.stem}, said


@pytest.mark.serial
def test_pyright_refuses_what_makes_no_sense_and_nothing_else() -> None:
    pytest.importorskip("pyright")
    said = checked("-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(CALLS))
    if not said.lstrip().startswith("{"):
        pytest.skip("pyright is fetched by npm at its first start, and that does not work here")
    errors = json.loads(said)["generalDiagnostics"]
    assert {error["range"]["start"]["line"] + 1 for error in errors if error["severity"] == "error"} == MARKED, said


def checked(*command: str) -> str:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True).stdout


def keys(arguments: type) -> set[str]:
    return set(arguments.__annotations__)


def test_the_types_of_jobs_have_every_argument_of_add_job_and_modify_job() -> None:
    add_job = set(inspect.signature(BaseScheduler.add_job).parameters) - {"self", "func", "trigger", "trigger_args"}
    assert keys(typing.JobArgs) == add_job
    assert keys(typing.OptionArgs) == set(OPTION_NAMES)
    in_job = {"func", "trigger", *inspect.signature(Job).parameters} - {"scheduler", "id", "others"}
    assert keys(typing.JobChanges) == in_job | {"next_run_time"} | set(OPTION_NAMES)


@pytest.mark.parametrize(
    ("trigger", "arguments"),
    [
        (CronTrigger, typing.CronArgs),
        (IntervalTrigger, typing.IntervalArgs),
        (DateTrigger, typing.DateArgs),
        (CalendarIntervalTrigger, typing.CalendarIntervalArgs),
        (RRuleTrigger, typing.RRuleArgs),
        (AndTrigger, typing.CombiningArgs),
        (AfterTrigger, typing.AfterArgs),
    ],
)
def test_the_types_of_triggers_have_every_argument_of_the_trigger(trigger: type, arguments: type) -> None:
    assert keys(arguments) - keys(typing.CalendarArgs) == set(inspect.signature(trigger).parameters)
