"""``goscheduler runs`` and ``goscheduler dead``: what ran, what is live, what failed for good."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from goscheduler.cli._target import find_scheduler
from goscheduler.testing import ManualScheduler

SOURCE = """
from cli_kept import Kept, ManualScheduler

def work():
    return 42

def fail():
    raise ValueError("no [red]luck[/red] \\x1b[2J")

scheduler = ManualScheduler(jobstores={"default": Kept()})
"""


@pytest.fixture
def scheduler(module: Callable[[str], str], kept: None) -> ManualScheduler:
    """A scheduler of which three runs went well and three are dead letters; one run is waiting."""
    name = module(SOURCE)
    found = find_scheduler(f"{name}:scheduler")
    assert isinstance(found, ManualScheduler)
    source = importlib.import_module(name)
    with found:
        found.add_job(source.work, "interval", minutes=1, id="good", tags=["big"])
        found.add_job(source.fail, "interval", minutes=1, id="bad", dead_letter=True)
        found.advance("3m")
        found.run_now("good")
    return found


@pytest.fixture
def ask(invoke: Callable[..., Any], scheduler: ManualScheduler) -> Callable[..., Any]:
    """Run a command on that scheduler and return what it answers in JSON."""
    def run(*arguments: str) -> Any:
        result = invoke(*arguments, "--json", GOSCHEDULER_APP=app_of(scheduler))
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


def app_of(scheduler: ManualScheduler) -> str:
    with scheduler:
        return f"{scheduler.get_jobs()[0].func.__module__}:scheduler"


def test_runs_are_listed_newest_first_with_their_errors_on_one_line(
    invoke: Callable[..., Any], scheduler: ManualScheduler
) -> None:
    result = invoke("runs", "list", GOSCHEDULER_APP=app_of(scheduler))
    header, *rows = result.stdout.splitlines()
    assert header.startswith("finished at")
    assert len(rows) == 6
    assert sum("ValueError: no [red]luck[/red] \\x1b[2J" in row for row in rows) == 3
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ((), 6),
        (("--job", "good"), 3),
        (("--outcome", "failed"), 3),
        (("--outcome", "failed", "--outcome", "succeeded"), 6),
        (("--tag", "big"), 3),
        (("--limit", "2"), 2),
        (("--since", "90s"), 4),
        (("--until", "90s"), 2),
        (("--job", "nix"), 0),
    ],
)
def test_runs_are_filtered(ask: Callable[..., Any], filters: tuple[str, ...], count: int) -> None:
    assert len(ask("runs", "list", *filters)) == count


def test_pages_follow_one_another(ask: Callable[..., Any]) -> None:
    first = ask("runs", "list", "--limit", "4")
    second = ask("runs", "list", "--limit", "4", "--before", first[-1]["cursor"])
    assert [len(first), len(second)] == [4, 2]
    assert not {record["cursor"] for record in first} & {record["cursor"] for record in second}


def test_a_full_page_says_how_to_go_on(invoke: Callable[..., Any], scheduler: ManualScheduler) -> None:
    result = invoke("runs", "list", "--limit", "1", GOSCHEDULER_APP=app_of(scheduler))
    assert "--before " in result.stderr


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (("--outcome", "fine"), "outcome"),
        (("--since", "someday"), "since"),
        (("--before", "???"), "before"),
        (("--limit", "0"), "limit"),
    ],
)
def test_filters_that_make_no_sense_are_refused_by_name(
    invoke: Callable[..., Any], scheduler: ManualScheduler, filters: tuple[str, ...], told: str
) -> None:
    result = invoke("runs", "list", *filters, GOSCHEDULER_APP=app_of(scheduler))
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_run_is_shown_with_its_traceback(
    invoke: Callable[..., Any], ask: Callable[..., Any], scheduler: ManualScheduler
) -> None:
    (run_id, *_) = [record["run_id"] for record in ask("runs", "list", "--job", "bad")]
    (record,) = ask("runs", "show", run_id)
    assert record["error_type"] == "ValueError"
    text = invoke("runs", "show", run_id, GOSCHEDULER_APP=app_of(scheduler)).stdout
    assert "    raise ValueError(" in text
    assert "\x1b" not in text


def test_a_waiting_run_is_listed_shown_and_cancelled(ask: Callable[..., Any]) -> None:
    (waiting,) = ask("runs", "live")
    assert (waiting["job_id"], waiting["state"], waiting["source"]) == ("good", "pending", "manual")
    assert ask("runs", "show", waiting["run_id"])[0]["state"] == "pending"
    told = ask("runs", "cancel", waiting["run_id"])
    assert (told["run_id"], told["cancelled"], told["changed"]) == (waiting["run_id"], True, [waiting["run_id"]])
    assert ask("runs", "live") == []


@pytest.mark.parametrize(
    "command", [("runs", "show"), ("runs", "cancel"), ("dead", "show"), ("dead", "redrive"), ("dead", "discard")]
)
def test_an_unknown_run_is_exit_code_1(
    invoke: Callable[..., Any], scheduler: ManualScheduler, command: tuple[str, str]
) -> None:
    result = invoke(*command, "nix", GOSCHEDULER_APP=app_of(scheduler))
    assert result.exit_code == 1
    assert "nix" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_dead_letters_are_listed_and_shown(
    invoke: Callable[..., Any], ask: Callable[..., Any], scheduler: ManualScheduler
) -> None:
    letters = ask("dead", "list")
    assert [letter["job_id"] for letter in letters] == ["bad"] * 3
    shown = invoke("dead", "show", letters[0]["run_id"], GOSCHEDULER_APP=app_of(scheduler)).stdout
    assert "ValueError: no [red]luck[/red] \\x1b[2J" in shown
    assert len(invoke("dead", "list", GOSCHEDULER_APP=app_of(scheduler)).stdout.splitlines()) == 4


def test_one_dead_letter_is_redriven(ask: Callable[..., Any]) -> None:
    letters = ask("dead", "list")
    assert ask("dead", "redrive", letters[0]["run_id"])["redriven"] == 1
    assert [letter["run_id"] for letter in ask("dead", "list")] == [letter["run_id"] for letter in letters[1:]]


@pytest.mark.parametrize(
    ("filters", "count"), [(("--all",), 3), (("--job", "bad"), 3), (("--job", "good"), 0), (("--since", "90s"), 2)]
)
def test_dead_letters_are_redriven_by_filter(ask: Callable[..., Any], filters: tuple[str, ...], count: int) -> None:
    assert ask("dead", "redrive", *filters)["redriven"] == count
    assert len(ask("dead", "list")) == 3 - count


@pytest.mark.parametrize("arguments", [(), ("some-run", "--all"), ("some-run", "--job", "bad")])
def test_what_to_redrive_must_be_said_in_one_way(
    invoke: Callable[..., Any], scheduler: ManualScheduler, arguments: tuple[str, ...]
) -> None:
    result = invoke("dead", "redrive", *arguments, GOSCHEDULER_APP=app_of(scheduler))
    assert result.exit_code == 2
    assert "--all" in result.stderr


def test_a_dead_letter_is_discarded(ask: Callable[..., Any]) -> None:
    letters = ask("dead", "list")
    ask("dead", "discard", letters[0]["run_id"])
    assert len(ask("dead", "list")) == 2
