"""The scheduler of a gevent program, in programs of their own: what gevent patches stays patched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("gevent")
pytestmark = pytest.mark.serial

PROGRAM = Path(__file__).parents[1] / "support" / "gevent_program.py"
STEPS = [
    "greenlets_run_and_events_are_heard",
    "a_cancelled_run_is_killed",
    "a_run_out_of_time_is_killed_and_killed_again_when_it_is_given_up",
    "a_paused_scheduler_waits_and_a_late_run_is_missed",
    "child_processes_work",
    "a_stored_job_runs",
    "a_shutdown_waits_while_the_hub_turns",
    "a_shutdown_without_waiting_kills",
    "a_listener_can_shut_down",
    "the_end_of_the_interpreter_waits",
]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::DeprecationWarning", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_jobs_and_listeners_run_on_the_hub_of_a_program_that_is_not_patched(tmp_path):
    done = run(PROGRAM, "unpatched", tmp_path)

    assert done.stdout.split() == STEPS, done.stderr
    assert done.returncode == 0, done.stderr


def test_all_of_a_scheduler_runs_on_the_hub_of_a_patched_program_and_its_stores_yield(tmp_path, url_of):
    done = run(PROGRAM, "patched", tmp_path, url_of("postgresql"))

    assert done.stdout.split() == [*STEPS[:6], "a_store_that_waits_for_its_server_lets_others_run", *STEPS[6:]], (
        done.stderr
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["GeventScheduler", "BackgroundScheduler"])
def test_a_scheduler_that_was_imported_before_gevent_patched_refuses_to_start(name):
    late = f"from goscheduler import {name} as S; from gevent import monkey; monkey.patch_all(); S().start()"

    done = run("-c", late)

    assert done.returncode == 1
    assert "RuntimeError: gevent has patched the standard library after goscheduler was imported" in done.stderr
    assert "call gevent.monkey.patch_all() at the very top of the program" in done.stderr
