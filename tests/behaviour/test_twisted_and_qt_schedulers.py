"""The schedulers of Twisted and of Qt, each in a program of its own: a process has one reactor and one application."""

from __future__ import annotations

from pathlib import Path

import pytest
import warm

pytestmark = pytest.mark.serial

PROGRAMS = Path(__file__).parents[1] / "support"
TWISTED_STEPS = [
    "each_kind_of_function_runs_where_it_should",
    "a_cancelled_run_has_its_deferred_cancelled",
    "a_run_out_of_time_is_cancelled_and_one_that_goes_on_is_given_up",
    "a_paused_scheduler_waits_and_a_late_run_is_missed",
    "a_stored_job_runs",
    "a_shutdown_on_the_reactor_waits_for_jobs_and_the_scheduler_starts_again",
    "a_shutdown_without_waiting_cancels",
    "a_reactor_that_stops_waits_for_jobs",
    "the_reactor_has_stopped",
]
QT_STEPS = [
    "without_an_application_jobs_run_on_threads",
    "a_job_runs_where_its_executor_says",
    "a_run_is_told_to_end_and_given_up_while_the_gui_thread_goes_on",
    "a_paused_scheduler_waits_and_a_late_run_is_missed",
    "a_stored_job_runs",
    "a_shutdown_on_the_gui_thread_lets_jobs_and_listeners_end_there",
    "a_shutdown_after_the_event_loop_has_ended_does_not_wait_for_it",
]


@pytest.mark.parametrize(
    ("name", "needed", "steps"),
    [
        ("twisted_program.py", "twisted", TWISTED_STEPS),
        ("qt_program.py", "goscheduler.executors.qt", QT_STEPS),
    ],
    ids=["twisted", "qt"],
)
def test_every_step_of_a_program_goes_well(name, needed, steps, tmp_path):
    pytest.importorskip(needed, exc_type=ImportError)

    done = warm.run("-W", "error::DeprecationWarning", PROGRAMS / name, f"sqlite:///{tmp_path}/jobs.sqlite")

    assert done.stdout.split() == steps, done.stderr
    assert done.returncode == 0, done.stderr
