"""Type checkers see which arguments a call takes, and what it returns."""

from __future__ import annotations

import inspect
import json
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

ROOT = Path(__file__).resolve().parent.parent.parent
CALLS = Path(__file__).parent / "user_calls.py"


@pytest.mark.serial
def test_pyright_refuses_what_makes_no_sense_and_nothing_else() -> None:
    pytest.importorskip("pyright")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(CALLS)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    if not said.lstrip().startswith("{"):
        pytest.skip("pyright is fetched by npm at its first start, and that does not work here")
    found = json.loads(said)
    assert found["summary"]["filesAnalyzed"] == 1
    assert [f"{each['range']['start']['line'] + 1}: {each['message']}" for each in found["generalDiagnostics"]] == []


def test_mypy_checks_the_same_file_with_the_package() -> None:
    assert f"mypy --strict goscheduler {CALLS.relative_to(ROOT)}" in (ROOT / "Makefile").read_text("utf-8")
    assert CALLS.read_text("utf-8").count("# type: ignore\n") > 25


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
    ],
)
def test_the_types_of_triggers_have_every_argument_of_the_trigger(trigger: type, arguments: type) -> None:
    assert keys(arguments) - keys(typing.CalendarArgs) == set(inspect.signature(trigger).parameters)
