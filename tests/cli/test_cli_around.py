"""What is around the jobs: one page of a list, edits, why, forecast, doctor, limits, audit, watching."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goscheduler import BackgroundScheduler, Limit
from goscheduler.events import EVENT_JOB_EXECUTED
from goscheduler.observer import Observer


def work(number: int) -> None:
    """Do nothing."""


@pytest.fixture
def ask(invoke: Callable[..., Any], url: str) -> Callable[..., Any]:
    """Run a command on the store."""

    def run(*arguments: str) -> Any:
        return invoke(*arguments, "--store", url)

    return run


@pytest.fixture
def told(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Run a command on the store, and return what it answers in JSON."""

    def run(*arguments: str) -> Any:
        result = ask(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (("--tag", "reports"), ["job-4", "job-5"]),
        (("--text", "JOB-2"), ["job-2"]),
        (("--state", "paused"), ["job-1"]),
        (("--executor", "nix"), []),
        (("--due-before", "150m", "--tag", "billing"), ["job-0"]),
        (("--sort", "id", "--limit", "2"), ["job-0", "job-1"]),
        (("--last-outcome", "failed"), []),
    ],
)
def test_jobs_are_filtered(ask: Callable[..., Any], told: Callable[..., Any], filters: Any, ids: list[str]) -> None:
    ask("jobs", "pause", "job-1")
    assert [job["id"] for job in told("jobs", "list", *filters)] == ids


def test_jobs_are_filtered_by_their_task(told: Callable[..., Any]) -> None:
    task = told("jobs", "list")[0]["task"]
    assert told("jobs", "count", "--task", task)["number"] == 6
    assert told("jobs", "count", "--task", "nix")["number"] == 0


def test_pages_follow_one_another_by_the_cursor_that_is_told(ask: Callable[..., Any], told: Callable[..., Any]) -> None:
    result = ask("jobs", "list", "--limit", "4")
    cursor = result.stderr.removeprefix("More: --after ").strip()
    assert told("jobs", "list", "--limit", "4")[-1]["cursor"] == cursor
    rest = told("jobs", "list", "--limit", "4", "--after", cursor)
    assert ([job["id"] for job in rest], rest[-1]["cursor"]) == (["job-4", "job-5"], None)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("jobs", "list", "--state", "nix"), "state"),
        (("jobs", "list", "--sort", "nix"), "sort"),
        (("jobs", "list", "--due-before", "someday"), "due_before"),
        (("jobs", "list", "--after", "???"), "after"),
        (("jobs", "count", "--last-outcome", "fine"), "last_outcome"),
        (("jobs", "edit", "job-0", "--set", "priority=high"), "priority"),
        (("jobs", "edit", "job-0", "--set", "func=os:system"), "func"),
        (("jobs", "edit", "job-0", "--set", "priority"), "--set"),
        (("why", "job-0", "--at", "someday"), "at"),
        (("forecast", "--hours", "0"), "hours"),
        (("forecast", "--tz", "Mars/Phobos"), "Mars/Phobos"),
        (("runs", "list", "--outcome", "fine"), "outcome"),
        (("dead", "redrive", "--all", "--rate", "fast"), "--rate"),
        (("audit", "--limit", "0"), "limit"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name_with_exit_code_2(
    ask: Callable[..., Any], arguments: tuple[str, ...], field: str
) -> None:
    result = ask(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert field in result.stderr
    assert "Traceback" not in result.stderr


def test_a_job_is_edited_and_what_differs_is_shown(ask: Callable[..., Any], told: Callable[..., Any]) -> None:
    changes = ("--set", "priority=2", "--set", "name=first", "--set", "trigger=every 5m", "--set", 'tags=["a", "b"]')
    dry = ask("jobs", "edit", "job-0", *changes, "--dry-run")
    assert 'name: "' in dry.stdout
    assert "priority: 5 → 2\n" in dry.stdout
    assert dry.stderr == "Nothing is changed: --dry-run\n"
    before = told("jobs", "show", "job-0")
    assert before["priority"] == 5
    done = ask("jobs", "edit", "job-0", *changes, "--expect", before["etag"])
    assert done.stdout.endswith("Job job-0 is changed.\n")
    after = told("jobs", "show", "job-0")
    assert (after["priority"], after["name"], after["tags"]) == (2, "first", ["a", "b"])
    assert after["trigger"] == "interval[0:05:00]"
    late = ask("jobs", "edit", "job-0", *changes, "--expect", before["etag"])
    assert (late.exit_code, late.stdout) == (1, "")
    assert "not as it was seen" in late.stderr
    assert ask("jobs", "edit", "job-0", "--set", "priority=2").stdout == "Job job-0 is as it is to be already.\n"


def test_a_job_is_shown_with_its_runs_and_what_did_not_run(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/shown.db"
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start()
    scheduler.add_job(
        work, "interval", hours=1, id="full", args=[1], kwargs={}, metadata={"team": "blue"}, timeout=90,
        limits=[Limit("api", concurrency=2, rate="5/1m")], retry=3, dead_letter=True, description="all of it",
    )  # fmt: skip
    ended = threading.Event()
    scheduler.add_listener(lambda _: ended.set(), EVENT_JOB_EXECUTED)
    scheduler.run_now("full")
    ended.wait()
    scheduler.shutdown()
    shown = invoke("jobs", "show", "full", "--store", url).stdout
    for line in (
        "description         all of it", "args                [1]", 'metadata            {"team": "blue"}',
        "timeout             1.5 min", "limits              api: 2 at once, 5/1m",
        "dead letter         yes: a run whose last attempt fails is kept", "last runs",
    ):  # fmt: skip
        assert line in shown.splitlines(), shown
    assert "succeeded" in shown
    facts = json.loads(invoke("jobs", "show", "full", "--json", "--store", url).stdout)
    assert [run["outcome"] for run in facts["last_runs"]] == ["succeeded"]


def test_why_a_job_is_not_running_is_said(ask: Callable[..., Any], told: Callable[..., Any]) -> None:
    assert ask("why", "job-0").stdout.startswith("It is not due until ")
    ask("jobs", "pause", "job-0", "--reason", "migration")
    assert told("why", "job-0")["sentence"].endswith("migration.")
    assert ask("why", "nix").exit_code == 1


def test_a_forecast_is_a_line_with_a_bar_for_each_hour_and_a_total(
    ask: Callable[..., Any], told: Callable[..., Any]
) -> None:
    lines = ask("forecast", "--hours", "3", "--tz", "Europe/Berlin").stdout.splitlines()
    assert len(lines) == 4
    assert all("CE" in line for line in lines[:3])
    assert {line.count("█") > 0 for line in lines[:3]} == {"default" in line for line in lines[:3]}
    firings = sum(bucket["firings"] for bucket in told("forecast", "--hours", "3")["buckets"])
    assert lines[3].startswith(f"{firings} firings of ")


def test_a_doctor_that_finds_a_problem_is_exit_code_1(ask: Callable[..., Any], url: str) -> None:
    sick = ask("doctor")
    assert sick.exit_code == 1
    assert "problem" in sick.stdout
    assert "no process fires the jobs of this store" in sick.stdout
    with Observer(url) as observer:
        observer.remove_all_jobs()
    assert ask("doctor").exit_code == 0


def test_a_warning_of_the_doctor_is_exit_code_1_where_it_is_strict(tmp_path: Path, invoke: Callable[..., Any]) -> None:
    url = f"sqlite:///{tmp_path}/late.db"
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start(paused=True)
    scheduler.add_job(work, "interval", hours=1, id="late", args=[1], next_run_time="2020-01-01")
    try:
        shown = invoke("doctor", "--store", url)
        strict = invoke("doctor", "--strict", "--store", url)
    finally:
        scheduler.shutdown()
    assert "job 'late' has been due for " in shown.stdout
    assert (shown.exit_code, strict.exit_code) == (0, 1)


def test_what_was_done_stands_in_the_audit(ask: Callable[..., Any], told: Callable[..., Any]) -> None:
    ask("jobs", "pause", "job-0", "--reason", "migration")
    ask("jobs", "remove", "nix")
    failed, done = told("audit")["items"]
    assert (failed["operation"], failed["status"]) == ("remove_jobs", "failed")
    assert (done["operation"], done["status"], done["reason"]) == ("pause_jobs", "done", "migration")
    assert done["via"] == "cli"
    assert "@" in done["actor"]
    assert 'ids=["job-0"]' in ask("audit").stdout
    assert told("audit", "--limit", "1")["next"] == failed["id"]


def test_where_there_is_nothing_it_is_said_on_stderr(invoke: Callable[..., Any], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    assert invoke("migrate", "up", url).exit_code == 0
    store = ("--store", url)
    for command in (("workers",), ("limits",), ("audit",), ("bulk", "list"), ("dead", "groups"), ("runs", "live")):
        result = invoke(*command, *store)
        assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (0, "", 1), command
    assert invoke("workers", "drain", "nix", *store).exit_code == 1
    assert invoke("bulk", "show", "nix", *store).exit_code == 1


@pytest.mark.serial
@pytest.mark.parametrize("command", [("jobs", "list"), ("workers",), ("runs", "live"), ("limits",)])
def test_a_list_is_shown_again_and_again_until_control_c(
    process: Callable[..., Any], url: str, command: tuple[str, ...]
) -> None:
    expected = {"jobs": "job-0", "workers": "No process", "runs": "No runs", "limits": "No limit"}[command[0]]
    watching = process(*command, "--watch", "--store", url)
    watching.wait_for(expected)
    watching.wait_for(expected)
    watching.send(signal.SIGINT)
    assert watching.end() == 0
    assert "Traceback" not in watching.output
