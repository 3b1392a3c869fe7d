"""Rules on real jobs: what is gathered from stores is what the rules look at."""

from __future__ import annotations

import os
import threading

import pytest
from alert_doubles import Told
from operation_doubles import fail, nothing

from goscheduler import BackgroundScheduler, Limit
from goscheduler.alerts import (
    Alert,
    Alerts,
    ClockSkew,
    DeadLetters,
    FailureRate,
    Failures,
    JobSuspended,
    Late,
    LimitFull,
    Missed,
    NoSuccess,
    Processes,
    ProcessLost,
    Queue,
    Slow,
    StoreDown,
)
from goscheduler.alerts.gather import ProcessMemory, gather, usual_seconds
from goscheduler.alerts.match import read_match
from goscheduler.alerts.rules import RULES
from goscheduler.executors.pool import ThreadPoolExecutor
from goscheduler.observer import Observer
from goscheduler.testing import ManualClock, ManualScheduler


@pytest.fixture(params=["sqlite", "memory"])
def scheduler(request, url_of):
    """A scheduler whose time a test moves, with its jobs in a store."""
    stores = {} if request.param == "memory" else {"jobstores": {"default": url_of(request.param)}}
    with ManualScheduler(lease=3600, **stores) as scheduler:
        yield scheduler


def broken(scheduler, rule, match="", memory=None):
    """Return the targets for which a rule is broken."""
    facts = gather(scheduler, read_match(match), rule.needs, memory or ProcessMemory())
    return [breach.target for breach in rule.find(facts)]


def test_every_rule_finds_nothing_among_jobs_that_are_well(scheduler):
    scheduler.add_job(nothing, "interval", minutes=1, id="well", tags=["billing"])
    scheduler.advance("10m")
    rules = [rule(p95="1h") if rule is Late else rule(depth=9) if rule is Queue else rule() for rule in RULES.values()]
    for match in ("", "tag:billing", "job:well"):
        assert [broken(scheduler, rule, match) for rule in rules] == [[]] * len(rules)


def test_failures_are_found_by_tag_by_job_and_among_all(scheduler):
    scheduler.add_job(fail, "interval", minutes=1, id="bad", args=[17], tags=["billing"])
    scheduler.add_job(nothing, "interval", minutes=1, id="well", tags=["billing"])
    scheduler.advance("2m")
    for match, expected in (("", ["bad"]), ("tag:billing", ["bad"]), ("job:bad", ["bad"]), ("job:well", []),
                            ("tag:other", []), ("text:BA", ["bad"])):  # fmt: skip
        assert broken(scheduler, Failures(2), match) == expected
        assert broken(scheduler, Failures(3), match) == []
    assert broken(scheduler, FailureRate(0.4, 4), "tag:billing") == ["tag:billing"]
    assert broken(scheduler, FailureRate(0.5, 4), "tag:billing") == []
    assert broken(scheduler, FailureRate(0.9, 2), "job:bad") == ["job:bad"]


def test_a_job_without_success_is_found_also_if_it_is_paused_or_gone(scheduler):
    for job_id in ("fails", "paused", "well", "removed"):
        scheduler.add_job(fail if job_id == "fails" else nothing, "interval", hours=1, id=job_id, args=[1])
    scheduler.pause_job("paused", by="ann")
    scheduler.remove_job("removed")
    scheduler.advance("2h5m")
    assert sorted(broken(scheduler, NoSuccess("schedule+4m"))) == ["fails", "paused"]
    assert sorted(broken(scheduler, NoSuccess("1h30m"))) == ["fails", "paused"]
    assert sorted(broken(scheduler, NoSuccess("3h"))) == []
    assert sorted(broken(scheduler, NoSuccess(), "job:removed job:well")) == ["removed"]
    told = gather(scheduler, read_match("job:paused"), ["jobs"], ProcessMemory()).jobs
    assert told[0].obstacle == "paused by ann"


def test_what_is_due_and_what_was_missed_is_found(scheduler):
    scheduler.add_job(nothing, "interval", minutes=1, id="late", tags=["billing"], misfire_grace_time=5)
    scheduler.pause()
    scheduler.clock.advance("5m")
    for match in ("", "tag:billing", "job:late"):
        assert broken(scheduler, Queue(age="3m"), match) != []
        assert broken(scheduler, Queue(age="4m1s"), match) == []
        assert broken(scheduler, Late(oldest="3m"), match) != []
    assert broken(scheduler, Queue(age="3m"), "tag:other") == []
    scheduler.add_job(nothing, "interval", minutes=1, id="other", next_run_time=scheduler.clock.now())
    scheduler.clock.advance(1)
    assert broken(scheduler, Queue(depth=1)) == ["all jobs"]
    scheduler.clock.advance("30s")
    scheduler.resume()
    scheduler.run_due()
    assert broken(scheduler, Missed(2), "tag:billing") == ["late"]
    assert broken(scheduler, Missed(2), "tag:other") == []


def test_dead_letters_and_suspended_jobs_are_found(scheduler):
    scheduler.add_job(fail, "interval", minutes=1, id="bad", args=[17], tags=["billing"], dead_letter=True)
    scheduler.advance("3m")
    (target,) = broken(scheduler, DeadLetters(3), "tag:billing")
    assert target.endswith("fail ValueError: order … is broken")
    assert broken(scheduler, DeadLetters(4)) == []
    if not next(iter(scheduler.engine.stores.values())).shared:
        scheduler.add_job(nothing, "interval", minutes=1, id="nowhere", executor="gpu")
        scheduler.advance("1m")
        assert broken(scheduler, JobSuspended()) == ["nowhere"]
        assert broken(scheduler, JobSuspended(), "job:bad") == []


def test_a_limit_that_runs_wait_for_and_a_run_that_takes_long_are_found():
    going, begun = threading.Event(), threading.Event()

    def work():
        begun.set()
        assert going.wait(60)

    scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(4)})
    scheduler.start()
    try:
        limit = Limit("api", concurrency=1)
        for number in range(3):
            scheduler.add_job(work, id=f"work-{number}", limits=[limit])
        assert begun.wait(60)
        while not scheduler.live_runs() or broken(scheduler, LimitFull()) != ["api"]:
            pass
        assert broken(scheduler, LimitFull("other")) == []
        (running,) = gather(scheduler, read_match(""), ["running"], ProcessMemory()).running
        assert (running.usual, running.seconds >= 0) == (None, True)
        assert broken(scheduler, Slow()) == []
    finally:
        going.set()
        scheduler.shutdown()


def test_a_usual_duration_is_that_of_earlier_runs(scheduler):
    def work():
        scheduler.clock.advance(10)

    if next(iter(scheduler.engine.stores.values())).shared:
        scheduler.register("work", work)
        scheduler.add_job("work", "interval", hours=1, id="a")
    else:
        scheduler.add_job(work, "interval", hours=1, id="a")
    scheduler.advance("5h")
    assert usual_seconds(scheduler, "a") == pytest.approx(10)
    assert usual_seconds(scheduler, "nobody") is None


def test_a_process_that_dies_is_told_and_one_that_leaves_is_not(url_of):
    clock, url, told = ManualClock(), url_of("sqlite"), Told()
    dies = ManualScheduler(jobstores={"default": url}, clock=clock, lease=30)
    leaves = ManualScheduler(jobstores={"default": url}, clock=clock, lease=30)
    rules = [ProcessLost(), Processes(1), StoreDown(), ClockSkew()]
    with Observer(url, clock=clock) as observer:
        alerts = Alerts(observer, [Alert("cluster", rules, to=["ops"])], {"ops": told}, grouping=0)
        dies.start()
        leaves.start()
        alerts.evaluate()
        leaves.shutdown()
        for _ in range(6):
            clock.advance(10)
            alerts.evaluate()
        (lost,) = told.notices
        assert (lost.rule, lost.targets) == ("process_lost", [f"{dies.engine.host}:{os.getpid()}"])
        for _ in range(10):
            clock.advance(10)
            alerts.evaluate()
        assert [notice.rule for notice in told.notices] == ["process_lost", "processes"]
