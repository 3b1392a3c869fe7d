from __future__ import annotations

import math
import pickle
import threading
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from goscheduler.errors import InvalidArgument
from goscheduler.executors import context
from goscheduler.executors.call import execute
from goscheduler.executors.context import (
    RunCancelled,
    current_run,
    forget_run,
    id_of_current_run,
    progress_of,
    record_progress,
    tell_to_end,
)
from goscheduler.runs.model import OutcomeKind, Progress


def test_outside_of_a_run_there_is_none():
    with pytest.raises(RuntimeError, match="only works inside a running job"):
        current_run()
    assert id_of_current_run() is None


def test_a_running_job_sees_the_facts_of_its_run(new_run, clock):
    run = new_run(current_run, at=clock.now() - timedelta(seconds=12), attempt=3, fence=7)

    seen = execute(run, clock).result

    assert (seen.job_id, seen.run_id, seen.attempt, seen.fence) == ("job-1", run.id, 3, 7)
    assert seen.scheduled_at == seen.scheduled_run_time == run.scheduled_at
    assert seen.started_at == clock.now()
    assert seen.lateness == 12.0
    assert seen.fire_id == run.fire_id
    assert repr(seen) == f"<CurrentRun (job_id='job-1' run_id='{run.id}' attempt=3)>"


def test_it_is_over_when_the_job_is(new_run, clock):
    execute(new_run(current_run), clock)

    assert id_of_current_run() is None


def test_a_run_within_a_run_does_not_disturb_it(new_run, clock):
    def work():
        inner = execute(new_run(current_run), clock).result.run_id
        return inner, current_run().run_id

    run = new_run(work)
    inner, outer = execute(run, clock).result

    assert outer == run.id
    assert inner != run.id


def test_a_thread_started_by_the_job_has_none_of_its_own(new_run, clock):
    def work():
        seen = []
        thread = threading.Thread(target=lambda: seen.append(id_of_current_run()))
        thread.start()
        thread.join()
        return seen

    assert execute(new_run(work), clock).result == [None]


def test_a_run_that_was_not_told_to_end_goes_on(new_run, clock):
    def work():
        run = current_run()
        return run.cancelled, run.cancel_reason, run.check()

    assert execute(new_run(work), clock).result == (False, "", None)


def test_a_run_that_was_told_to_end_sees_it_and_the_first_reason(new_run, clock):
    def work():
        tell_to_end(current_run().run_id, "out of time")
        tell_to_end(current_run().run_id, "cancelled by hand")
        return current_run().cancelled, current_run().cancel_reason

    run = new_run(work)
    assert execute(run, clock).result == (True, "out of time")
    forget_run(run.id)


def test_a_job_that_catches_exceptions_does_not_catch_that_it_is_to_end(new_run, clock):
    def work():
        tell_to_end(current_run().run_id, "out of time")
        try:
            current_run().check()
        except Exception:
            return "caught"

    run = new_run(work)
    outcome = execute(run, clock)

    assert outcome.kind is OutcomeKind.CANCELLED
    assert outcome.reason == "out of time"
    assert isinstance(outcome.error, RunCancelled)
    assert "current_run().check()" in outcome.traceback
    forget_run(run.id)


def test_what_ends_a_run_has_its_reason_and_survives_pickling():
    error = pickle.loads(pickle.dumps(RunCancelled("out of time")))

    assert (error.reason, str(error)) == ("out of time", "out of time")


def test_a_job_that_ends_itself_without_a_reason_gets_one(new_run, clock):
    def work():
        raise RunCancelled

    assert execute(new_run(work), clock).reason == "the job cancelled itself"


@pytest.mark.parametrize(
    ("share", "kept"), [(0, 0.0), (1, 1.0), (0.25, 0.25), (Fraction(1, 2), 0.5), (-0.0, 0.0), (5e-324, 5e-324)]
)
def test_progress_is_kept_until_the_run_is_forgotten(new_run, clock, share, kept):
    run = new_run(lambda: current_run().progress(share, "on the way"))
    assert execute(run, clock).error is None

    progress = progress_of(run.id)
    assert progress == (kept, "on the way")
    assert type(progress.share) is float
    forget_run(run.id)
    assert progress_of(run.id) is None


@pytest.mark.parametrize(
    "share",
    [math.nan, math.inf, -math.inf, -0.001, 1.001, 50, True, False, "0.5", None, [0.5], 1j, 10**400, Decimal("0.5")],
)
def test_progress_that_is_no_number_from_0_to_1_is_refused_by_name(new_run, clock, share):
    run = new_run(lambda: current_run().progress(share))

    error = execute(run, clock).error

    assert isinstance(error, InvalidArgument)
    assert error.field == "share"
    assert str(error).startswith("share must be a number from 0 to 1, got ")
    assert progress_of(run.id) is None


def test_a_note_that_is_no_text_is_refused_and_a_long_one_is_cut(new_run, clock):
    error = execute(new_run(lambda: current_run().progress(0.5, 3)), clock).error
    assert isinstance(error, InvalidArgument)
    assert error.field == "note"

    run = new_run(lambda: current_run().progress(0.5, "x" * 10_000))
    execute(run, clock)
    assert progress_of(run.id).note == "x" * 200
    forget_run(run.id)


def test_progress_of_runs_that_nobody_forgets_does_not_pile_up():
    for number in range(context.MAX_PROGRESS + 5):
        record_progress(f"r{number}", Progress(0.5, ""))

    assert len(context._progress) <= context.MAX_PROGRESS
    assert progress_of(f"r{context.MAX_PROGRESS + 4}") is not None
    context._progress.clear()
