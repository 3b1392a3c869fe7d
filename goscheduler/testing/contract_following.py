"""The part of the contract of a job store that is about jobs which follow others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from goscheduler.executors.context import current_run
from goscheduler.runs.model import JobState
from goscheduler.runs.retry import Retry, fixed
from goscheduler.testing.scheduler import ManualScheduler

#: What happened, in order.
calls: list[Any] = []
#: How the next attempts end; what is not in it goes well.
script: list[str] = []

def first() -> None:
    """The job that others follow."""
    calls.append("first")
    if script and script.pop(0) == "fails":
        raise ValueError("as the script says")


def second() -> None:
    """A job that follows it."""
    calls.append("second")


def third() -> None:
    """Another one, which tells whom it follows."""
    calls.append(("third", {job_id: run.run_id for job_id, run in current_run().upstream.items()}))


class FollowingContract:
    """Jobs that wait for others in one store, with a scheduler of one thread on it."""

    @pytest.fixture
    def following(self, scheduler: ManualScheduler) -> Iterator[ManualScheduler]:
        """A started scheduler on a new store."""
        calls.clear()
        script.clear()
        scheduler.add_jobstore(self.make_store())  # type: ignore[attr-defined]
        with scheduler:
            yield scheduler

    def test_a_follower_waits_fires_once_for_each_end_and_waits_again(self, following: ManualScheduler) -> None:
        scheduler = following
        scheduler.add_job(first, "interval", seconds=20, id="first")
        scheduler.add_job(second, after="first", id="second", delay="5s")
        scheduler.add_job(third, after=["first", "second"], id="third")
        scheduler.add_job(second, "interval", hours=9, id="paused", next_run_time=None)
        assert states(scheduler) == {"first": "scheduled", "second": "waiting", "third": "waiting", "paused": "paused"}
        assert found(scheduler, "waiting") == ["second", "third"]
        assert found(scheduler, "paused") == ["paused"]
        assert scheduler.why("third") == (
            "It waits for 'first', which has not succeeded yet; and for 'second', which has not succeeded yet."
        )
        scheduler.advance("20s")
        assert calls == ["first"]
        assert scheduler.why("third") == "It waits for 'second', which has not succeeded yet."
        scheduler.advance("5s")
        runs = {job_id: scheduler.runs(job_id)[0].run_id for job_id in ("first", "second")}
        assert calls == ["first", "second", ("third", runs)]
        assert found(scheduler, "waiting") == ["second", "third"], "one that has fired has not finished"
        scheduler.advance("40s")
        names = [call if isinstance(call, str) else call[0] for call in calls]
        assert names == ["first", "second", "third"] * 3, names
        assert scheduler.engine.stores["default"].prune_finished_jobs(
            scheduler.engine.retention, scheduler.clock.now() + timedelta(days=400), 100
        ) == []  # fmt: skip

    def test_only_the_last_failure_counts_and_a_redriven_run_that_goes_well(self, following: ManualScheduler) -> None:
        scheduler = following
        scheduler.add_job(first, "interval", days=1, id="first", retry=Retry(max_attempts=2, backoff=fixed(4)))
        for on in ("success", "failure", "end"):
            scheduler.add_job(second, after="first", on=on, id=on)
        scheduler.pause_job("first")
        script[:] = ["fails", "fails"]
        run_id = scheduler.run_now("first")
        scheduler.run_due()
        scheduler.advance("2s")
        assert attempts(scheduler) == {"success": 0, "failure": 0, "end": 0}, "the run is to be tried again"
        scheduler.advance("2s")
        assert attempts(scheduler) == {"success": 0, "failure": 1, "end": 1}, "no more attempts"
        scheduler.redrive(run_id)
        look(scheduler)
        assert attempts(scheduler) == {"success": 1, "failure": 1, "end": 2}
        look(scheduler)
        assert attempts(scheduler) == {"success": 1, "failure": 1, "end": 2}, "nothing is followed twice"

    def test_housekeeping_finds_an_end_that_nobody_followed_and_an_upstream_that_is_gone(
        self, following: ManualScheduler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scheduler = following
        scheduler.add_job(first, "interval", days=1, id="first")
        scheduler.add_job(second, after="first", id="second")
        with monkeypatch.context() as crash:  # as if the process had died in between
            crash.setattr(scheduler.engine.following, "settled", lambda *_: None)
            for _ in range(2):
                scheduler.run_now("first")
                scheduler.run_due()
        assert calls == ["first", "first"]
        scheduler.advance("61s")
        assert calls == ["first", "first", "second"], "two ends before it starts are followed by one run"
        scheduler.run_now("second")
        scheduler.run_due()
        look(scheduler)
        assert calls == ["first", "first", "second", "second"]
        self._lose_and_regain_the_upstream(scheduler)

    def _lose_and_regain_the_upstream(self, scheduler: ManualScheduler) -> None:
        """A follower of a job that is gone is suspended until it is back."""
        calls.clear()
        store = scheduler.engine.stores["default"]
        scheduler.remove_job("first")
        look(scheduler)
        if store.shared or store.keeps_objects:
            assert found(scheduler, "suspended") == ["second"]
            assert scheduler.why("second") == "It is suspended: waits for 'first', which does not exist."
        else:
            assert scheduler.why("second") == "It waits for 'first', which does not exist."
        scheduler.add_job(first, "interval", days=1, id="first")
        look(scheduler)
        assert found(scheduler, "waiting") == ["second"]
        scheduler.run_now("first")
        scheduler.run_due()
        assert calls == ["first", "second"]

    def test_a_paused_follower_follows_what_ends_after_it_was_resumed(self, following: ManualScheduler) -> None:
        scheduler = following
        scheduler.add_job(first, "interval", days=1, id="first")
        scheduler.add_job(second, after="first", id="second")
        scheduler.pause_job("second", by="anna")
        assert states(scheduler)["second"] == "paused"
        assert found(scheduler, "paused") == ["second"]
        scheduler.run_now("first")
        look(scheduler)
        assert scheduler.why("second") == "It was paused by anna."
        scheduler.resume_job("second")
        look(scheduler)
        scheduler.advance(1)
        assert calls == ["first"]
        assert states(scheduler)["second"] == "waiting"
        scheduler.run_now("first")
        scheduler.run_due()
        assert calls == ["first", "first", "second"]
        scheduler.reschedule_job("second", trigger="interval", hours=1)
        assert states(scheduler)["second"] == "scheduled"
        scheduler.reschedule_job("second", after="first", on="end")
        assert states(scheduler)["second"] == "waiting"
        look(scheduler)
        assert calls == ["first", "first", "second"], "what has ended before is not followed"

        scheduler.remove_all_jobs()
        self._follow_a_chain(scheduler)

    def _follow_a_chain(self, scheduler: ManualScheduler) -> None:
        """A chain is followed to its end, and its one-off head is kept."""
        calls.clear()
        jobs = scheduler.chain([first, second, second], "date", id="once")
        assert [job.id for job in jobs] == ["once", "once.2", "once.3"]
        look(scheduler)
        assert calls == ["first", "second", "second"]
        assert states(scheduler) == {"once": "completed", "once.2": "waiting", "once.3": "waiting"}


def look(scheduler: ManualScheduler) -> None:
    """Do what housekeeping does about followers, and what comes of it."""
    scheduler.run_due()
    scheduler.engine.following.look()
    scheduler.run_due()


def states(scheduler: ManualScheduler) -> dict[str, str]:
    """Return id → state of all jobs."""
    found = {job.id: job.state for job in scheduler.get_jobs()}
    assert [state.value for state in scheduler.job_states(scheduler.get_jobs())] == [
        found[job.id].value for job in scheduler.get_jobs()
    ]
    return {job_id: state.value for job_id, state in found.items()}


def found(scheduler: ManualScheduler, state: str) -> list[str]:
    """Return the ids of the jobs that a store finds by a state, and counts too."""
    jobs = sorted(job.id for job in scheduler.get_jobs(state=state))
    assert sorted(job.id for job in scheduler.get_jobs(state=state, sort="id")) == jobs
    assert scheduler.count_jobs(state=state).number == len(jobs)
    assert JobState(state) in JobState
    return jobs


def attempts(scheduler: ManualScheduler) -> dict[str, int]:
    """Return id → how often each of the followers ran."""
    return {on: len(scheduler.runs(on)) for on in ("success", "failure", "end")}
