"""The audit on real stores: several processes write it at once, and one of them is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from operation_doubles import ADMIN, nothing

from goscheduler import BackgroundScheduler
from goscheduler.observer import Observer
from goscheduler.ops.service import Operations
from goscheduler.ops.source import Source

PROGRAM = Path(__file__).parent.parent / "support" / "acting_process.py"
KINDS = ("sqlite", "postgresql", "mariadb", "redis", "mongodb", "etcd", "zookeeper")
NAMES = ("ann", "bob", "cy")
ACTS = 4


@pytest.fixture(params=KINDS)
def url(request, url_of):
    url = url_of(request.param)
    scheduler = BackgroundScheduler(jobstores={"default": url})
    scheduler.start(paused=True)
    for name in NAMES:
        scheduler.add_job(nothing, "interval", hours=1, id=f"job-of-{name}")
    scheduler.shutdown()
    return url


def processes(url, names, *how):
    begun = [subprocess.Popen([sys.executable, str(PROGRAM), url, name, str(ACTS), *how]) for name in names]
    return [process.wait(120) for process in begun]


def audit(url):
    with Observer(url, read_only=True) as observer:
        return Operations(Source(observer)).call("audit", ADMIN, {"limit": 200})


def test_no_entry_of_several_processes_is_lost(url):
    assert processes(url, NAMES) == [0, 0, 0]
    found = audit(url)
    assert found["gaps"] == []
    told = [(entry["actor"], entry["reason"], entry["status"]) for entry in reversed(found["items"])]
    for name in NAMES:
        assert [each for each in told if each[0] == name] == [(name, f"act {number}", "done") for number in range(ACTS)]
    assert len(told) == len(NAMES) * ACTS


def test_the_act_of_a_process_that_was_killed_is_unknown(url):
    assert processes(url, ["ann"]) == [0]
    last = "resume_jobs" if ACTS % 2 == 0 else "pause_jobs"
    assert audit(url)["items"][0]["operation"] == last
    assert processes_that_die(url) == [-signal.SIGKILL]
    found = audit(url)
    assert (found["items"][0]["status"], found["items"][0]["reason"]) == ("unknown", f"act {ACTS}")
    assert [entry["status"] for entry in found["items"][1:]] == ["done"] * (2 * ACTS)
    assert found["gaps"] == []


def processes_that_die(url):
    process = subprocess.Popen([sys.executable, str(PROGRAM), url, "bob", str(ACTS + 1), "die"])
    return [process.wait(120)]
