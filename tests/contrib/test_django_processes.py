"""Web processes that add and workers that run, each the real program, over one database."""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import warm
from server_process import free_port

pytestmark = pytest.mark.serial
PATIENCE = 90
WORKER = ["manage.py", "goscheduler", "worker"]


def _await(condition: Callable[[], Any], what: str) -> Any:
    """Return what a condition gives when it gives something; it is certain to, so that a minute only detects a hang."""
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        pause.wait(0.1)
    raise AssertionError(f"{what} did not happen")


def _get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE) as answer:
        return json.load(answer)


def _answers(port: int, path: str) -> Any:
    try:
        return _get(port, path)
    except OSError:
        return None


def test_what_two_kinds_of_web_server_add_two_workers_run_once(project: Any) -> None:
    site = project()
    assert site.manage("migrate", "-v", "0").returncode == 0
    ports = free_port(), free_port()
    gunicorn = site.start(
        "-m", "gunicorn", "--workers", "2", "--preload", "--bind", f"127.0.0.1:{ports[0]}",
        "django.core.wsgi:get_wsgi_application()", stdout=warm.DEVNULL, stderr=warm.DEVNULL,
    )  # fmt: skip
    runserver = site.start(
        "manage.py", "runserver", "--noreload", str(ports[1]), stdout=warm.DEVNULL, stderr=warm.DEVNULL
    )
    first = [_await(lambda port=port: _answers(port, f"order/{port}"), "a first answer") for port in ports]
    answers = [*first, *(_get(ports[number % 2], f"order/{number}") for number in range(20))]
    assert {name for answer in answers for name in answer["threads"]} == set()
    assert {answer["declared"] for answer in answers} == {False}  # the worker declares what jobs.py has
    ids = _get(ports[0], "later")["ids"]
    waiting = _get(ports[1], f"result/{ids[0]}")
    assert (waiting["status"], waiting["args"], waiting["kwargs"], waiting["attempts"]) == ("READY", [2], {"b": 3}, 0)

    workers = [site.start(*WORKER, stdout=warm.DEVNULL, stderr=warm.DEVNULL) for _ in range(2)]
    expected = {*(f"bill-{number}" for number in (*range(20), *ports)), "add-2-3"}
    _await(lambda: expected <= {line.split()[1] for line in site.noted()}, "all jobs")
    results = [
        _await(lambda each=each: (found := _get(ports[1], f"result/{each}"))["times"][3] != "None" and found, "an end")
        for each in ids
    ]
    _await(lambda: sum("beat@" in line for line in site.noted()) >= 3, "the third beat")
    for process in (gunicorn, runserver, *workers):
        process.send_signal(signal.SIGTERM)
    assert [process.wait(PATIENCE) for process in (gunicorn, *workers)] == [0, 0, 0]

    done = Counter(line.split()[1] for line in site.noted())
    assert {what: times for what, times in done.items() if times > 1} == {}
    assert {line.split()[0] for line in site.noted()} <= {str(worker.pid) for worker in workers}
    added, greeted, failed = results
    assert (added["status"], added["value"], added["attempts"]) == ("SUCCESSFUL", {"sum": 5}, 1)
    assert greeted["value"].startswith(f"hello Ada, attempt 1 of {ids[1]} ")
    assert len(greeted["value"]) > 2000
    assert (greeted["queue"], greeted["priority"], greeted["task"]) == ("mail", 50, "shop.errands.greet")
    assert (failed["status"], failed["errors"], failed["attempts"]) == ("FAILED", ["KeyError", "KeyError"], 2)
    assert all(sorted(result["times"]) == result["times"] for result in results)


def test_a_worker_that_watches_its_code_starts_anew_and_ends_with_the_first_signal(project: Any) -> None:
    site = project()
    worker = site.start(*WORKER, "--reload", stdout=warm.DEVNULL, stderr=warm.DEVNULL)
    first = _await(site.noted, "a beat")[0].split()[0]
    code = site.folder / "shop" / "duties.py"
    code.write_text(code.read_text(encoding="utf-8").replace('f"beat@', 'f"changed@'), encoding="utf-8")
    changed = _await(lambda: [line for line in site.noted() if "changed@" in line], "a beat of the new code")
    assert {line.split()[0] for line in changed}.isdisjoint({first, str(worker.pid)})
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
