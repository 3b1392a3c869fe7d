"""``goscheduler jobs``: what is there is listed and changed; what is not there is exit code 1."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm

from goscheduler.cli._target import find_scheduler
from goscheduler.testing import ManualScheduler

HOSTILE = "[red]hourly[/red] \x1b[2J\u202e"

SOURCE = """
from cli_kept import Kept, ManualScheduler

def work(*args, **kwargs):
    return 42

scheduler = ManualScheduler(jobstores={"default": Kept()})
"""


@pytest.fixture
def target(module: Callable[[str], str], kept: None) -> str:
    """A scheduler whose store has two jobs, one of them with a hostile name."""
    name = module(SOURCE)
    find_scheduler(f"{name}:scheduler")
    source = importlib.import_module(name)
    with source.scheduler as scheduler:
        hourly = scheduler.add_job(source.work, "interval", hours=1, id="hourly", args=[1])
        hourly.name = HOSTILE  # add_job refuses it; a record that somebody else wrote may have it
        scheduler.add_job(source.work, "cron", hour=3, id="nightly", tags=["big"], kwargs={"to": "x"})
    return f"{name}:scheduler"


def scheduler_of(target: str) -> ManualScheduler:
    module_name, _, attribute = target.partition(":")
    found: ManualScheduler = getattr(importlib.import_module(module_name), attribute)
    return found


def on_terminal(folder: Path, *arguments: str) -> str:
    """Return what a command shows on a terminal."""
    import pty

    ours, theirs = pty.openpty()
    worker = warm.start(
        "-m", "goscheduler", *arguments, cwd=folder, stdout=theirs, stderr=warm.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    ended = worker.wait()
    os.close(theirs)
    try:
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
    assert ended == 0, shown
    return shown


def jobs_of(target: str) -> dict[str, Any]:
    with scheduler_of(target) as scheduler:
        return {job.id: job for job in scheduler.get_jobs()}


def test_jobs_are_listed_in_aligned_columns_with_times_of_the_local_zone(
    invoke: Callable[..., Any], target: str
) -> None:
    result = invoke("jobs", "list", "--app", target)
    header, *rows = result.stdout.splitlines()
    assert result.exit_code == 0
    assert header.split("  ")[0] == "id"
    assert [row.split()[0] for row in rows] == ["hourly", "nightly"]
    assert {row.index("scheduled") for row in rows} == {header.index("state")}
    assert "cron[hour='3']" in rows[1]
    assert result.stderr == ""


def test_nothing_that_users_wrote_is_a_command_or_markup(invoke: Callable[..., Any], target: str) -> None:
    result = invoke("jobs", "list", "--app", target)
    assert "[red]hourly[/red] \\x1b[2J\\u202e" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout


def test_jobs_are_listed_as_json(invoke: Callable[..., Any], target: str) -> None:
    jobs = json.loads(invoke("jobs", "list", "--json", "--app", target).stdout)
    assert [job["id"] for job in jobs] == ["hourly", "nightly"]
    assert jobs[0]["name"] == HOSTILE
    assert jobs[0]["next_run_time"].endswith("+00:00")
    assert jobs[1]["tags"] == ["big"]
    assert jobs[1]["state"] == "scheduled"


def test_the_scheduler_may_stand_in_the_environment(invoke: Callable[..., Any], target: str) -> None:
    assert invoke("jobs", "list", GOSCHEDULER_APP=target).exit_code == 0


def test_without_a_scheduler_the_command_asks_for_one(invoke: Callable[..., Any], module: object) -> None:
    result = invoke("jobs", "list")
    assert result.exit_code == 2
    assert "GOSCHEDULER_APP" in result.stderr


def test_a_job_is_shown_with_all_that_is_known(invoke: Callable[..., Any], target: str) -> None:
    facts = json.loads(invoke("jobs", "show", "nightly", "--json", "--app", target).stdout)
    assert facts["schedule"] == "at 03:00 every day (UTC)"
    assert facts["kwargs"] == {"to": "x"}
    assert facts["run_count"] == 0
    assert facts["why_not_running"]
    lines = invoke("jobs", "show", "nightly", "--app", target).stdout.splitlines()
    assert any(line.startswith("schedule ") and line.endswith("at 03:00 every day (UTC)") for line in lines)


def test_a_job_is_paused_and_resumed(invoke: Callable[..., Any], target: str) -> None:
    paused = invoke("jobs", "pause", "hourly", "--app", target)
    assert (paused.exit_code, paused.stdout) == (0, "Job hourly is paused.\n")
    assert jobs_of(target)["hourly"].next_run_time is None
    resumed = invoke("jobs", "resume", "hourly", "--json", "--app", target)
    assert json.loads(resumed.stdout)["state"] == "scheduled"
    assert jobs_of(target)["hourly"].next_run_time is not None


def test_the_next_run_is_left_out_or_put_off(invoke: Callable[..., Any], target: str) -> None:
    skipped = json.loads(invoke("jobs", "skip", "hourly", "--json", "--app", target).stdout)
    assert skipped["before"] < skipped["next_run_time"]
    told = invoke("jobs", "postpone", "hourly", "--until", "2090-01-01", "--app", target)
    assert (told.exit_code, "runs next at 2090-01-01" in told.stdout) == (0, True)
    refused = invoke("jobs", "postpone", "hourly", "--until", "2001-01-01", "--app", target)
    assert refused.exit_code == 2
    assert "until" in refused.stderr


def test_a_run_is_asked_for_and_is_waiting_for_a_worker(invoke: Callable[..., Any], target: str) -> None:
    answer = json.loads(invoke("jobs", "run", "nightly", "--json", "--app", target).stdout)
    with scheduler_of(target) as scheduler:
        scheduler.run_due()
        (record,) = scheduler.runs("nightly")
    assert record.run_id == answer["run_id"]
    assert record.source.value == "manual"


def test_a_job_is_removed(invoke: Callable[..., Any], target: str) -> None:
    removed = invoke("jobs", "remove", "hourly", "--app", target)
    assert (removed.exit_code, removed.stdout) == (0, "Job hourly is removed.\n")
    assert set(jobs_of(target)) == {"nightly"}


def test_all_jobs_that_fit_are_paused_by_way_of_a_scheduler_too(invoke: Callable[..., Any], target: str) -> None:
    paused = invoke("jobs", "pause", "--tag", "big", "--yes", "--app", target)
    assert (paused.exit_code, paused.stdout) == (0, "1 job is paused.\n")
    assert [job_id for job_id, job in jobs_of(target).items() if job.next_run_time is None] == ["nightly"]


@pytest.mark.parametrize("command", ["show", "pause", "resume", "run", "remove"])
def test_an_unknown_job_is_exit_code_1(invoke: Callable[..., Any], target: str, command: str) -> None:
    result = invoke("jobs", command, "nix", "--app", target)
    assert result.exit_code == 1
    assert result.stderr == "Error: No job by the id of nix was found\n"
    assert result.stdout == ""


def test_an_unknown_store_is_told(invoke: Callable[..., Any], target: str) -> None:
    result = invoke("jobs", "list", "--store", "nix", "--app", target)
    assert result.exit_code == 2
    assert result.stderr == "Error: --store: there is no job store 'nix'; there are: default\n"


def test_an_empty_store_is_told_on_stderr_and_is_an_empty_list_in_json(
    invoke: Callable[..., Any], module: Callable[[str], str], kept: None
) -> None:
    target = f"{module(SOURCE)}:scheduler"
    result = invoke("jobs", "list", "--app", target)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "There are no jobs.\n")
    assert json.loads(invoke("jobs", "list", "--json", "--app", target).stdout) == []


def test_what_the_module_prints_or_logs_to_stdout_goes_to_stderr(
    invoke: Callable[..., Any], module: Callable[[str], str], kept: None
) -> None:
    logged = "import logging, sys\nlogging.getLogger('goscheduler').addHandler(logging.StreamHandler(sys.stdout))"
    name = module(f"{logged}\nlogging.getLogger('goscheduler').setLevel('INFO')\nprint('loaded')\n{SOURCE}")
    logger = logging.getLogger("goscheduler")
    level, handlers = logger.level, list(logger.handlers)
    try:
        result = invoke("jobs", "list", "--json", "--app", f"{name}:scheduler")
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
    assert json.loads(result.stdout) == []
    assert "loaded\n" in result.stderr
    assert "Scheduler started\n" in result.stderr


def test_looking_does_not_bring_back_a_job_that_the_module_adds(
    invoke: Callable[..., Any], module: Callable[[str], str], kept: None
) -> None:
    name = module(f"{SOURCE}\nscheduler.add_job(work, 'interval', hours=1, id='added')\n")
    assert json.loads(invoke("jobs", "list", "--json", "--app", f"{name}:scheduler").stdout) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.serial
def test_on_a_terminal_jobs_are_a_table_and_markup_in_names_is_text(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "from goscheduler import BackgroundScheduler\nscheduler = BackgroundScheduler()\n"
        "scheduler.add_job(print, 'interval', hours=1, id='one', name='[red]x[/red]')\n",
        encoding="utf-8",
    )
    shown = on_terminal(tmp_path, "jobs", "list", "--app", "jobs:scheduler")
    assert "\x1b[1m" in shown  # a bold header: Rich has seen the terminal
    assert "[red]x[/red]" in shown


@pytest.mark.parametrize("kind", ["BackgroundScheduler", "BlockingScheduler", "AsyncIOScheduler"])
def test_every_kind_of_scheduler_is_opened_without_firing_and_a_memory_store_is_told_of(
    invoke: Callable[..., Any], module: Callable[[str], str], kind: str
) -> None:
    name = module(
        f"import goscheduler\nscheduler = goscheduler.{kind}()\n"
        "def work():\n    raise SystemExit('it was fired')\n"
        "scheduler.add_job(work, 'interval', seconds=1, id='busy', next_run_time='2020-01-01')\n"
    )
    result = invoke("jobs", "list", "--json", "--app", f"{name}:scheduler")
    assert result.exit_code == 0
    assert [job["id"] for job in json.loads(result.stdout)] == ["busy"]
    assert "lives in memory: only the jobs of this process can be seen" in result.stderr
    assert not importlib.import_module(name).scheduler.running


def test_a_store_that_cannot_be_started_is_exit_code_1(
    invoke: Callable[..., Any], module: Callable[[str], str], kept: None
) -> None:
    name = module(
        "from cli_kept import Kept, ManualScheduler\n"
        "class Down(Kept):\n    def start(self, scheduler, alias):\n        raise OSError('connection refused')\n"
        "scheduler = ManualScheduler(jobstores={'default': Down()})\n"
    )
    result = invoke("jobs", "list", "--app", f"{name}:scheduler")
    assert result.exit_code == 1
    assert result.stderr == "Error: the scheduler cannot be used: OSError: connection refused\n"
