"""The Redis store on a real server: the contract of all stores, the model, and what is special to it."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import threading
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
import redis
import redis_jobs
import warm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant
from redis_jobs import NOTES
from redis_lists import astray, lists_for_people
from server_process import free_port

from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import ConflictingIdError, InvalidArgument, StoreUnavailable
from goscheduler.jobstores._shared.records import history_record
from goscheduler.jobstores.redis import RedisJobStore
from goscheduler.jobstores.redis import due_work as redis_due_work
from goscheduler.jobstores.redis import scripts as redis_scripts
from goscheduler.jobstores.redis.rows import as_text
from goscheduler.jobstores.redis.scripts import unsafe_settings
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import Owner, Source
from goscheduler.runs.plan import PRIORITY_STEP_US, rank
from goscheduler.runs.records import HistoryQuery, Retention
from goscheduler.runs.transitions import asked_for
from goscheduler.schedulers._reconciliation import ends_found
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import NOW, SECOND, JobMaker, Requests, StoreContract, in_threads, succeeded
from goscheduler.testing.contract_inbox import InboxContract
from goscheduler.testing.contract_owners import LEASE, lost
from goscheduler.testing.model import StoreMachine, against_the_model
from goscheduler.testing.model_limits import limits_against_the_model
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.times import to_micros
from goscheduler.triggers.date import DateTrigger


class TestRedis(InboxContract, StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, redis_server, fresh):
        self.url = fresh(redis_server).url

    def put_in_inbox(self, store, request):
        redis_cli(self.url, "XADD", store._scripts.key("inbox"), "*", "request", request)

    def refused_in_inbox(self, store):
        refused = json.loads(redis_cli(self.url, "--json", "XRANGE", store._scripts.key("inbox:refused"), "-", "+"))
        entries = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in refused]
        return [(entry["request"], entry["reason"]) for entry in entries]

    def make_store(self):
        return RedisJobStore(url=self.url, server_time=False)


class RedisMachine(StoreMachine):
    decides_apart = True
    url = ""

    def make_store(self):
        prefix = f"machine-{uuid4().hex}"
        return RedisJobStore(url=self.url, prefix=prefix, server_time=False)

    def make_peer(self, store):
        return RedisJobStore(url=self.url, prefix=store.prefix, server_time=False)

    @invariant()
    def the_state_of_each_run_stands_with_its_job(self):
        scripts = self.store._scripts
        live = {
            (as_text(job_id), run_id)
            for job_id, runs in scripts.client.hgetall(scripts.key("live")).items()
            for run_id in as_text(runs).strip("\0").split("\0")
        }
        pending = {
            (as_text(key).removeprefix(scripts.key("pending:")), as_text(run), as_text(kind))
            for key in scripts.client.keys(scripts.key("pending:*"))
            for run, kind in scripts.client.hgetall(key).items()
        }
        assert live == {(run.job.id, run.id) for run in self.store.live_runs()}
        assert pending == {
            (run.job.id, run.id, "W" if run.source is Source.SCHEDULE else "P") for run in self.store.pending_runs()
        }

    @invariant()
    def every_job_and_run_is_where_somebody_finds_it(self):
        assert not astray(self.store)

    @invariant()
    def people_find_every_job_by_what_it_is(self):
        actual, expected = lists_for_people(self.store)
        assert actual == expected


class TestRedisAgainstTheModel(against_the_model(RedisMachine, examples=8, steps=40)):
    @pytest.fixture(autouse=True)
    def _place(self, redis_server, fresh):
        RedisMachine.url = fresh(redis_server).url


@pytest.mark.timeout(300)
class TestLimitsAgainstTheModel(limits_against_the_model(RedisMachine, examples=12)):
    @pytest.fixture(autouse=True)
    def _place(self, redis_server, fresh):
        RedisMachine.url = fresh(redis_server).url


class TestSharing:
    """Several stores on the same data."""

    def test_a_limit_holds_among_all_who_fire_at_once(self, stores, make_job, requests):
        limit = Limit("few", concurrency=3)
        for number in range(12):
            stores[0].add_job(make_job(f"job-{number}", limits=limit, trigger=DateTrigger(NOW)))
        fired = in_threads([lambda store=store: requests.fire(store) for store in stores])
        assert len([run for each in fired for run in each.runs]) <= 3
        assert len(stores[0].live_runs()) <= 3

    def test_a_turn_that_a_run_passes_on_is_taken_in_the_same_round(self, stores, make_job, requests):
        job = make_job("a", due=None, limits=Limit("rate", rate="2/10s"), max_instances=2)
        stores[0].add_job(job)
        for number in range(12):
            stores[0].add_run(asked_for(job, f"run-{number}", NOW))
        first, _ = requests.claim(stores[0]).runs
        stores[0].settle([succeeded(first)])
        assert requests.claim(stores[0]).runs == []
        assert [run.due_at > NOW for run in stores[0].pending_runs()] == [True] * 10, "all wait for the rate"

    def test_runs_that_wait_for_a_limit_all_come_to_their_turn(self, stores, make_job, requests):
        limit = Limit("few", concurrency=2)
        for number in range(30):
            job = make_job(f"job-{number}", limits=limit, executor="default" if number % 2 else "other")
            stores[0].add_run(asked_for(job, f"run-{number}", NOW))
        done, most = [], []

        def work(store, executor):
            for _ in range(400):
                runs = requests.claim(store, owner=uuid4().hex, room={executor: 5}).runs
                most.append(len(store.live_runs()))
                assert not store.settle([succeeded(run) for run in runs])
                done.extend(run.id for run in runs)
                if len(done) == 30:
                    return

        in_threads([
            lambda store=store, executor=executor: work(store, executor)
            for store, executor in zip(stores, ["default", "other", "default", "other"], strict=True)
        ])
        assert sorted(done) == sorted(f"run-{number}" for number in range(30))
        assert max(most) <= 2

    def test_no_more_instances_run_than_may_whoever_fires_and_claims(self, stores, make_job, requests):
        stores[0].add_job(make_job("a", overlap="queue"))
        for number in range(6):
            stores[0].add_run(asked_for(make_job("a"), f"asked-{number}", NOW))
        actions = [lambda store=store: requests.fire(store) for store in stores[:2]]
        actions += [lambda store=store: requests.claim(store) for store in stores[2:]]
        assert sum(len(each.runs) for each in in_threads(actions)) == 1
        assert len(stores[0].live_runs("a")) == 1

    @pytest.mark.parametrize(("many", "few"), [("default", "other"), ("other", "default")])
    def test_the_executor_that_is_named_first_is_served_first(self, stores, make_job, requests, monkeypatch, many, few):
        monkeypatch.setattr(redis_due_work, "MAX_TAKEN", 5)
        stores[0].add_jobs([make_job(f"job-{n}", trigger=DateTrigger(NOW), executor=many) for n in range(20)])
        stores[0].add_job(make_job("single", trigger=DateTrigger(NOW), executor=few))
        assert {run.job.executor for run in requests.fire(stores[0], room={many: 100, few: 10}).runs} == {many}
        runs = requests.fire(stores[0], room={few: 10, many: 100}).runs
        assert [run.job.executor for run in runs].count(few) == 1

    @given(due=st.lists(st.tuples(st.integers(0, 3 * PRIORITY_STEP_US), st.integers(0, 9)), min_size=1, max_size=12))
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_the_script_ranks_jobs_as_the_plan_does(self, stores, make_job, requests, due):
        store, now = stores[0], NOW + timedelta(hours=1)
        store.remove_all_jobs()
        jobs = [
            make_job(f"job-{number:02}", due=NOW + timedelta(microseconds=late), priority=priority)
            for number, (late, priority) in enumerate(due)
        ]
        store.add_jobs(jobs)
        batch = store._reader.take("take_due", requests._request(now), {"default": len(jobs)})
        ranked = sorted(
            (rank(to_micros(job.next_run_time), job.options.priority), to_micros(job.next_run_time), job.id)
            for job in jobs
        )
        assert [job_id for *_, job_id, _, _, _ in batch.taken] == [job_id for *_, job_id in ranked]

    def test_a_job_that_fires_while_a_run_that_was_asked_for_waits_has_both(self, stores, make_job, requests):
        stores[0].add_job(make_job("a"))
        stores[0].add_run(asked_for(make_job("a"), "asked-for", NOW))
        (fired,) = requests.fire(stores[0]).runs
        assert not requests.claim(stores[1]).runs, "one instance is live, and more may not be"
        assert stores[0].live_runs("a") == [fired]
        assert [run.id for run in stores[0].pending_runs("a")] == ["asked-for"]
        assert not stores[0].settle([succeeded(fired)])
        assert [run.id for run in requests.claim(stores[1]).runs] == ["asked-for"]
        assert not requests.fire(stores[0], NOW + timedelta(minutes=1)).runs

    @pytest.mark.parametrize("version", [1, 2])
    def test_what_an_earlier_version_has_written_is_read_and_one_of_that_version_is_not_started_beside_us(
        self, stores, make_job, requests, scheduler, url, monkeypatch, version
    ):
        scripts = stores[0]._scripts
        stores[0].add_job(make_job("a"))
        (run,) = requests.fire(stores[0]).runs
        scripts.client.hset(scripts.key("meta"), "schema", version)
        scripts.client.delete(scripts.key("live"))
        if version == 1:
            scripts.client.hset(scripts.key("of:a"), run.id, "L")
        else:  # it kept the run of a job that has one live run apart, and counted changes
            scripts.client.hset(scripts.key("lone"), "a", run.id)
            scripts.client.sadd(scripts.key("several"), "b")
            scripts.client.set(scripts.key("edition"), 7)
        owner = Owner("of an earlier version")
        stores[0].renew_owner(owner, SYSTEM_CLOCK.now(), LEASE)
        with pytest.raises(StoreUnavailable, match="Stop them first"):
            RedisJobStore(url=url, server_time=False).start(scheduler, "default")
        stores[0].retire_owner(owner.id)
        newer = started(RedisJobStore(url=url, server_time=False), scheduler)
        assert not requests.fire(newer, NOW + timedelta(minutes=1)).runs, "an instance is live"
        assert not newer.settle([succeeded(run)])
        assert not scripts.client.exists(*(scripts.key(name) for name in ("of:a", "lone", "several", "edition")))
        newer.shutdown()
        monkeypatch.setattr(redis_scripts, "SCHEMA", version)
        with pytest.raises(RuntimeError, match="newer goscheduler"):
            RedisJobStore(url=url, server_time=False).start(scheduler, "default")

    def test_two_prefixes_do_not_see_each_other(self, stores, make_job, scheduler, url):
        stores[0].add_job(make_job("a"))
        other = started(RedisJobStore(url=url, jobs_key="apscheduler.jobs", server_time=False), scheduler)
        assert other.get_all_jobs() == []
        other.remove_all_jobs()
        assert [job.id for job in stores[1].get_all_jobs()] == ["a"]
        other.shutdown()

    def test_others_hear_of_a_new_job_at_once(self, stores, make_job):
        heard, listening = threading.Event(), threading.Event()
        stores[1].subscribe(lambda: (heard if listening.is_set() else listening).set())
        assert listening.wait(60)
        assert stores[1].poll_after() == math.inf
        stores[0].add_job(make_job("a"))
        assert heard.wait(60)

    def test_nobody_is_woken_by_his_own_words(self, stores, make_job):
        heard: list[str] = []
        listening, told = threading.Event(), threading.Event()
        stores[0].subscribe(lambda: (heard.append("first"), listening.set()))
        assert listening.wait(60)
        stores[0].add_job(make_job("a"))
        stores[1].subscribe(told.set)
        assert told.wait(60)
        told.clear()
        stores[0].add_job(make_job("b"))
        assert told.wait(60)
        assert heard == ["first"]

    def test_an_owner_that_was_given_up_fires_nothing_any_more(self, stores, make_job, requests):
        stores[0].renew_owner(Owner("owner-1"), NOW, LEASE)
        stores[1].recover_runs(NOW + LEASE, lost)
        stores[0].add_job(make_job("a"))
        assert not requests.fire(stores[0]).runs
        assert len(requests.fire(stores[1], owner="owner-2").runs) == 1


class TestLostAnswers:
    """The connection breaks before or after the server has done what it was asked."""

    @pytest.mark.parametrize("after", [False, True])
    def test_a_firing_is_written_once_although_its_answer_is_lost(self, stores, make_job, requests, after):
        stores[0].add_job(make_job("a"))
        break_link(stores[0], "write_due", after)
        with pytest.raises(redis.ConnectionError):
            requests.fire(stores[0])
        again = [run.id for run in requests.fire(stores[0]).runs]
        live = [run.id for run in stores[0].live_runs()]
        assert len(live) == 1
        assert again == ([] if after else live)

    @pytest.mark.parametrize("after", [False, True])
    def test_an_end_is_written_once_although_its_answer_is_lost(self, stores, make_job, requests, after):
        stores[0].add_job(make_job("a"))
        (run,) = requests.fire(stores[0]).runs
        break_link(stores[0], "settle", after)
        with pytest.raises(redis.ConnectionError):
            stores[0].settle([succeeded(run)])
        refused = stores[0].settle([succeeded(run)])
        assert list(refused) == ([succeeded(run)] if after else [])
        assert ends_found(stores[0], refused) == refused, "the history tells the scheduler that the end was written"
        assert len(stores[0].history(HistoryQuery())) == 1

    def test_a_write_that_arrives_late_comes_in_vain(self, stores, make_job, requests):
        stores[0].add_job(make_job("a"))
        late = break_link(stores[0], "write_due", after=False)
        with pytest.raises(redis.ConnectionError):
            requests.fire(stores[0])
        (run,) = requests.fire(stores[0]).runs
        assert json.loads(as_text(late()))["refused"] == ["a"]
        assert [each.id for each in stores[0].live_runs()] == [run.id]

    def test_what_somebody_took_who_died_is_due_again_after_a_while(self, stores, make_job, requests):
        for name in ("owner-1", "owner-2"):
            stores[0].renew_owner(Owner(name), NOW, LEASE)
        stores[0].add_job(make_job("a"))
        stores[0].add_run(asked_for(make_job("b"), "run-b", NOW))
        for step in ("write_due", "write_ready"):
            break_link(stores[0], step, after=False)
            with pytest.raises(redis.ConnectionError):
                (requests.fire if step == "write_due" else requests.claim)(stores[0])
        assert not requests.fire(stores[1], now=NOW + 4 * SECOND).runs
        assert not requests.claim(stores[1], now=NOW + 4 * SECOND).runs
        assert len(requests.fire(stores[1], now=NOW + 5 * SECOND).runs) == 1
        assert len(requests.claim(stores[1], now=NOW + 5 * SECOND).runs) == 1

    def test_a_server_that_has_forgotten_the_script_gets_it_again(self, stores, make_job, requests):
        stores[0].redis.script_flush()
        stores[0].add_job(make_job("a"))
        stores[0].redis.script_flush()
        assert len(requests.fire(stores[0]).runs) == 1


class TestManyAtOnce:
    """What goes as lists, of which nothing is looked at one by one, unless something is not as expected."""

    def test_of_a_batch_only_what_was_changed_meanwhile_is_not_fired(self, stores, make_job, requests):
        for name in "abcdef":
            stores[0].add_job(make_job(name))

        def meddle():
            stores[1].edit_job("b", lambda job: (job._modify(name="other"), job)[1])
            stores[1].remove_job("d")
            stores[1].add_run(asked_for(make_job("f"), "asked-f", NOW))
            assert [run.job.id for run in requests.claim(stores[1]).runs] == ["f"]

        meanwhile(stores[0], "write_due", meddle)
        assert [run.job.id for run in requests.fire(stores[0]).runs] == ["a", "c", "e"]
        assert {run.job.id for run in stores[0].live_runs()} == {"a", "c", "e", "f"}
        assert [run.job.id for run in requests.fire(stores[0]).runs] == ["b"]

    def test_of_a_batch_only_what_was_cancelled_or_recovered_ends_otherwise(self, stores, make_job, requests):
        for name in "abcd":
            stores[0].add_job(make_job(name))
        runs = {run.job.id: run for run in requests.fire(stores[0]).runs}
        stores[1].cancel_run(runs["b"].id, "enough", lambda run: succeeded(run))
        stores[1].redis.hdel(stores[1]._scripts.key("run_heads"), runs["c"].id)
        refused = stores[0].settle([succeeded(run) for run in runs.values()])
        assert [settlement.attempt.run.job.id for settlement in refused] == ["c"]
        assert {record.job_id for record in stores[0].history(HistoryQuery())} == {"a", "b", "d"}
        assert not stores[0].redis.exists(stores[0]._scripts.key("ending:owner-1"))

    def test_the_same_end_twice_in_one_batch_is_written_once(self, stores, make_job, requests):
        stores[0].add_job(make_job("a"))
        (run,) = requests.fire(stores[0]).runs
        assert len(stores[0].settle([succeeded(run), succeeded(run)])) == 1
        assert len(stores[0].history(HistoryQuery())) == 1

    def test_jobs_of_different_lanes_and_definitions_fire_as_they_are(self, stores, make_job, requests):
        kinds = {"a": {}, "b": {"priority": 2}, "c": {"args": ["x/y", "ä\n\u2028"]}, "d": {"executor": "a/b"}}
        jobs = [make_job(f"{name}/ö", **options) for name, options in kinds.items()]
        jobs.append(make_job("last", trigger=DateTrigger(NOW)))
        stores[0].add_jobs(jobs)
        runs = requests.fire(stores[0], room={"default": 10, "a/b": 10}).runs
        read = {run.id: run for run in stores[1].live_runs()}
        assert {run.job.id for run in runs} == {job.id for job in jobs}
        for run in runs:
            assert read[run.id].job.args == run.job.args
            assert (read[run.id].fence, read[run.id].due_at) == (run.fence, run.due_at)
        assert not stores[0].settle([succeeded(run) for run in runs])
        assert {job.id: job.stats.run_count for job in stores[0].get_all_jobs()} == {job.id: 1 for job in jobs[:-1]}
        assert len(requests.fire(stores[0], now=NOW + 3600 * SECOND, room={"default": 10, "a/b": 10}).runs) == 4

    def test_a_run_that_waits_for_its_job_may_go_when_that_ends(self, stores, make_job, requests):
        stores[0].add_job(make_job("a"))
        (run,) = requests.fire(stores[0]).runs
        stores[0].add_run(asked_for(make_job("a"), "asked", NOW))
        assert not requests.claim(stores[0]).runs
        assert not stores[0].settle([succeeded(run)])
        assert [each.id for each in requests.claim(stores[0]).runs] == ["asked"]

    def test_thousands_of_jobs_are_added_or_none(self, stores, make_job):
        jobs = [make_job(f"job-{number}") for number in range(2500)]
        stores[0].add_job(make_job("job-2400"))
        with pytest.raises(ConflictingIdError, match="job-2400"):
            stores[0].add_jobs(jobs)
        assert [job.id for job in stores[0].get_all_jobs()] == ["job-2400"]
        stores[0].remove_job("job-2400")
        meanwhile(stores[0], "add_jobs", lambda: stores[1].add_job(make_job("job-2300")))
        with pytest.raises(ConflictingIdError, match="job-2300"):
            stores[0].add_jobs(jobs)
        assert [job.id for job in stores[0].get_all_jobs()] == ["job-2300"]
        stores[0].remove_job("job-2300")
        stores[0].add_jobs(jobs)
        assert len(stores[1].get_all_jobs()) == 2500

    @pytest.mark.parametrize("after", [False, True])
    def test_jobs_whose_adding_was_not_answered_are_not_left_behind(self, stores, make_job, after):
        break_link(stores[0], "add_jobs", after)
        with pytest.raises(redis.ConnectionError):
            stores[0].add_jobs([make_job("a"), make_job("b")])
        assert stores[0].get_all_jobs() == []
        assert stores[0].get_next_run_time() is None


class TestHostileRecords:
    """Somebody else writes into our keys."""

    PICKLE = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04exit\x94\x85\x94R\x94."

    @pytest.mark.parametrize("key", ["jobs", "heads"])
    @pytest.mark.parametrize("text", [
        PICKLE, b"", b"{", b"[]", b"null", b'{"$type": "os:system"}', b"[" * 100_000,
        b'["","","x","","","","","","",""]',
        b'["","[\\"default\\",5,\\"\\"]","',
        b'["","[\\"default\\",5,\\"\\"]",""]',
        b'["\0","[\\"default\\",5,\\"\\"]","1","1","Z","0","","","",""]',
        b'["","[\\"default\\",5,\\"\\"]","1777896000000000","x","Nowhere","0","","","",""]',
    ])  # fmt: skip
    def test_a_job_that_cannot_be_read_is_kept_and_suspended_and_the_others_fire(
        self, stores, make_job, requests, key, text
    ):
        store = stores[0]
        store.add_job(make_job("bad"))
        store.add_job(make_job("good"))
        store.redis.hset(store._scripts.key(key), "bad", text)
        assert [run.job.id for run in requests.fire(store).runs] == ["good"]
        assert {job.id for job in store.get_all_jobs()} == {"bad", "good"}
        assert "cannot be read" in store.suspensions()["bad"]
        assert store.redis.hget(store._scripts.key("jobs"), "bad") is not None
        store.remove_job("bad")
        assert [job.id for job in store.get_all_jobs()] == ["good"]

    @pytest.mark.parametrize("text", [PICKLE, b"", b"[]", b"[" * 100_000])
    def test_a_run_that_cannot_be_read_is_kept_and_the_others_are_claimed(self, stores, make_job, requests, text):
        store = stores[0]
        for name in ("bad", "good"):
            store.add_run(asked_for(make_job(name), f"run-{name}", NOW))
        store.redis.hset(store._scripts.key("runs"), "run-bad", text)
        assert [run.id for run in requests.claim(store).runs] == ["run-good"]
        assert not requests.claim(store).runs
        assert store.redis.hget(store._scripts.key("runs"), "run-bad") == text

    @pytest.mark.parametrize("text", [PICKLE, b"", b"[]"])
    def test_a_lost_run_that_cannot_be_read_is_kept_and_the_others_are_recovered(
        self, stores, make_job, requests, text
    ):
        store = stores[0]
        store.add_job(make_job("bad"))
        store.add_job(make_job("good"))
        runs = {run.job.id: run for run in requests.fire(store).runs}
        store.redis.hset(store._scripts.key("runs"), runs["bad"].id, text)
        recovered = store.recover_runs(NOW + LEASE, lost)
        assert [settlement.attempt.run.id for settlement in recovered] == [runs["good"].id]
        assert not store.recover_runs(NOW + LEASE, lost)
        assert store.redis.hget(store._scripts.key("runs"), runs["bad"].id) == text

    def test_a_record_that_cannot_be_read_is_passed_over_and_pruned(self, stores, make_job, requests):
        store = stores[0]
        for name in ("a", "b"):
            store.add_job(make_job(name))
        runs = requests.fire(store).runs
        store.settle([succeeded(run) for run in runs])
        places = store.redis.hkeys(store._scripts.key("records"))
        place = next(place for place in places if runs[0].id.encode() in place)
        store.redis.hset(store._scripts.key("records"), place, self.PICKLE)
        assert [record.run_id for record in store.history(HistoryQuery())] == [runs[1].id]
        assert store.prune_history(Retention(), NOW + timedelta(days=40), 10) == 2


class TestConnecting:
    def test_a_ready_client_is_used_and_not_closed(self, url, scheduler, make_job):
        with redis.Redis.from_url(url, decode_responses=True) as client:
            store = started(RedisJobStore(client=client, server_time=False), scheduler)
            store.add_job(make_job("ä"))
            assert [job.id for job in store.get_all_jobs()] == ["ä"]
            connections = client.connection_pool._available_connections
            store.shutdown()
            assert connections
            assert all(connection.is_connected for connection in connections)

    def test_a_server_that_is_not_there_is_unavailable_and_no_password_is_told(self, scheduler):
        store = RedisJobStore(url="redis://user:secret@127.0.0.1:1/0")
        with pytest.raises(StoreUnavailable, match=r"No Redis server answers at 127\.0\.0\.1:1/0") as caught:
            store.start(scheduler, "default")
        assert "secret" not in f"{caught.value} {store!r}"

    def test_an_address_that_is_none_is_refused_without_being_told(self):
        with pytest.raises(InvalidArgument, match="url must be an address") as caught:
            RedisJobStore(url="http://user:secret@host")
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize("prefix", ["", "a{b", "b}", "a\nb", "x" * 201, 7])
    def test_a_prefix_that_would_break_keys_is_refused(self, prefix):
        with pytest.raises(InvalidArgument, match="prefix must be"):
            RedisJobStore(prefix=prefix)

    def test_a_client_and_an_address_together_are_refused(self, url):
        with redis.Redis.from_url(url) as client, pytest.raises(InvalidArgument, match="client alone"):
            RedisJobStore(client=client, url=url)

    @pytest.mark.parametrize(("facts", "told"), [
        ({"aof_enabled": 1, "maxmemory_policy": "noeviction"}, []),
        ({"aof_enabled": 1, "maxmemory_policy": "volatile-lru"}, []),
        ({"aof_enabled": 0, "maxmemory_policy": "noeviction"}, ["appendonly yes"]),
        ({"aof_enabled": 1, "maxmemory_policy": "allkeys-lru"}, ["noeviction"]),
        ({"aof_enabled": 1, "connected_slaves": 0}, []),
        ({"aof_enabled": 1, "connected_slaves": 2}, ["min-replicas-to-write 1"]),
        ({"aof_enabled": 1, "connected_slaves": 2, "min_slaves_good_slaves": 2}, []),
        ({"aof_enabled": 0, "connected_slaves": 1}, ["appendonly yes", "min-replicas-to-write 1"]),
    ])  # fmt: skip
    def test_what_is_unsafe_about_a_server_is_told(self, facts, told):
        warnings = unsafe_settings(facts)
        assert len(warnings) == len(told)
        assert all(word in warning for word, warning in zip(told, warnings, strict=True))

    @pytest.mark.serial
    def test_a_wrong_password_is_an_error_that_says_so(self, private_server, scheduler):
        server = private_server("redis", "--requirepass", "right")
        with pytest.raises(InvalidArgument, match="refuses the password") as caught:
            RedisJobStore(url=f"redis://:wrong@127.0.0.1:{server.port}/0").start(scheduler, "default")
        assert "wrong@" not in str(caught.value)

    @pytest.mark.serial
    def test_a_cluster_can_be_used(self, private_server, scheduler, make_job, requests):
        # Its nodes would talk to each other by a port from which systems give ports to outgoing connections.
        server = private_server("redis", "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
        with redis.Redis(port=server.port) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            server.until(lambda: require("cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO"))))
        with redis.RedisCluster(host="127.0.0.1", port=server.port) as cluster:
            store = started(RedisJobStore(client=cluster, server_time=False), scheduler)
            store.add_job(make_job("a"))
            (run,) = requests.fire(store).runs
            assert not store.settle([succeeded(run)])
            assert [record.run_id for record in store.history(HistoryQuery("a"))] == [run.id]
            assert [job.id for job in store.get_all_jobs()] == ["a"]
            store.shutdown()


def redis_cli(url, *arguments):
    """Return what the command line of Redis prints: a program that is not Python."""
    done = subprocess.run(["redis-cli", "-u", url, *arguments], capture_output=True, check=True, timeout=60)
    return done.stdout.decode()


@pytest.fixture
def url(redis_server, fresh):
    return fresh(redis_server).url


@pytest.fixture
def scheduler():
    return ManualScheduler(clock=ManualClock(NOW))


@pytest.fixture
def stores(url, scheduler):
    made = [started(RedisJobStore(url=url, server_time=False), scheduler) for _ in range(4)]
    yield made
    for store in made:
        store.shutdown()


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


@pytest.fixture
def requests():
    return Requests()


def started(store, scheduler):
    store.start(scheduler, "default")
    return store


def break_link(store, step, after):
    """Let the next call of a step fail, before or after the server has done it; return what sends it after all."""
    scripts = store._scripts
    scripts.client.script_load(redis_scripts.SCRIPTS[step].text)  # else the server may not know it, and does nothing
    real, sent = scripts.client.evalsha, []

    def evalsha(digest, keys, prefix, name, *arguments):
        if name != step:
            return real(digest, keys, prefix, name, *arguments)
        scripts.client.evalsha = real
        sent.append(lambda: real(digest, keys, prefix, name, *arguments))
        if after:
            sent[0]()
        raise redis.ConnectionError("the line is dead")

    scripts.client.evalsha = evalsha
    return lambda: sent[0]()


def meanwhile(store, step, action):
    """Do something right before the next call of a step."""
    scripts = store._scripts
    real = scripts.client.evalsha

    def evalsha(digest, keys, prefix, name, *arguments):
        if name == step:
            scripts.client.evalsha = real
            action()
        return real(digest, keys, prefix, name, *arguments)

    scripts.client.evalsha = evalsha


def require(fulfilled):
    assert fulfilled


@pytest.mark.serial
class TestProcesses:
    def test_processes_run_each_job_once_and_leave_nothing_behind(self, url, processes):
        names = [f"job-{number}" for number in range(300)]
        add_jobs(url, names)
        workers = [processes(url, 30) for _ in range(3)]
        assert sorted(notes(url, len(names))) == sorted(names)
        for worker in workers:
            end(worker)
        with redis.Redis.from_url(url) as client:
            assert client.llen(NOTES) == 0, "a job has run twice"
            assert client.hlen("{goscheduler}:records") == len(names)
            left = {key.decode().removeprefix("{goscheduler}:") for key in client.keys("{goscheduler}:*")}
        kept = {"records", "history:good", "history:jobs", "successes", "meta", "show"}
        figures = {name for name in left if name.startswith(("notes:", "noted:"))}
        assert left - figures == kept, "nothing is left lying about"

    @pytest.mark.parametrize(("step", "when", "again"), [
        ("take_due", "after", "nothing"),
        ("write_due", "after", "lost"),
        ("settle", "before", "lost"),
        ("settle", "after", "perhaps"),  # all that it had may have ended together
    ])  # fmt: skip
    def test_what_a_process_had_that_was_killed_is_run_by_another(self, url, processes, step, when, again):
        names = [f"job-{number}" for number in range(200)]
        add_jobs(url, names)
        assert processes(url, 3, step, when).wait(60) == -signal.SIGKILL
        other = processes(url, 8)  # a machine may be busy for three quarters of it
        ran = []
        while len(set(ran)) < len(names):
            ran += notes(url, 1)
        with redis.Redis.from_url(url) as client:
            until(lambda: client.hlen("{goscheduler}:run_heads") == 0)
            end(other)
            ran += [name.decode() for name in client.lrange(NOTES, 0, -1)]
            outcomes = Counter(history_record(text).outcome.value for text in client.hvals("{goscheduler}:records"))
        assert outcomes["succeeded"] == len(names)
        assert len(ran) - len(names) <= outcomes["lost"], "only what was lost may run again"
        assert again == "perhaps" or (outcomes["lost"] > 0) == (again == "lost")


@pytest.fixture
def processes():
    """Start processes with a scheduler each; kill those that are left."""
    started: list[warm.Process] = []

    def start(url, lease, *death):
        worker = warm.start(redis_jobs.__file__, url, str(lease), *death, stdin=warm.PIPE)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()
        worker.wait()
        worker.stdin.close()


def until(fulfilled):
    """Return when something is so."""
    pause, deadline = threading.Event(), Deadline(SYSTEM_CLOCK, 120)
    while not fulfilled():
        assert deadline.left(), "it never was so"
        pause.wait(0.02)


def end(worker):
    """End a process in good order."""
    worker.stdin.close()
    assert worker.wait(60) == 0


def add_jobs(url, names):
    """Add jobs that are due."""
    with ManualScheduler(clock=ManualClock(NOW), jobstores={"default": url}) as scheduler:
        for name in names:
            scheduler.add_job(redis_jobs.note, "date", run_date=NOW - SECOND, args=[url, name], id=name)


def notes(url, count):
    """Return what the next jobs have written down, waiting for them."""
    found = []
    with redis.Redis.from_url(url, socket_timeout=70) as client:
        while len(found) < count:
            popped = client.blpop([NOTES], timeout=60)
            assert popped is not None, f"only {len(found)} of {count} have run"
            found.append(popped[1].decode())
    return found
