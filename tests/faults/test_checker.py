"""The checker finds each kind of violation, and takes nothing for one that has a cause."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import timeline
from checker import check, judge
from synthetic import OFFSET, Synthetic
from targets import MAYBE, OFF, ON, schedules_of, targets_of
from work import calls_of

Case = Callable[[Synthetic], object]


def _kinds(case: Case, **setup: object) -> dict[str, int]:
    world = Synthetic(**setup)  # type: ignore[arg-type]
    case(world)
    return dict(judge(world.build()).kinds)


def _one(world: Synthetic, **spec: object) -> None:
    """Add a job that fires once, at 10."""
    world.date("j", 10, **spec)


def repeat(world: Synthetic, second: float = 15.0, seconds: float = 2.0) -> None:
    """Start the only firing on n0, and again on another node."""
    _one(world)
    world.run("j", 10, seconds=seconds, record="lost")
    world.run("j", 10, t=second, node="n1")


def a_lost_firing(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=50)
    world.runs("i", first=52)


def a_skipped_firing(world: Synthetic) -> None:
    a_lost_firing(world)
    world.record("i", 51, "skipped")


def a_coalesced_firing(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=50)
    world.run("i", 52, coalesced=1)
    world.runs("i", first=53)


def a_firing_coalesced_too_little(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=50)
    world.run("i", 53, coalesced=1)
    world.runs("i", first=54)


def a_run_that_never_ended(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, seconds=None)
    world.fault("kill", 10.1, 10.1, "n0")


def a_pause_of_a_late_job(world: Synthetic) -> None:
    """What is due and late when the job is paused is not made up for."""
    a_lost_firing(world)
    world.call("pause_job", "i", 51.2)
    world.call("resume_job", "i", 51.5)


def a_job_that_stands_still(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=60)


def a_removal_of_a_job_with_a_backlog(world: Synthetic) -> None:
    """The time had become a run that waited, and which was gone with its job."""
    world.interval("i", coalesce=False)
    world.runs("i", until=50)
    world.runs("i", first=52, until=55)
    world.call("remove_job", "i", 55.2)


def a_late_add(world: Synthetic) -> None:
    """The date had passed when the answer came; the job fires at once, and did not."""
    world.call("add_job", "j", 9.0, 12.0, kind="date", at=OFFSET + 10)


def an_add_without_an_answer(world: Synthetic) -> None:
    _one(world, result="unknown")


def a_phantom(world: Synthetic) -> None:
    world.interval("i", read=1)
    world.runs("i")
    world.run("i", 20.5)


def a_run_asked_for(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i")
    world.call("run_now", "i", 20.49, 20.52)
    world.run("i", 20.5)


def a_failed_add_that_fires(world: Synthetic) -> None:
    _one(world, result="fail")
    world.run("j", 10)


def too_early(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, t=9.9)


def hardly_early(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, t=9.99)


def two_runs_of_one_time(world: Synthetic) -> None:
    world.interval("i", max_instances=2)
    world.runs("i")
    world.run("i", 30, run="other", node="n1")


def two_runs_after_a_failover(world: Synthetic) -> None:
    two_runs_of_one_time(world)
    world.fault("failover", 31, 34)


def with_fault(kind: str, begin: float, end: float, node: str | None = "n0") -> Case:
    def case(world: Synthetic) -> None:
        repeat(world)
        world.fault(kind, begin, end, node)

    return case


def a_finished_run_again(world: Synthetic) -> None:
    """The freeze comes long after the first run had ended and was recorded."""
    repeat(world, second=30, seconds=0.1)
    world.fault("freeze", 20, 28, "n0")


def one_hand_out_twice(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, fence=5, record=None)
    world.run("j", 10, t=10.4, fence=5)


def a_stale_start(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, t=15, fence=2, node="n1", seconds=0.1)
    world.run("j", 10, t=17, fence=1, record="lost")
    world.fault("blackhole", 9, 16, "n0")


def a_start_on_waking(world: Synthetic) -> None:
    a_stale_start(world)
    world.fault("freeze", 9, 16.9, "n0")


def starts_on_waking(world: Synthetic) -> None:
    """Three runs were queued, and none of them had come to its last look when the process was frozen."""
    for job in "abc":
        world.date(job, 10)
        world.run(job, 10, t=15, fence=2, node="n1", seconds=0.1)
        world.run(job, 10, t=17, fence=1, record="lost")
    world.fault("freeze", 9, 16.9, "n0")


def a_crash_of_what_must_not_be_repeated(world: Synthetic) -> None:
    _one(world, on_crash="dead")
    world.run("j", 10, seconds=None)
    world.fault("kill", 10.2, 10.2, "n0")
    world.run("j", 10, t=14, node="n1")


def a_stale_success(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, seconds=8, fence=1)
    world.run("j", 10, t=15, fence=2, node="n1", seconds=6, record="lost")
    world.fault("freeze", 10.1, 17, "n0")


def two_successes(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, seconds=8, fence=1)
    world.run("j", 10, t=15, fence=2, node="n1", seconds=1)
    world.fault("freeze", 10.1, 17, "n0")


def a_refused_success(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, seconds=8, fence=1, record="lost")
    world.run("j", 10, t=15, fence=2, node="n1", seconds=1)
    world.fault("freeze", 10.1, 17, "n0")


def two_ends_of_one_hand_out(world: Synthetic) -> None:
    _one(world)
    call = world.run("j", 10)
    world.record("j", 10, "lost", fence=call.fence, started=10.01)


def an_end_without_a_record(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, record=None)


def an_end_just_before_the_read(world: Synthetic) -> None:
    world.date("j", 119.5)
    world.run("j", 119.5, record=None)


def a_success_that_was_an_error(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, outcome="error", record="succeeded")


def a_record_without_a_start(world: Synthetic) -> None:
    _one(world)
    world.record("j", 10, "succeeded", started=10.01)


def a_start_after_removal(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=30)
    world.call("remove_job", "i", 30.2, 30.5)
    world.run("i", 30, run="queued", t=30.7, fence=900)
    world.history.executions[-2].run = "other"
    world.history.executions.pop(-2)
    world.history.records.pop(-2)


def a_run_begun_before_removal(world: Synthetic) -> None:
    a_start_after_removal(world)
    world.history.executions[-1].t = 30.52
    world.history.records[-1].started_at = OFFSET + 30.48


def a_firing_after_removal(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=33)
    world.call("remove_job", "i", 30.2, 30.5)


def a_firing_after_a_removal_without_answer(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=33)
    world.call("remove_job", "i", 30.2, 33.2, result="unknown")


def a_firing_while_paused(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i")
    world.call("pause_job", "i", 30.2, 30.5)
    world.call("resume_job", "i", 35.2, 35.5)


def a_pause(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=30)
    world.runs("i", first=36)
    world.call("pause_job", "i", 30.2, 30.5)
    world.call("resume_job", "i", 35.2, 35.5)


def no_firing_after_resume(world: Synthetic) -> None:
    world.interval("i")
    world.runs("i", until=30)
    world.call("bulk_pause", None, 30.2, 30.5, ids=["i"])
    world.call("resume_job", "i", 115.2, 115.5)
    world.call("resume_job", "i", 35.2, 35.5)


def a_start_while_cut_off(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, t=13.5)
    world.fault("blackhole", 10, 16, "n0")


def a_start_at_the_begin_of_a_cut(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, t=11.5)
    world.fault("blackhole", 10, 16, "n0")


def too_many_instances(world: Synthetic) -> None:
    world.interval("i", max_instances=2)
    for at in (1, 2, 3):
        world.run("i", at, seconds=2.5, node=f"n{at - 1}")
    world.runs("i", first=4)


def enough_instances(world: Synthetic) -> None:
    world.interval("i", max_instances=2)
    for at in (1, 2, 3):
        world.run("i", at, seconds=1.5, node=f"n{at - 1}")
    world.runs("i", first=5)
    world.run("i", 4)


def instances_of_a_frozen_process(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, seconds=9, record="lost")
    world.run("j", 10, t=15, seconds=1, node="n1")
    world.fault("freeze", 10.5, 17, "n0")


def a_crowded_limit(world: Synthetic) -> None:
    for number in range(3):
        world.date(f"j{number}", 10, limits=[["l", 2]])
        world.run(f"j{number}", 10, seconds=1, node=f"n{number}")


def a_full_limit(world: Synthetic) -> None:
    for number in range(3):
        world.date(f"j{number}", 10, limits=[["l", 2]])
        world.run(f"j{number}", 10, t=10.1 + (number == 2), seconds=1, node=f"n{number}")


def tried(*attempts: int, fails: int = 2, most: int = 3, gap: float = 1.0) -> Case:
    def case(world: Synthetic) -> None:
        _one(world, fails=fails, attempts=most, retry_delay=1.0)
        for place, attempt in enumerate(attempts):
            outcome = "error" if attempt <= fails else "ok"
            world.run("j", 10, t=10.01 + place * (gap + 0.05), attempt=attempt, outcome=outcome, run="j-10")

    return case


def used_up(letters: int) -> Case:
    def case(world: Synthetic) -> None:
        tried(1, 2, fails=9, most=2)(world)
        for _ in range(letters):
            world.letter("j", 10, 2)

    return case


def a_letter_too_early(world: Synthetic) -> None:
    tried(1, fails=9, most=2)(world)
    world.letter("j", 10)


def a_letter_of_a_success(world: Synthetic) -> None:
    tried(1, 2, 3)(world)
    world.letter("j", 10)


def a_letter_after_crashes(world: Synthetic) -> None:
    _one(world)
    for number in range(3):
        world.run("j", 10, t=10.01 + 5 * number, seconds=None, node=f"n{number}", record="lost")
        world.fault("kill", 10.2 + 5 * number, 10.2 + 5 * number, f"n{number}")
    world.letter("j", 10)


def a_run_left(world: Synthetic) -> None:
    _one(world)
    world.run("j", 10, seconds=None, record=None)
    world.waiting("j", 10, owner="o1")


def a_run_on_its_way(world: Synthetic) -> None:
    world.date("j", 119)
    world.run("j", 119, seconds=None, record=None)
    world.waiting("j", 119, owner="o1")


def a_pending_run_left(world: Synthetic) -> None:
    _one(world, limits=[["l", 1]])
    world.waiting("j", 10)


def a_backlog(world: Synthetic) -> None:
    _one(world, limits=[["l", 1]])
    world.waiting("j", 10)
    world.date("k", 100, limits=[["l", 1]])
    world.run("k", 100, t=119)


def a_pending_retry(world: Synthetic) -> None:
    _one(world, fails=1, attempts=2, retry_delay=200)
    world.run("j", 10, outcome="error")
    world.waiting("j", 10, due=210)


def a_job_left_due(world: Synthetic) -> None:
    world.interval("i", result="unknown")
    world.left("i", 50)


def a_job_due_soon(world: Synthetic) -> None:
    world.interval("i", result="unknown")
    world.left("i", 121)


def a_job_gone(world: Synthetic) -> None:
    world.interval("i", every=500, first=500)
    world.left("other", None)


def a_job_there(world: Synthetic) -> None:
    world.interval("i", every=500, first=500)
    world.left("i", 500)


def message(*times: float, cancel: float | None = None, result: str = "ok") -> Case:
    def case(world: Synthetic) -> None:
        world.message("m", 10, result)
        if cancel is not None:
            world.call("cancel_message", "m", cancel)
        for number, t in enumerate(times):
            world.delivered("m", t, f"n{number}")

    return case


def a_message_again_after_a_kill(world: Synthetic) -> None:
    message(10.1, 15)(world)
    world.fault("kill", 10.3, 10.3, "n0")


def a_message_of_nobody(world: Synthetic) -> None:
    world.delivered("m", 10)


def documents(second: float, fault: bool = False, end: float | None = 12.0) -> Case:
    def case(world: Synthetic) -> None:
        world.call("add_document", "d", 1.0, at=OFFSET + 5)
        world.document("d", 10, end)
        world.document("d", second, second + 1, "n1")
        if fault:
            world.fault("freeze", 10.5, 15, "n0")

    return case


def a_document_never_done(world: Synthetic) -> None:
    world.call("add_document", "d", 1.0, at=OFFSET + 5)


def locks(second: float, fence: int = 2, stale_write: bool = False) -> Case:
    def case(world: Synthetic) -> None:
        world.lock("l", 10, 12, 1)
        world.lock("l", second, second + 1, fence, "n1")
        world.guarded("l", second + 0.1, fence, True, "n1")
        if stale_write:
            world.guarded("l", second + 0.2, fence - 1, True)

    return case


def a_refused_write(world: Synthetic) -> None:
    locks(12.5)(world)
    world.guarded("l", 12.9, 1, False)


def taken_up_after(seconds: float) -> Case:
    def case(world: Synthetic) -> None:
        _one(world)
        world.run("j", 10, seconds=None)
        world.fault("kill", 10.2, 10.2, "n0")
        world.run("j", 10, t=10.2 + seconds, node="n1")

    return case


def taken_up_late_because_the_server_was_out(world: Synthetic) -> None:
    taken_up_after(18)(world)
    world.fault("server-kill", 11, 25)


def quiet_after(seconds: float) -> Case:
    def case(world: Synthetic) -> None:
        world.interval("i")
        world.runs("i", until=30)
        world.run("i", 40 + int(seconds), coalesced=9 + int(seconds))
        world.runs("i", first=41 + int(seconds))
        world.fault("server-kill", 30.5, 40)

    return case


def an_idle_node(world: Synthetic) -> None:
    world.interval("i", every=0.1, first=1)
    world.runs("i", every=0.1, first=1, node="n0", seconds=0.01)
    world.runs("i", every=500, first=95.05, node="n1", until=96, seconds=0.01)
    world.call("run_now", "i", 95.04, 95.06)


def a_busy_node(world: Synthetic) -> None:
    an_idle_node(world)
    world.run("i", 96.05, node="n2", seconds=0.01)
    world.call("run_now", "i", 96.04, 96.06)


def a_node_that_died(world: Synthetic) -> None:
    world.life("n0", 2, 50)


def a_node_that_was_stopped(world: Synthetic) -> None:
    world.life("n0", 2, 50)
    world.history.lives[0].stopping, world.history.lives[0].stopped = 48.0, 49.0


#: Each with all kinds that it is found as.
VIOLATED: list[tuple[Case, str]] = [
    (a_lost_firing, "missing"), (a_job_that_stands_still, "missing"),
    (a_firing_coalesced_too_little, "missing"), (a_run_that_never_ended, "missing"),
    (a_late_add, "missing"), (no_firing_after_resume, "missing"),
    (a_phantom, "phantom"), (a_failed_add_that_fires, "phantom"), (too_early, "early"),
    (two_runs_of_one_time, "fired twice"),
    (repeat, "repeated"), (with_fault("freeze-short", 10.1, 11.6), "repeated"),
    (with_fault("blackhole", 10.1, 10.5), "repeated"), (with_fault("freeze", 10.1, 17, "n2"), "repeated"),
    (with_fault("freeze", 2, 6), "repeated"), (with_fault("clock", 1, 100), "repeated"),
    (a_finished_run_again, "repeated"), (one_hand_out_twice, "repeated"),
    (a_stale_start, "stale start"), (starts_on_waking, "stale start"),
    (a_crash_of_what_must_not_be_repeated, "repeated"),
    (a_stale_success, "stale end"), (two_successes, "stale end"),
    (two_ends_of_one_hand_out, "ended twice"), (an_end_without_a_record, "unrecorded"),
    (a_success_that_was_an_error, "recorded otherwise"), (a_record_without_a_start, "recorded otherwise"),
    (a_start_after_removal, "started after removal"),
    (a_firing_after_removal, "fired while off, started after removal"),
    (a_firing_while_paused, "fired while off"), (a_start_while_cut_off, "started without a lease"),
    (too_many_instances, "max_instances"), (a_crowded_limit, "limit exceeded"),
    (tried(1, 3), "attempt left out"), (tried(1, 2, 3, 4, fails=9), "dead letter, too many attempts"),
    (tried(1, 2, fails=0), "retry without need, stale end"), (tried(1, 2, 3, gap=0.5), "retry too early"),
    (tried(1, 2), "missing, retry lost"), (used_up(0), "dead letter"), (used_up(2), "dead letter"),
    (a_letter_too_early, "dead letter"), (a_letter_of_a_success, "dead letter"),
    (a_run_left, "stuck"), (a_pending_run_left, "stuck"), (a_job_left_due, "stuck"), (a_job_gone, "job lost"),
    (message(), "message missing"), (message(9.5), "message early"), (message(10.1, 15), "message repeated"),
    (message(10.1, cancel=5), "message cancelled"), (a_message_of_nobody, "message phantom"),
    (documents(11), "document twice at once"), (a_document_never_done, "document missing"),
    (locks(11), "lock held twice"), (locks(12.5, fence=1), "lock fence"), (locks(12.5, stale_write=True), "lock fence"),
    (taken_up_after(9), "recovery"), (quiet_after(7), "resume"), (an_idle_node, "node idle"),
    (a_node_that_died, "node died"),
]  # fmt: skip

JUSTIFIED: list[Case] = [
    a_skipped_firing, a_pause_of_a_late_job, a_removal_of_a_job_with_a_backlog,
    a_coalesced_firing, an_add_without_an_answer, a_run_asked_for, hardly_early,
    two_runs_after_a_failover,
    with_fault("freeze", 10.1, 14), with_fault("stall", 10.1, 12), with_fault("blackhole", 10.1, 14),
    with_fault("blackhole", 10.1, 14, None), with_fault("drop-replies", 10.1, 10.4),
    with_fault("server-kill", 10.1, 10.4, None), with_fault("kill", 10.1, 10.1), with_fault("failover", 12, 14, None),
    a_start_on_waking, a_refused_success, an_end_just_before_the_read, a_run_begun_before_removal,
    a_firing_after_a_removal_without_answer, a_pause, a_start_at_the_begin_of_a_cut,
    enough_instances, instances_of_a_frozen_process, a_full_limit,
    tried(1, 2, 3), tried(1, fails=0), used_up(1), a_letter_after_crashes, a_run_on_its_way, a_pending_retry, a_backlog,
    a_job_due_soon, a_job_there,
    message(10.1), message(cancel=5), message(10.1, cancel=12), message(result="unknown"),
    a_message_again_after_a_kill, documents(12.5), documents(13, fault=True), locks(12.5), a_refused_write,
    taken_up_after(7), taken_up_late_because_the_server_was_out, quiet_after(4), a_busy_node,
    a_node_that_was_stopped,
]  # fmt: skip


def ahead(world: Synthetic) -> None:
    """A node whose clock is ahead fires what is due in some seconds, also what is paused before that."""
    _one(world)
    world.run("j", 10, t=7)
    world.message("m", 10)
    world.delivered("m", 7)
    world.interval("i", every=5, first=10)
    world.call("pause_job", "i", 8)
    world.run("i", 10, t=7)
    world.fault("clock", 6, 12, "n0", detail={"seconds": 4.0})


def frozen_with_the_file(world: Synthetic) -> None:
    """The process that had the file locked was frozen, and so nobody could renew a lease."""
    repeat(world)
    world.fault("freeze-in-call", 10.2, 15, "n2")


def a_jump_of_the_clock(world: Synthetic) -> None:
    repeat(world)
    world.fault("clock", 10.2, 15, "n0", detail={"seconds": 4.0})


@pytest.mark.parametrize(("case", "store", "other"), [
    (a_jump_of_the_clock, "sqlite", "etcd"),
    (ahead, "sqlite", "postgresql"), (ahead, "etcd", "redis"), (frozen_with_the_file, "sqlite", "mariadb"),
])  # fmt: skip
def test_some_causes_count_on_some_stores_only(case: Case, store: str, other: str) -> None:
    assert _kinds(case, store=store) == {}
    assert _kinds(case, store=other) != {}


def _name(value: object) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("case", "kinds"), VIOLATED, ids=_name)
def test_a_broken_promise_is_found_and_nothing_else(case: Case, kinds: str) -> None:
    assert sorted(_kinds(case)) == kinds.split(", ")


@pytest.mark.parametrize("case", JUSTIFIED, ids=_name)
def test_what_has_a_cause_is_no_violation(case: Case) -> None:
    assert _kinds(case) == {}


def _whole(nodes: int, jobs: int, firings: int) -> Synthetic:
    """Return a run in which all goes well but for one freeze, of which one refused end tells."""
    read = firings + 40.0
    world = Synthetic(nodes, read=read, faults=("freeze",))
    for number in range(jobs):
        world.interval(f"i{number}")
        world.runs(f"i{number}", node=f"n{number % nodes}", seconds=0.02)
    repeat(world)
    world.fault("freeze", 10.1, 14, "n0")
    world.event("LEASE_LOST", 14.1)
    return world


def test_a_run_without_violations_is_valid() -> None:
    verdict = judge(_whole(3, 3, 60).build())
    assert (verdict.outcome, verdict.text()) == ("VALID", "VALID")
    assert verdict.figures["repeats"] == {"freeze": 1}
    assert verdict.figures["refused_ends"] == 1


def test_a_run_in_which_nothing_stale_tried_to_finish_proves_nothing() -> None:
    world = _whole(3, 3, 60)
    world.history.events.clear()
    verdict = judge(world.build())
    assert verdict.outcome == "INCONCLUSIVE"
    assert "no end was refused" in verdict.text()


@pytest.mark.parametrize(("given_faults", "kind", "why"), [
    (("freeze", "reset"), "freeze", "never happened: reset"), (("freeze",), "earthquake", "does not know: earthquake"),
])  # fmt: skip
def test_a_run_with_the_wrong_faults_proves_nothing(given_faults: tuple[str, ...], kind: str, why: str) -> None:
    world = Synthetic(faults=given_faults)
    _one(world)
    world.run("j", 10)
    world.fault("freeze", 20, 24, "n0")
    world.fault(kind, 30, 34, "n1")
    world.event("LEASE_LOST", 24.1)
    assert why in " ".join(judge(world.build()).doubts)


def given_up_by_itself(world: Synthetic) -> None:
    repeat(world)
    world.history.records[0].reason = "its lease could not be renewed"


def short_stalls(world: Synthetic) -> None:
    repeat(world)
    world.fault("stall", 9, 9.5, "n0")
    world.fault("stall", 9.2, 9.6, None)
    world.fault("stall", 11, 11.4, "n0")


def a_stall_that_is_a_planned_pause(world: Synthetic) -> None:
    repeat(world)
    world.fault("freeze-short", 10.1, 11.2, "n0")
    world.fault("stall", 10, 11.3, "n0")


def test_stalls_count_together_where_the_machine_may_be_busy_but_not_those_that_are_faults() -> None:
    assert _kinds(short_stalls, timed=False) == {}
    assert _kinds(short_stalls) == {"repeated": 1}
    assert _kinds(a_stall_that_is_a_planned_pause, timed=False) == {"repeated": 1}


def test_a_lease_that_its_owner_gives_up_excuses_a_repeat_where_the_machine_may_be_busy() -> None:
    assert _kinds(given_up_by_itself, timed=False) == {}
    assert _kinds(given_up_by_itself) == {"repeated": 1}
    assert _kinds(repeat, timed=False) == {"repeated": 1}


def test_times_are_no_violations_where_the_machine_may_be_busy() -> None:
    assert _kinds(a_lost_firing, timed=False) == {"missing": 1}
    assert _kinds(a_job_that_stands_still)["missing"] > _kinds(a_job_that_stands_still, timed=False)["missing"] > 0
    assert _kinds(taken_up_after(9), timed=False) == {}
    assert _kinds(quiet_after(7), timed=False) == {}


def test_the_evidence_is_a_time_line_of_the_firing_with_the_faults_that_overlapped() -> None:
    world = Synthetic()
    with_fault("freeze", 10.1, 14, "n2")(world)
    world.fault("freeze-short", 10.5, 11.5, "n0")
    text = judge(world.build()).text()
    assert text.startswith("VIOLATED\n\nrepeated: 1\nj: attempt 1 was started again")
    events = [line.split("s  ", 1)[1].split() for line in text.splitlines() if " s  " in line]
    assert [event[:2] for event in events] == [
        ["client", "add_job"], ["n0/1", "start"], ["nemesis", "begin"], ["nemesis", "heal"], ["n0/1", "end"],
        ["history", "record"], ["n1/1", "start"], ["n1/1", "end"], ["history", "record"],
    ]  # fmt: skip


def test_the_work_grows_with_the_number_of_firings_and_not_with_its_square() -> None:
    small, large = _whole(5, 10, 100).build(), _whole(5, 10, 1000).build()
    verdict, few = calls_of(lambda: judge(small))
    assert verdict.outcome == "VALID"
    verdict, many = calls_of(lambda: judge(large))
    assert verdict.outcome == "VALID"
    times = len(large.executions) / len(small.executions)
    assert times > 7
    assert many < 2 * times * few


@given(st.lists(st.sampled_from(["add", "remove", "pause", "resume", "sync"]), max_size=8), st.data())
@settings(max_examples=200, deadline=None)
def test_a_job_has_to_fire_exactly_where_a_walk_through_the_calls_says(names: list[str], data: st.DataObject) -> None:
    world = Synthetic(read=60.0)
    t, state, states = 1.0, OFF, []
    spec = {"kind": "interval", "every": 0.25, "first": OFFSET + 0.125}
    for name in names:
        result = data.draw(st.sampled_from(["ok", "fail", "unknown"]))
        t1 = t + data.draw(st.sampled_from([0.01, 1.5]))
        op = {"add": "add_job", "remove": "remove_job", "pause": "pause_job", "resume": "resume_job"}.get(name)
        if op is None:
            world.call("add_jobs", None, t, t1, result, jobs={"i": spec})
        else:
            world.call(op, "i", t, t1, result, **(spec if name == "add" else {}))
        if result != "fail":
            after = MAYBE if result == "unknown" else OFF if name in ("remove", "pause") else ON
            states += [(t, t1, MAYBE), (t1, 1e9, after)]
        t = t1 + 2.0
    history = world.build()
    schedule = schedules_of(history).get("i")
    if schedule is None or not schedule.specs:
        return
    for at, target in targets_of(history, schedule).items():
        moment = history.mono(at / 1e6)
        state = next((each for begin, end, each in reversed(states) if begin <= moment < end), OFF)
        near = any(abs(moment - edge) <= history.setup.epsilon for begin, end, _ in states for edge in (begin, end))
        assert near or target.state == state


def _folder(path: Path) -> Path:
    """Write a small run as the harness does."""
    run = {
        "store": "redis", "seed": 7, "lease": 3, "faults": ["kill", "freeze_short"], "wall_offset": OFFSET,
        "epsilon": 0.02, "recovery": 8, "resume": 5, "heal": 50.0, "read": 80.0, "mutant": None,
    }  # fmt: skip
    (path / "run.json").write_text(json.dumps(run))
    spec = {"kind": "date", "at": OFFSET + 10}
    _write(path / "client.jsonl", {"t0": 1, "t1": 1.1, "op": "add_job", "id": "j", "spec": spec, "result": "ok"})
    start = {"e": "start", "job": "j", "kind": "date", "run": "r", "fire": "j@10", "at": OFFSET + 10, "attempt": 1}
    own = [{"node": f"n{number}", "life": 1} for number in range(2)]
    _write(
        path / "ledger-n0-1.jsonl", {"t": 0.0, "e": "ready", "pid": 1, "owner": "o0", **own[0]},
        {"t": 10.01, **start, "fence": 3, **own[0]},
    )
    _write(
        path / "ledger-n1-1.jsonl", {"t": 0.1, "e": "ready", "pid": 2, "owner": "o1", **own[1]},
        {"t": 14.5, **start, "fence": 4, **own[1]},
        {"t": 14.6, **start, "e": "end", "fence": 4, "outcome": "ok", **own[1]},
        {"t": 15, "e": "lock", "name": "l", "fence": 1, "phase": "acquired", **own[1]},
        {"t": 16, "e": "lock", "name": "l", "fence": 1, "phase": "released", **own[1]},
        {"t": 16, "e": "document", "id": 5, "token": "x", "phase": "start", **own[1]},
    )
    with (path / "ledger-n1-1.jsonl").open("a") as file:
        file.write('{"t": 17, "e": "docum')  # torn by a full disk
    _write(
        path / "nemesis.jsonl", {"t": 10.2, "fault": "kill", "phase": "begin", "node": "n0", "life": 1},
        {"t": 10.2, "fault": "kill", "phase": "end", "node": "n0", "life": 1},
        {"t": 30, "fault": "freeze_short", "phase": "begin", "node": "n1", "life": 1},
        {"t": 31, "fault": "freeze_short", "phase": "end", "node": "n1", "life": 1},
    )
    record = {"job": "j", "run": "r", "fire": "j@10", "at": OFFSET + 10, "attempt": 1, "owner": "o"}
    final = {"jobs": [], "history": [
        {**record, "fence": 3, "outcome": "lost", "started_at": None, "finished_at": OFFSET + 14},
        {**record, "fence": 4, "outcome": "succeeded", "started_at": OFFSET + 14.5, "finished_at": OFFSET + 14.6},
    ], "live": [], "pending": [], "dead": []}  # fmt: skip
    (path / "final.json").write_text(json.dumps(final))
    return path


def _write(path: Path, *rows: dict[str, object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_recorded_run_is_read_and_judged(tmp_path: Path) -> None:
    verdict = check(_folder(tmp_path))
    assert verdict.text() == "VALID"
    assert verdict.figures["repeats"] == {"kill": 1}
    assert (verdict.figures["locks"], verdict.figures["documents"]) == (1, 1)
    assert verdict.figures["faults"] == {"kill": 1, "freeze-short": 1}


def test_a_line_that_is_torn_in_the_middle_of_a_ledger_is_an_error(tmp_path: Path) -> None:
    ledger = _folder(tmp_path) / "ledger-n0-1.jsonl"
    ledger.write_text('{"t": 1, "e"\n' + ledger.read_text())
    with pytest.raises(ValueError, match=r"ledger-n0-1.jsonl:1 is no JSON"):
        check(tmp_path)


def test_the_page_of_a_run_shows_its_calls_faults_and_verdict_and_loads_nothing(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "nemesis.jsonl").write_text("")
    verdict = check(folder)
    assert dict(verdict.kinds) == {"repeated": 1, "max_instances": 1}
    verdict.write(folder)
    page = timeline.write(folder).read_text()
    assert "VIOLATED" in page
    assert page.count("<rect class='cut'") == 1
    assert page.count("<rect class='ok'") == 1
    assert "href='#repeated'" in page
    assert "id='repeated'" in page
    assert not re.search(r"(src|href)='(?!#)|https?://|@import|url\(", page)
