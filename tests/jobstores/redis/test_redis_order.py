"""Whatever happens in one step of the Redis store, and in which order, no job and no run drops out of its lists."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis_lists import astray

from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Owner
from goscheduler.runs.transitions import asked_for
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, JobMaker, Requests, succeeded
from goscheduler.testing.contract_owners import LEASE
from goscheduler.testing.scheduler import ManualScheduler

MINUTE = timedelta(minutes=1)
LIMITS = {
    "few": Limit("few", concurrency=1),
    "some": Limit("some", concurrency=2),
    "slow": Limit("slow", rate="1/1m"),
}
#: In one lane what is due at the same time goes by the names, so that the order of the list is that of the items.
LIMITED = st.lists(st.sampled_from([(), ("few",), ("some",), ("slow",), ("few", "slow"), ("few", "some")]), max_size=6)
#: The limits of a run that a rival claims after something was read and before the decision about it is written.
RIVALS = st.sampled_from([None, ("few",), ("some",), ("slow",), ("few", "slow")])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fire"), RIVALS),
        st.tuples(st.just("claim"), RIVALS),
        st.tuples(st.just("ask"), LIMITED),
        st.tuples(st.just("settle"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(1, 2)),
    ),
    max_size=8,
)


@pytest.fixture
def url(redis_server, fresh):
    return fresh(redis_server).url


class Cluster:
    """Two stores on the same data, and what they have started."""

    def __init__(self, url):
        scheduler = ManualScheduler(clock=ManualClock(NOW))
        prefix = uuid4().hex
        self.make_job, self.requests = JobMaker(scheduler), Requests()
        self.ours, self.theirs = (RedisJobStore(url=url, prefix=prefix, server_time=False) for _ in range(2))
        for store, owner in ((self.ours, "owner-1"), (self.theirs, "owner-2")):
            store.start(scheduler, "default")
            store.renew_owner(Owner(owner), NOW, 1000 * LEASE)
        self.now, self.live, self.asked = NOW, [], 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ours.shutdown()
        self.theirs.shutdown()

    def job(self, job_id, names):
        return self.make_job(job_id, limits=[LIMITS[name] for name in names], misfire_grace_time=None)

    def add(self, limited):
        for number, names in enumerate(limited):
            self.ours.add_job(self.job(f"job-{number}", names))

    def ask(self, limited):
        for number, names in enumerate(limited):
            self.asked += 1
            self.ask_for(f"asked-{self.asked:03}", f"job-{number}", names)

    def ask_for(self, run_id, job_id, names):
        self.ours.add_run(asked_for(self.job(job_id, names), run_id, self.now))

    def fire(self, rival):
        self._while_a_rival_claims("write_due", rival)
        self.live += self.requests.fire(self.ours, now=self.now).runs

    def claim(self, rival):
        self._while_a_rival_claims("write_ready", rival)
        self.live += self.requests.claim(self.ours, now=self.now).runs

    def settle(self, number):
        if number < len(self.live):
            assert not self.ours.settle([succeeded(self.live.pop(number), self.now)])

    def wait(self, minutes):
        self.now += minutes * MINUTE

    def _while_a_rival_claims(self, step, limits):
        scripts = self.ours._scripts
        real = type(scripts).call

        def interrupted(name, *arguments):
            if name == step:
                scripts.call = real.__get__(scripts)
                self._rival_claims(limits)
            return real(scripts, name, *arguments)

        scripts.call = real.__get__(scripts) if limits is None else interrupted

    def _rival_claims(self, limits):
        self.asked += 1
        self.theirs.add_run(asked_for(self.job("rival", limits), f"rival-{self.asked:03}", self.now))
        claimed = self.requests.claim(self.theirs, now=self.now, owner="owner-2")
        self.live += claimed.runs


@given(jobs=LIMITED, steps=STEPS)
@example(jobs=[("few",), ("some",), ("some",)], steps=[("fire", ("few",))])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_order_of_decisions_takes_a_job_or_a_run_out_of_its_lists(url, jobs, steps):
    with Cluster(url) as cluster:
        cluster.add(jobs)
        for name, argument in steps:
            getattr(cluster, name)(argument)
            assert not astray(cluster.ours)


def test_a_job_whose_limit_a_rival_has_taken_is_due_still_and_so_are_the_others(url):
    with Cluster(url) as cluster:
        cluster.add([("few",), ("some",), ("slow",)])
        cluster.fire(("few",))
        assert not astray(cluster.ours)
        for _ in range(4):
            while cluster.live:
                cluster.settle(0)
            cluster.wait(1)
            cluster.fire(None)
        fired = {run.job.id for run in cluster.live}
        assert fired == {"job-0", "job-1", "job-2"}


def test_a_run_that_waits_for_a_rate_after_another_was_refused_waits_in_line(url):
    with Cluster(url) as cluster:
        cluster.ask_for("0", "first", ("slow",))
        cluster.claim(None)
        cluster.ask_for("1", "refused", ("few",))
        cluster.ask_for("2", "put off", ("slow",))
        cluster.claim(("few",))
        assert not astray(cluster.ours)
        while cluster.live:
            cluster.settle(0)
        cluster.wait(2)
        cluster.claim(None)
        assert {run.job.id for run in cluster.live} == {"refused", "put off"}


def test_a_run_that_is_held_before_a_turn_is_passed_on_in_the_same_step_gets_that_turn(url):
    with Cluster(url) as cluster:
        cluster.ask_for("0", "first", ("few",))
        cluster.ask_for("4", "busy", ("few",))
        cluster.claim(None)
        cluster.settle(0)
        cluster.ask_for("1", "next", ("few",))
        cluster.ask_for("2", "held", ("few",))
        cluster.ask_for("3", "busy", ())
        cluster.claim(None)
        assert [run.id for run in cluster.live] == ["1", "3"]
        assert not astray(cluster.ours)
        cluster.settle(0)
        cluster.claim(None)
        assert [run.id for run in cluster.live] == ["3", "2"]
