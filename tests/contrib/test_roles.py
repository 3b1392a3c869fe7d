"""What a process of a web application does with its scheduler."""

from __future__ import annotations

import pytest

from goscheduler.contrib._roles import Place, check_role, count_workers, decide, problem_with_workers
from goscheduler.errors import InvalidArgument


@pytest.mark.parametrize(
    ("wanted", "place", "shared", "role", "reason", "problem"),
    [
        ("run", Place(), False, "run", "", False),
        ("add", Place(), True, "add", "", False),
        ("off", Place(), True, "off", "its role is 'off'", False),
        ("run", Place(command="run"), True, "run", "", False),
        ("run", Place(command="runserver"), True, "run", "", False),
        ("run", Place(command="upgrade"), True, "add", "this is the command 'upgrade', which runs no jobs", False),
        ("run", Place(command="upgrade"), False, "off", "its job store is not shared", False),
        ("run", Place(command="run", watches=True), True, "off", "watches files for a reloader", False),
        ("add", Place(command="run", watches=True), True, "off", "watches files for a reloader", False),
        ("run", Place(forks="gunicorn", hooked=True), True, "off", "it starts in each of them", False),
        ("run", Place(forks="gunicorn"), True, "add", "put into gunicorn.conf.py: from goscheduler.contrib", True),
        ("run", Place(forks="gunicorn"), False, "off", "put into gunicorn.conf.py: from goscheduler.contrib", True),
        ("run", Place(forks="uwsgi", hooked=False), False, "off", "run it with --lazy-apps", True),
        ("add", Place(forks="gunicorn", hooked=True), True, "add", "", False),
        ("run", Place(is_target=True), True, "off", "the goscheduler command has loaded this program", False),
    ],
)
def test_the_role_follows_from_what_is_seen(wanted, place, shared, role, reason, problem):
    decision = decide(wanted, place, shared)
    assert (decision.role, decision.problem) == (role, problem)
    assert reason in decision.reason
    assert bool(reason) is bool(decision.reason)


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("rum", "role must be 'run', 'add' or 'off', got 'rum'; did you mean 'run'?"),
        ("worker", "role must be 'run', 'add' or 'off', got 'worker'"),
        (True, "role must be 'run', 'add' or 'off', got True"),
        (None, "role must be 'run', 'add' or 'off', got None"),
    ],
)
def test_a_role_that_is_none_is_refused_with_what_was_probably_meant(role, text):
    with pytest.raises(InvalidArgument) as refused:
        check_role(role)
    assert str(refused.value) == text


@pytest.mark.parametrize(
    ("argv", "environ", "workers"),
    [
        (["gunicorn", "-w", "4", "app:app"], {}, 4),
        (["gunicorn", "-w4", "app:app"], {"WEB_CONCURRENCY": "9"}, 4),
        (["uvicorn", "app:app", "--workers", "3"], {}, 3),
        (["uvicorn", "--workers=3"], {}, 3),
        (["gunicorn", "app:app"], {"WEB_CONCURRENCY": "2"}, 2),
        (["gunicorn", "--worker-class", "gevent"], {"WEB_CONCURRENCY": "many"}, 1),
        (["gunicorn", "-w"], {}, 1),
        ([], {}, 1),
    ],
)
def test_the_number_of_workers_is_what_the_server_was_asked_for(argv, environ, workers):
    assert count_workers(argv, environ) == workers


def test_several_processes_that_run_jobs_of_the_memory_of_each_are_a_problem():
    assert "2 processes serve, and each of them runs every job" in problem_with_workers(Place(workers=2), shared=False)
    assert problem_with_workers(Place(workers=2), shared=True) == problem_with_workers(Place(), shared=False) == ""
