"""The life of a run: exactly the documented changes can be built."""

from __future__ import annotations

from datetime import timedelta

import pytest
from behaviour_doubles import START, note

from goscheduler.options import DEFAULTS, filled_in
from goscheduler.runs import transitions
from goscheduler.runs.model import NO_STATS, Attempt, JobStats, Outcome, OutcomeKind, Run, RunState, Source
from goscheduler.runs.retry import Retry, fixed
from goscheduler.runs.transitions import (
    IllegalChange,
    asked_for,
    called_off,
    claimed,
    crashed,
    put_back,
    recovered,
    retried,
    settle,
    with_attempt,
)
from goscheduler.testing import ManualScheduler

NOW = START + timedelta(seconds=3)
DONE = Outcome(OutcomeKind.SUCCEEDED)


def a_run(state, **options):
    job = ManualScheduler().add_job(note, id="job", **options)
    job.options = filled_in(job.options, DEFAULTS)
    pending = Run("run", job, START, START, fence=4, attempt=2, crashes=1)
    return pending if state is RunState.PENDING else pending._replace(owner="me")


CHANGES = {
    "claimed": lambda run: claimed(run, "you", run.fence + 1),
    "put back": put_back,
    "recovered": recovered,
    "retried": lambda run: retried(run, NOW),
    "settled": lambda run: settle(run, DONE, NOW),
    "called off": lambda run: called_off(run, "why", NOW),
}
ALLOWED = {
    (RunState.PENDING, "claimed"): RunState.CLAIMED,
    (RunState.CLAIMED, "put back"): RunState.PENDING,
    (RunState.CLAIMED, "recovered"): RunState.PENDING,
    (RunState.CLAIMED, "retried"): RunState.PENDING,
    (RunState.CLAIMED, "settled"): RunState.FINISHED,
    (RunState.PENDING, "called off"): RunState.FINISHED,
}


def state_of(value):
    """A run shows its state; one that has ended is found as an attempt with nothing to follow."""
    if isinstance(value, Run):
        return value.state
    assert isinstance(value.attempt, Attempt)
    return RunState.FINISHED if value.follow_up is None else value.follow_up.state


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("state", [RunState.PENDING, RunState.CLAIMED])
def test_only_the_documented_changes_can_be_built(state, change):
    run = a_run(state)
    if (state, change) in ALLOWED:
        assert state_of(CHANGES[change](run)) is ALLOWED[state, change]
    else:
        with pytest.raises(IllegalChange, match=f"run run is {state.value} and cannot be {change}"):
            CHANGES[change](run)


def test_every_public_change_of_the_module_stands_in_the_table():
    public = {name for name in vars(transitions) if getattr(vars(transitions)[name], "__module__", "") ==
              transitions.__name__ and name[0].islower() and not name.startswith("_")}
    assert public == {
        "asked_for", "called_off", "claimed", "crashed", "with_attempt", "put_back", "recovered", "redriven", "retried",
        "settle",
    }  # fmt: skip


def test_nothing_leads_out_of_finished():
    finished = settle(a_run(RunState.CLAIMED), DONE, NOW)
    for change in CHANGES.values():
        with pytest.raises((AttributeError, TypeError, IllegalChange)):
            change(finished)


@pytest.mark.parametrize("fence", [4, 3, 0, -1])
def test_a_claim_with_a_fence_that_does_not_grow_is_refused(fence):
    with pytest.raises(IllegalChange, match="not above it"):
        claimed(a_run(RunState.PENDING), "you", fence)


def test_a_claim_changes_owner_and_fence_and_nothing_else():
    before = a_run(RunState.PENDING)
    after = claimed(before, "you", 9)
    assert after == before._replace(owner="you", fence=9)


def test_a_run_that_is_put_back_keeps_its_fence_attempt_and_fire_time():
    before = a_run(RunState.CLAIMED)
    assert put_back(before) == before._replace(owner=None)


def test_a_recovered_run_counts_the_crash_and_not_an_attempt():
    after = recovered(a_run(RunState.CLAIMED))
    assert (after.crashes, after.attempt, after.source, after.fence) == (2, 2, Source.RECOVERED, 4)


def test_a_run_asked_for_by_hand_is_pending_and_due_at_once():
    run = asked_for(a_run(RunState.PENDING).job, "new", NOW)
    assert (run.state, run.source, run.scheduled_at, run.due_at) == (RunState.PENDING, Source.MANUAL, NOW, NOW)


@pytest.mark.parametrize("kind", OutcomeKind)
def test_settling_ends_every_run_except_one_that_snoozed_or_was_lost(kind):
    run = a_run(RunState.CLAIMED)
    settlement = settle(run, Outcome(kind, reason="why"), NOW)
    assert settlement.attempt == Attempt(run, Outcome(kind, reason="why"), NOW)
    if kind is OutcomeKind.SNOOZED:
        assert settlement.follow_up == put_back(run)
    elif kind is OutcomeKind.LOST:
        assert settlement.follow_up == recovered(run)
    else:
        assert settlement.follow_up is None


# options → whether the run comes again, at which attempt, and why it is dead
CRASHES = {
    "usual": ({}, Source.RECOVERED, 2, None),
    "once too often": ({"max_crashes": 2}, None, None, "crashed 2 times: the process that had it was lost"),
    "dead": ({"on_crash": "dead"}, None, None, "crashed: the process that had it was lost"),
    "fail": ({"on_crash": "fail"}, None, None, None),
    "fail, with attempts left": ({"on_crash": "fail", "retry": Retry(3, fixed(9))}, Source.RETRY, 3, None),
    "fail, without": ({"on_crash": "fail", "retry": Retry(2, fixed(9))}, None, None, "attempt 2 of 2 failed"),
}


@pytest.mark.parametrize(("options", "source", "attempt", "dead"), CRASHES.values(), ids=CRASHES)
def test_what_becomes_of_a_run_whose_process_was_lost(options, source, attempt, dead):
    settlement = crashed(a_run(RunState.CLAIMED, **options), NOW)
    assert settlement.attempt.outcome.kind is OutcomeKind.LOST
    assert settlement.dead == dead
    follow_up = settlement.follow_up
    came = (None, None) if follow_up is None else (follow_up.source, follow_up.attempt)
    assert came == (source, attempt)


def test_only_attempts_that_were_started_count_in_the_life_of_a_job():
    run = a_run(RunState.CLAIMED)
    life = with_attempt(NO_STATS, settle(run, Outcome(OutcomeKind.MISSED), NOW).attempt)
    assert life == NO_STATS
    failed = Outcome(OutcomeKind.FAILED, error=ValueError("no"), started_at=START)
    life = with_attempt(life, settle(run, failed, NOW).attempt)
    assert life == JobStats(1, START, None, "ValueError: no", OutcomeKind.FAILED)
    life = with_attempt(life, settle(run, Outcome(OutcomeKind.SUCCEEDED, started_at=START), NOW).attempt)
    assert life == JobStats(2, START, NOW, "ValueError: no", OutcomeKind.SUCCEEDED)
    assert JobStats.from_state(life.as_state()) == life


def test_a_run_cannot_be_changed_in_place():
    run = a_run(RunState.CLAIMED)
    with pytest.raises(AttributeError):
        run.owner = None


def test_the_fire_id_is_the_same_on_every_attempt():
    run = a_run(RunState.CLAIMED)
    again = claimed(put_back(run), "you", 5)
    assert again.fire_id == run.fire_id == "job@2026-01-01T00:00:00+00:00"
