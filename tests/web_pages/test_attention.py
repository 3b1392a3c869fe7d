"""What the overview says needs attention."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from goscheduler.times import UTC
from goscheduler.web.pages import attention
from goscheduler.web.pages.figures import stretches, succeeded_share
from goscheduler.web.pages.formats import Times

TIMES = Times(datetime(2026, 1, 1, 12, tzinfo=timezone.utc), UTC)


def _job(job_id, state="scheduled", following=None, executor="default"):
    return {
        "id": job_id, "state": state, "next_run_time": following, "executor": executor, "suspended": "no such task",
        "last_run": "2026-01-01T11:00:00+00:00", "last_error": "ValueError: x.",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("following", "then"),
    [
        ("2026-01-01T12:05:00+00:00", "Next run in 5 m."), ("2026-01-01T11:58:00+00:00", "It was due 2 m ago."),
        (None, "It will not run again by itself."),
    ],
)  # fmt: skip
def test_a_job_that_fails_is_told_with_its_error_and_what_follows(following, then):
    (matter,) = attention.failing([_job("a", following=following)], TIMES)
    assert (matter.what, matter.says, matter.detail) == ("a", "failed 1 h ago", f"ValueError: x. {then}")


def test_jobs_that_nobody_can_run_are_told_by_the_executor_that_is_missing():
    due = "2026-01-01T11:58:00+00:00"
    jobs = [_job("a", "no executor", due, "gpu"), _job("b", "no executor", due, "gpu"), _job("c", "queued", due)]
    (matter,) = attention.nobody_can_run(jobs, TIMES)
    assert (matter.what, matter.says) == ("executor gpu", "is wanted by 2 due jobs, and no process has it")
    assert matter.query == "executor:gpu"


def test_a_limit_is_told_only_if_it_holds_runs_back():
    limits = [{"name": "mail", "live": 5, "waiting": 23}, {"name": "api", "live": 1, "waiting": 0}]
    assert [(each.what, each.says) for each in attention.full_limits(limits)] == [("mail", "holds back 23 runs")]


@pytest.mark.parametrize(
    ("processes", "due", "observed", "told"),
    [(0, True, True, 1), (1, True, True, 0), (0, False, True, 0), (0, True, False, 0)],
)
def test_no_process_is_told_where_something_is_due_and_processes_can_be_seen(processes, due, observed, told):
    assert len(attention.nobody_fires(processes, due, observed)) == told


def test_suspended_jobs_are_told_with_the_reason():
    assert attention.suspended([_job("a", "suspended")])[0].detail == "no such task"


def test_minutes_are_drawn_together_and_no_count_is_lost():
    rows = [
        {"start": f"2026-01-01T11:{minute:02d}:00+00:00", "seconds": 60, "counts": {"succeeded": minute},
         "lateness": {"p50": None if minute % 2 else minute / 1000}}
        for minute in range(60)
    ]  # fmt: skip
    parts = stretches(rows, 7)
    assert len(parts) <= 7
    assert sum(part.counts["succeeded"] for part in parts) == sum(range(60))
    assert sum(part.seconds for part in parts) == 3600
    assert parts[0].lateness["p50"] == 0.008
    assert stretches([], 60) == []


@pytest.mark.parametrize(
    ("counts", "share"),
    [({}, None), ({"succeeded": 3, "failed": 1}, 0.75), ({"lost": 1}, 0.0), ({"succeeded": 2, "skipped": 9}, 1.0)],
)
def test_the_share_of_success_counts_what_ended_well_or_badly(counts, share):
    assert succeeded_share(counts) == share
