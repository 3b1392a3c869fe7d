"""A function is given together with its arguments."""

from __future__ import annotations

import pytest

from goscheduler import Call, call
from goscheduler.errors import InvalidArgument
from goscheduler.testing import ManualScheduler

SENT: list[tuple[int, bool]] = []


def send(order: int, urgent: bool = False) -> None:
    SENT.append((order, urgent))


@pytest.fixture
def scheduler():
    SENT.clear()
    with ManualScheduler() as scheduler:
        yield scheduler


def test_a_job_makes_the_call_that_it_was_added_with(scheduler):
    job = scheduler.add_job(call(send, 7, urgent=True), id="a")
    (other,) = scheduler.add_jobs([{"func": call(send, 8)}])
    assert (job.func, job.args, job.kwargs) == (send, (7,), {"urgent": True})
    assert other.func_ref == f"{__name__}:send"
    scheduler.run_due()
    assert SENT == [(7, True), (8, False)]


def test_a_changed_job_makes_the_new_call_with_its_own_arguments_only(scheduler):
    job = scheduler.add_job(call(send, 7, urgent=True), id="a")
    job.modify(func=call(send, 9))
    scheduler.run_due()
    assert SENT == [(9, False)]


@pytest.mark.parametrize("beside", [{"args": [1]}, {"kwargs": {"urgent": True}}])
def test_arguments_beside_a_call_are_refused_before_anything_is_changed(scheduler, beside):
    with pytest.raises(InvalidArgument, match=f"^{next(iter(beside))} is given beside a call.*pass all of them"):
        scheduler.add_job(call(send, 7), **beside)
    job = scheduler.add_job(send, args=[1], id="a", next_run_time=None)
    with pytest.raises(InvalidArgument, match="is given beside a call"):
        job.modify(func=call(send, 7), **beside)
    assert [(job.id, job.args) for job in scheduler.get_jobs()] == [("a", (1,))]


def test_a_call_does_not_keep_what_no_function_could_take(scheduler):
    with pytest.raises(ValueError, match="order"):
        scheduler.add_job(Call(send, (), {}))
    with pytest.raises(TypeError, match=r"takes a function .* got 'mail\.send'; give a name to add_job"):
        call("mail.send", 1)
    assert scheduler.get_jobs() == []
