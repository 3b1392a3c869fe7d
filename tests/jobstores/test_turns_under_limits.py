"""Runs that wait for a limit have their turn, however often the jobs fire that share it with them."""

from __future__ import annotations

from collections import Counter

import pytest
from record_places import STORES
from sqlalchemy import event

from goscheduler import Limit
from goscheduler.jobstores.memory import MemoryJobStore
from goscheduler.jobstores.sqlalchemy.claiming import MAX_SEARCHES_PER_TRANSACTION
from goscheduler.runs.model import Outcome, OutcomeKind
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, nothing
from goscheduler.testing.hosts import HeldRuns
from goscheduler.testing.scheduler import ManualScheduler

JOBS = "abcdef"
ROUNDS = 12


@pytest.fixture(params=["memory", *STORES])
def store(request, url_of):
    kind = request.param
    return MemoryJobStore() if kind == "memory" else STORES[kind].from_url(url_of(kind), server_time=False)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_nobody_is_starved_where_all_are_due_when_places_become_free(store, overlap):
    executor = HeldRuns()
    started = []
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}, executors={"default": executor}) as made:
        for name in JOBS:
            made.add_job(nothing, "interval", seconds=1, id=name, overlap=overlap, limits=Limit("x", concurrency=2))
        for _ in range(ROUNDS):
            for run in list(executor.held.values()):
                executor.end(run, Outcome(OutcomeKind.SUCCEEDED, started_at=made.clock.now()))
            made.engine.settler.settle_reported()
            made.clock.advance(1)
            made.run_due()
            assert len(executor.held) <= 2
            started += [run.job.id for run in executor.held.values()]
    counts = Counter(started)
    assert min(counts[name] for name in JOBS) >= ROUNDS * 2 // len(JOBS) // 2, counts


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_round_of_a_sql_store_takes_as_many_statements_for_many_runs_that_wait_as_for_few(kind, url_of):
    few, many = (statements_of_a_round(STORES[kind].from_url(url_of(kind), server_time=False), n) for n in (4, 40))
    assert many <= few + 2, (few, many)


def statements_of_a_round(store, jobs):
    """Return how many statements it takes to end one run of each limit, and to start, hold and put off all others."""
    executor, asked = HeldRuns(), []
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}, executors={"default": executor}) as made:
        event.listen(store._database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
        made.remove_all_jobs()
        for number in range(jobs):
            limits = Limit(f"tenant-{number % (jobs // 2)}", concurrency=1), Limit("all", concurrency=jobs // 4)
            made.add_job(nothing, "interval", seconds=1, id=f"job-{number:02}", overlap="queue", limits=limits)
        made.clock.advance(1)
        made.run_due()
        for run in list(executor.held.values()):
            executor.end(run, Outcome(OutcomeKind.SUCCEEDED, started_at=made.clock.now()))
        asked.clear()
        made.engine.settler.settle_reported()
        made.run_due()
        assert executor.held
        return len(asked)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_a_transaction_of_a_sql_store_is_bounded_however_many_runs_have_to_wait(kind, url_of):
    few, many = (statements_of_a_backlog(STORES[kind].from_url(url_of(kind), server_time=False), n) for n in (30, 900))
    assert many <= few + MAX_SEARCHES_PER_TRANSACTION * 20, (few, many)


class FiveAtOnce(HeldRuns):
    def room(self):
        return 5 - len(self.held)


def statements_of_a_backlog(store, times):
    """Return how many statements the longest transaction takes while runs that have to wait are worked off in part."""
    executor, asked, longest = FiveAtOnce(), [], 0
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": store}, executors={"default": executor}) as made:
        event.listen(store._database.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
        made.remove_all_jobs()
        made.add_job(nothing, "interval", seconds=1, id="gathered", coalesce=False, max_instances=2)
        made.clock.advance(times)
        for _ in range(5):
            asked.clear()
            made.run_due()
            longest = max(longest, len(asked))
            assert len(executor.held) == 2
            for run in list(executor.held.values()):
                executor.end(run, Outcome(OutcomeKind.SUCCEEDED, started_at=made.clock.now()))
            made.engine.settler.settle_reported()
        return longest
