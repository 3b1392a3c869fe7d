"""``module:scheduler`` is found, and what is wrong with it is told in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goscheduler.cli._command_error import CommandError
from goscheduler.cli._target import find_scheduler
from goscheduler.schedulers.base import BaseScheduler

SOURCE = """
from goscheduler import BackgroundScheduler

scheduler = BackgroundScheduler()
other = BackgroundScheduler()
number = 3

class Holder:
    inner = BackgroundScheduler()

def create():
    return other

def broken():
    raise OSError("no database")

def wrong():
    return "text"

async def late():
    return scheduler
"""


def test_a_scheduler_is_found_by_its_name_in_the_current_directory(module: Callable[[str], str]) -> None:
    assert isinstance(find_scheduler(f"{module(SOURCE)}:scheduler"), BaseScheduler)


def test_a_scheduler_is_found_inside_of_an_object(module: Callable[[str], str]) -> None:
    assert isinstance(find_scheduler(f"{module(SOURCE)}:Holder.inner"), BaseScheduler)


def test_a_function_is_called_for_its_scheduler(module: Callable[[str], str]) -> None:
    name = module(SOURCE)
    assert find_scheduler(f"{name}:create") is find_scheduler(f"{name}:other")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("nix", "its schedulers are: other, scheduler"),
        ("number", "neither a scheduler nor a function"),
        ("broken", "failed: OSError: no database"),
        ("wrong", "returned 'text', expected a scheduler"),
        ("late", "coroutine function"),
    ],
)
def test_what_is_no_scheduler_is_refused(module: Callable[[str], str], path: str, told: str) -> None:
    with pytest.raises(CommandError, match=told) as refused:
        find_scheduler(f"{module(SOURCE)}:{path}")
    assert refused.value.code == 2


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (None, "which scheduler"),
        ("", "which scheduler"),
        ("app", "expected module:scheduler"),
        (":scheduler", "expected module:scheduler"),
        ("app:", "expected module:scheduler"),
        ("app/jobs.py:scheduler", "write 'app.jobs:scheduler'"),
        ("./jobs.py:scheduler", "write 'jobs:scheduler'"),
        ("no_such_module:scheduler", "there is no module 'no_such_module' in "),
        ("os.nix:scheduler", "there is no module 'os.nix'"),
        ("\x1b[2J:x", "no module"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(module: Callable[[str], str], target: str | None, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        find_scheduler(target)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import nothing_like_it", "cannot be imported: ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("raise SystemExit(7)", "cannot be imported: SystemExit: 7"),
        ("def f(:", "cannot be imported: SyntaxError"),
    ],
)
def test_a_module_that_fails_is_told_in_one_line(
    module: Callable[[str], str], invoke: Callable[..., Any], source: str, told: str
) -> None:
    result = invoke("jobs", "list", "--app", f"{module(source)}:scheduler")
    assert result.exit_code == 2
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_traceback_of_a_failing_module_is_shown_on_request(
    module: Callable[[str], str], invoke: Callable[..., Any]
) -> None:
    result = invoke("jobs", "list", "--debug", "--app", f"{module('1 / 0')}:scheduler")
    assert result.exit_code == 2
    assert "ZeroDivisionError" in result.stderr
    assert "Traceback" in result.stderr


def test_a_module_that_starts_its_scheduler_is_told_how_not_to(module: Callable[[str], str], tmp_path: Path) -> None:
    name = module(f"{SOURCE}\nscheduler.start()\n")
    with pytest.raises(CommandError, match=r'runs already.*if __name__ == "__main__":'):
        find_scheduler(f"{name}:scheduler")


FLASK = """
from flask import Flask
from goscheduler.contrib.flask import Scheduler

scheduler, elsewhere, without = Scheduler(), Scheduler(), Scheduler()
app, other, plain = Flask("shop"), Flask("other"), Flask("plain")
other.config["SCHEDULER_ALLOWED_HOSTS"] = ["elsewhere"]
scheduler.init_app(app)
scheduler.start()
elsewhere.init_app(other)

def create_app():
    return app

def create_plain():
    return plain
"""


def test_the_scheduler_of_a_flask_application_is_found_by_itself_by_the_application_and_by_its_factory(
    module: Callable[[str], str],
) -> None:
    name = module(FLASK)
    found = [find_scheduler(f"{name}:{path}") for path in ("scheduler", "app", "create_app", "scheduler.scheduler")]
    assert len(set(found)) == 1
    assert not found[0].running
    for path, text in [
        ("without", "without.for_worker() failed: .*no application yet; name a module that calls create_app"),
        ("elsewhere", "this machine is not among SCHEDULER_ALLOWED_HOSTS"),
        ("create_plain", r"create_plain\(\) returned <Flask 'plain'>, expected a scheduler"),
    ]:
        with pytest.raises(CommandError, match=text.replace("without.for_worker()", r"without.for_worker\(\)")):
            find_scheduler(f"{name}:{path}")
