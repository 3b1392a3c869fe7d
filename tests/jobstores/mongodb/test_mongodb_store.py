"""The MongoDB store under the contract of all stores, on a real server, and what is special about it."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

import mongomock
import pymongo
import pytest
from key_servers import Standalone
from mongodb_machine import MongoDBMachine
from pymongo.errors import AutoReconnect

from goscheduler._drivers import mongodb as drivers
from goscheduler.errors import ConflictingIdError, GoSchedulerError, InvalidArgument, StoreUnavailable
from goscheduler.job import copy_with
from goscheduler.jobstores.mongodb import MongoDBJobStore, due_work
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import OutcomeKind, Owner
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import asked_for, called_off, crashed, redriven
from goscheduler.testing.clock import ManualClock
from goscheduler.testing.contract import (
    MINUTE,
    NOW,
    SECOND,
    JobMaker,
    Requests,
    StoreContract,
    failed,
    in_threads,
    succeeded,
)
from goscheduler.testing.contract_inbox import InboxContract
from goscheduler.testing.model import against_the_model
from goscheduler.testing.scheduler import ManualScheduler
from goscheduler.times import to_micros
from goscheduler.triggers.date import DateTrigger

LEASE = timedelta(seconds=30)
EVERYTHING = HistoryQuery(limit=1000)


def lost(run, host=""):
    return crashed(run, NOW + LEASE, host=host)


class TestMongoDB(InboxContract, StoreContract):
    @pytest.fixture(autouse=True)
    def _permit(self, mongodb, fresh):
        self.space = fresh(mongodb)

    def make_store(self):
        return MongoDBJobStore.from_url(self.space.url, server_time=False)

    def put_in_inbox(self, store, request):
        self._client()[self.space.name]["jobs.inbox"].insert_one({"request": request})

    def refused_in_inbox(self, store):
        return [(row["request"], row["reason"]) for row in self._client()[self.space.name]["jobs.refused"].find()]

    @pytest.fixture
    def peer(self, scheduler):
        """Another process on the same collections."""
        peer = self.make_store()
        peer.start(scheduler, "default")
        yield peer
        peer.shutdown()

    # Steps that are not taken to their end

    @pytest.mark.parametrize("step", ["before", "after"])
    def test_a_process_that_ends_around_the_write_of_a_firing_neither_loses_nor_doubles_it(
        self, store, peer, make_job, requests, monkeypatch, step
    ):
        store.add_job(make_job("a", due=NOW, trigger=DateTrigger(NOW)))
        end_at(monkeypatch, store._writer, "_send", step)
        assert isinstance(store.fire_due(requests._request(NOW)).error, AutoReconnect)
        fired = requests.fire(peer, owner="owner-2").runs
        recovered = peer.recover_runs(NOW, lost)
        assert (len(fired), len(recovered)) == ((1, 1) if step == "before" else (0, 1))
        assert len(peer.pending_runs("a")) == 1, "an owner without a lease is lost; both ways there is one run"

    @pytest.mark.parametrize("dead", [False, True])
    def test_a_run_whose_end_is_recorded_is_not_run_again_although_its_job_was_not_written(
        self, store, peer, make_job, requests, monkeypatch, dead
    ):
        store.add_job(make_job("a", due=NOW, retry=1 if dead else None))
        (run,) = requests.fire(store).runs
        end_at(monkeypatch, store._settling, "apply", "before")
        end = failed(run) if dead else succeeded(run)
        with pytest.raises(AutoReconnect):
            store.settle([end])
        assert peer.recover_runs(NOW, lost) == []
        assert peer.live_runs() == peer.pending_runs() == []
        (record,) = peer.history(EVERYTHING)
        assert record.outcome is (OutcomeKind.FAILED if dead else OutcomeKind.SUCCEEDED)
        assert [letter.run.id for letter in peer.dead_letters(EVERYTHING)] == ([run.id] if dead else [])
        life = peer.lookup_job("a").stats
        assert (life.run_count, life.last_outcome) == (1, record.outcome)

    def test_an_end_that_is_written_again_after_a_lost_answer_is_accepted(
        self, store, make_job, requests, monkeypatch
    ):
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        with monkeypatch.context() as patch:
            end_at(patch, store._writer, "record", "after")
            with pytest.raises(AutoReconnect):
                store.settle([succeeded(run)])
        assert store.settle([succeeded(run)]) == []
        assert store.live_runs() == []
        assert len(store.history(EVERYTHING)) == 1

    @pytest.mark.parametrize("step", ["before", "after"])
    def test_an_end_that_was_recorded_and_not_applied_is_applied_when_it_is_written_again(
        self, store, make_job, requests, monkeypatch, step
    ):
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        with monkeypatch.context() as patch:
            end_at(patch, store._writer, "_send", step)
            with pytest.raises(AutoReconnect):
                store.settle([succeeded(run)])
        assert store.settle([succeeded(run)]) == []
        assert store.live_runs() == []
        assert store.lookup_job("a").stats.run_count == 1
        assert requests.fire(store, NOW + MINUTE).runs, "nothing keeps its job from firing again"

    def test_of_an_owner_and_one_who_thinks_him_lost_the_first_to_record_an_end_is_right(
        self, store, peer, make_job, requests, monkeypatch
    ):
        store.add_job(make_job("a", due=NOW))
        (run,) = requests.fire(store).runs
        with monkeypatch.context() as patch:
            end_at(patch, peer._settling, "apply", "before")
            with pytest.raises(AutoReconnect):
                peer.recover_runs(NOW, lost)
        late = succeeded(run)
        assert store.settle([late]) == [late]
        assert peer.recover_runs(NOW, lost) == []
        (record,) = peer.history(EVERYTHING)
        assert record.outcome is OutcomeKind.LOST
        assert [again.id for again in peer.pending_runs("a")] == [run.id]

    @pytest.mark.parametrize("cancelled", [False, True])
    def test_records_that_wait_in_a_job_reach_the_history_when_somebody_looks_for_lost_runs(
        self, store, peer, make_job, requests, monkeypatch, cancelled
    ):
        end_at(monkeypatch, store._writer, "move_records", "before")
        if cancelled:
            store.add_run(asked_for(make_job("a"), "run-x", NOW))
            with pytest.raises(AutoReconnect):
                store.cancel_run("run-x", "enough", lambda run: called_off(run, "enough", NOW))
        else:
            late = DateTrigger(NOW - MINUTE)
            store.add_job(make_job("a", due=NOW - MINUTE, misfire_grace_time=1, trigger=late))
            assert isinstance(store.fire_due(requests._request(NOW)).error, AutoReconnect)
        peer.recover_runs(NOW, lost)
        (record,) = peer.history(EVERYTHING)
        assert record.outcome is (OutcomeKind.CANCELLED if cancelled else OutcomeKind.MISSED)
        assert self.documents() == []

    @pytest.mark.parametrize("written", [False, True])
    def test_a_dead_letter_whose_taking_was_begun_is_there_again_or_gone_with_its_run(
        self, store, peer, make_job, requests, monkeypatch, written
    ):
        store.add_job(make_job("a", due=NOW, retry=1))
        (run,) = requests.fire(store).runs
        store.settle([failed(run)])
        end_at(monkeypatch, store._unfinished, "add", "after" if written else "before")
        monkeypatch.setattr(store._reader, "now", lambda now: NOW)
        with pytest.raises(AutoReconnect):
            store.take_dead_letter(run.id, lambda letter: redriven(letter, NOW))
        assert peer.dead_letters(EVERYTHING) == []
        peer.recover_runs(NOW + 2 * MINUTE, lost)
        assert len(peer.dead_letters(EVERYTHING)) == (0 if written else 1)
        assert len(peer.pending_runs("a")) == (1 if written else 0)

    def test_a_dead_letter_of_a_job_that_is_gone_is_handed_out_with_a_higher_fence_in_the_same_moment(
        self, store, make_job, requests
    ):
        store.add_job(make_job("a", due=NOW, trigger=DateTrigger(NOW), retry=1))
        (run,) = requests.fire(store).runs
        store.settle([failed(run)])
        assert self.documents() == []
        assert store.take_dead_letter(run.id, lambda letter: redriven(letter, NOW))
        (again,) = requests.claim(store).runs
        assert again.fence > run.fence

    def test_an_owner_whose_run_ends_while_it_retires_puts_back_all_the_others(
        self, store, make_job, requests, monkeypatch
    ):
        store.add_jobs([make_job("a", trigger=DateTrigger(NOW)), make_job("b")])
        first, second = sorted(requests.fire(store).runs, key=lambda run: run.job.id)
        read = store._settling._documents_of

        def read_early(owners):
            documents = read(owners)
            assert not store.settle([succeeded(first)])
            return documents

        monkeypatch.setattr(store._settling, "_documents_of", read_early)
        store.retire_owner("owner-1")
        assert [run.id for run in store.pending_runs()] == [second.id]
        assert store.live_runs() == []

    # Looks

    def test_it_is_not_looked_again_while_there_is_more_than_is_taken_at_once(
        self, store, make_job, requests, monkeypatch
    ):
        monkeypatch.setattr(due_work, "MAX_DOCUMENTS_PER_ROUND", 10)
        store.add_jobs([make_job(f"job-{number}", due=NOW) for number in range(25)])
        looks = []
        look = store._reader.peek
        monkeypatch.setattr(store._reader, "peek", lambda request: looks.append(request) or look(request))
        fired, counts = [], []
        while not fired or fired[-1].runs:
            fired.append(store.fire_due(requests._request(NOW, room={"default": 100})))
            counts.append(len(looks))
        assert [len(each.runs) for each in fired] == [10, 10, 5, 0]
        assert counts == [1, 2, 4, 5], "before each round, and after it when less was left than is taken"

    def test_the_ends_of_lanes_are_neither_jobs_nor_runs(self, store, make_job, requests):
        store.add_job(make_job("a", due=NOW, trigger=DateTrigger(NOW), executor="other"))
        (run,) = requests.fire(store, room={"default": 1, "other": 1}).runs
        store.settle([succeeded(run)])
        assert requests.fire(store).next_due is None
        assert self.collection().count_documents({}) == 21, "ten for each executor, and one for the marks"
        assert (store.count_waiting(), store.get_next_run_time(), store.get_all_jobs()) == (0, None, [])
        assert (store.pending_runs(), store.live_runs(), store.discard_pending()) == ([], [], False)

    @pytest.mark.parametrize("who", ["we", "somebody who is heard", "somebody who is not heard"])
    def test_a_job_that_is_due_before_those_that_were_seen_is_found_whoever_adds_it(
        self, store, peer, make_job, requests, who
    ):
        heard = threading.Event()
        if who != "somebody who is not heard":
            store.subscribe(heard.set)
            assert store._listener.listening.wait(60)
        store.add_job(make_job("a", due=NOW + MINUTE))
        assert not requests.fire(store).runs
        heard.clear()
        (store if who == "we" else peer).add_job(make_job("b", due=NOW - MINUTE, misfire_grace_time=None))
        if who == "somebody who is heard":
            assert heard.wait(60)
        assert [run.job.id for run in requests.fire(store).runs] == ["b"]

    def test_what_was_fired_is_not_passed_again_by_who_looks_for_more(self, store, make_job, requests, mongodb):
        store.subscribe(lambda: None)
        assert store._listener.listening.wait(60)
        store.add_jobs([make_job(f"job-{n}", due=NOW - n * SECOND, trigger=DateTrigger(NOW)) for n in range(50)])
        store.add_job(make_job("last", due=NOW + MINUTE))
        assert len(requests.fire(store).runs) == 50
        assert store._reader._known_start(requests._request(NOW)).since == to_micros(NOW + MINUTE)

    def test_the_executor_that_is_named_first_is_served_first(self, store, make_job, requests, monkeypatch):
        monkeypatch.setattr(due_work, "MAX_DOCUMENTS_PER_ROUND", 5)
        store.add_jobs([make_job(f"job-{n}", trigger=DateTrigger(NOW)) for n in range(20)])
        store.add_job(make_job("single", trigger=DateTrigger(NOW), executor="other"))
        runs = requests.fire(store, room={"default": 100, "other": 10}).runs
        assert {run.job.executor for run in runs} == {"default"}
        runs = requests.fire(store, room={"other": 10, "default": 100}).runs
        assert [run.job.executor for run in runs].count("other") == 1

    def test_jobs_that_others_change_between_two_rounds_are_not_fired_as_they_were(
        self, store, peer, make_job, requests, monkeypatch
    ):
        monkeypatch.setattr(due_work, "MAX_DOCUMENTS_PER_ROUND", 10)
        store.subscribe(lambda: None)
        assert store._listener.listening.wait(60)
        store.add_jobs([make_job(f"job-{number:02}", due=NOW, trigger=DateTrigger(NOW)) for number in range(25)])
        monkeypatch.setattr(store._reader, "forget", lambda: None)  # as if the word came too late
        first = requests.fire(store, room={"default": 100}).runs
        waiting = sorted({f"job-{number:02}" for number in range(25)} - {run.job.id for run in first})
        removed, postponed, rewritten = waiting[0], waiting[1], waiting[2]
        peer.remove_job(removed)
        peer.update_job(make_job(postponed, due=NOW + MINUTE, trigger=DateTrigger(NOW + MINUTE)))
        peer.update_job(make_job(rewritten, due=NOW, trigger=DateTrigger(NOW), kwargs={"new": True}))
        later = [run for _ in range(4) for run in requests.fire(store, room={"default": 100}).runs]
        assert sorted(run.job.id for run in later) == sorted({*waiting} - {removed, postponed})
        assert [run.job.kwargs for run in later if run.job.id == rewritten] == [{"new": True}]
        assert store.lookup_job(postponed).next_run_time == NOW + MINUTE

    # Shares

    @pytest.fixture
    def in_the_way(self, store, peer, make_job, requests):
        """Two stores of which both have lost documents to each other, with 64 due jobs; (store, owner) of each."""
        for owner, place in (("owner-1", store), ("owner-2", peer)):
            place.renew_owner(Owner(owner), NOW, LEASE)
        store.add_jobs([make_job(f"job-{n:02}", due=NOW, trigger=DateTrigger(NOW), priority=n % 10) for n in range(64)])
        for owner, place in (("owner-1", store), ("owner-2", peer)):
            place._reader.peek(requests._request(NOW, owner=owner))
            place._reader.took(5, 10)
        return (store, "owner-1"), (peer, "owner-2")

    def test_processes_that_are_in_each_others_way_read_different_jobs_first(self, in_the_way, requests):
        read = []
        for place, owner in in_the_way:
            request = requests._request(NOW, owner=owner, room={"default": 20})
            read.append({row["_id"] for row in place._reader.due("due", request, NOW)})
        assert [len(ids) for ids in read] == [20, 20]
        assert not read[0] & read[1]

    def test_a_process_takes_what_others_have_left_when_its_share_is_empty(self, in_the_way, requests):
        (store, owner), _ = in_the_way
        runs = [run for _ in range(4) for run in requests.fire(store, owner=owner, room={"default": 20}).runs]
        assert len({run.job.id for run in runs}) == len(runs) == 64

    def test_shares_rotate_so_that_no_job_depends_on_one_process(self, in_the_way, requests):
        (store, owner), _ = in_the_way
        shares = set()
        for turn in range(2):
            later = NOW + turn * due_work.SHARE_TURN_SECONDS * SECOND
            store._reader.peek(requests._request(later, owner=owner))
            store._reader.took(5, 10)
            shares.add(str(store._reader._share(owner)))
        assert len(shares) == 2

    def test_a_process_that_loses_nothing_reads_from_the_head_of_the_queue(self, in_the_way, requests):
        (store, owner), _ = in_the_way
        store._reader.peek(requests._request(NOW + due_work.SHARED_FOR, owner=owner))
        assert store._reader._share(owner) == []

    # Limits

    def test_a_limit_holds_however_many_fire_at_once(self, store, peer, make_job, requests):
        for number in range(12):
            store.add_job(make_job(f"job-{number}", due=NOW, limits=Limit("api", concurrency=3)))
        in_threads([lambda place=place: requests.fire(place) for place in (store, peer) * 3])
        assert len(store.live_runs()) <= 3
        in_threads([lambda place=place: requests.claim(place) for place in (store, peer) * 3])
        requests.claim(store)
        assert len(store.live_runs()) == 3
        assert len(store.pending_runs()) == 9

    @pytest.mark.parametrize("step", ["fire", "claim"])
    def test_who_was_held_because_of_a_place_that_nobody_needed_may_go(
        self, store, peer, make_job, requests, monkeypatch, step
    ):
        store.add_job(make_job("a", due=NOW, limits=Limit("api", concurrency=1)))
        if step == "claim":
            store.add_job(make_job("other", due=NOW - MINUTE, trigger=DateTrigger(NOW), limits=Limit("api", 1)))
            (first,) = requests.fire(store).runs
            store.settle([succeeded(first)])
        write = store._context.writer.write

        def write_late(*args):
            monkeypatch.undo()
            requests.fire(peer)
            requests.claim(peer)
            return write(*args)

        monkeypatch.setattr(store._context.writer, "write", write_late)
        assert getattr(requests, step)(store).runs == []
        assert [run.job.id for run in requests.claim(peer).runs] == ["a"]

    def test_runs_that_wait_for_a_limit_go_one_after_the_other_across_processes(
        self, store, peer, make_job, requests
    ):
        for number in range(4):
            store.add_job(make_job(f"job-{number}", due=NOW, trigger=DateTrigger(NOW), limits=Limit("api", 1)))
        live = list(requests.fire(store).runs)
        ran = []
        for place in (peer, store) * 4:
            assert len(live) <= 1
            ran += [run.job.id for run in live]
            place.settle([succeeded(run) for run in live])
            live = list(requests.claim(place).runs)
        assert sorted(ran) == [f"job-{number}" for number in range(4)]
        assert self.documents() == []

    def test_places_under_a_limit_that_belong_to_no_run_are_given_back(
        self, store, peer, make_job, requests, monkeypatch
    ):
        store.add_job(make_job("a", due=NOW, limits=Limit("api", concurrency=1)))
        end_at(monkeypatch, store._writer, "_send", "before")
        assert isinstance(store.fire_due(requests._request(NOW)).error, AutoReconnect)
        assert requests.fire(peer).runs == []
        peer.recover_runs(NOW + MINUTE, lost)
        assert [run.job.id for run in requests.claim(peer, now=NOW + MINUTE).runs] == ["a"]

    # Hostile and broken documents

    @pytest.mark.parametrize("definition", [
        b"\x80\x04cos\nsystem\n(S'true'\ntR.", "cos\nsystem\n", '{"schema": 99}', "[" * 100_000, None, {"$ne": 1},
    ], ids=["pickle", "text", "newer", "nested", "none", "document"])  # fmt: skip
    def test_a_job_that_cannot_be_read_is_suspended_and_kept(self, store, make_job, requests, definition):
        store.add_job(make_job("bad", due=NOW))
        store.add_job(make_job("good", due=NOW))
        self.collection().update_one({"_id": "bad"}, {"$set": {"definition": definition}})
        fired = requests.fire(store)
        assert [run.job.id for run in fired.runs] == ["good"]
        assert [each.job.id for each in fired.suspended] == ["bad"]
        assert "bad" in store.suspensions()
        assert store.lookup_job("bad").suspended
        store.remove_job("bad")

    @pytest.mark.parametrize("change", [{"runs": 5}, {"runs": [{"id": 1}]}, {"fence": "x"}, {"lane": None}])
    def test_a_document_of_another_shape_is_suspended_and_holds_nobody_up(self, store, make_job, requests, change):
        store.add_job(make_job("bad", due=NOW))
        store.add_job(make_job("good", due=NOW))
        self.collection().update_one({"_id": "bad"}, {"$set": change})
        fired = requests.fire(store)
        assert "good" in [run.job.id for run in fired.runs]
        assert [run.job.id for run in requests.fire(store, now=NOW + MINUTE).runs] in ([], ["bad"])

    def test_a_run_that_cannot_be_read_is_kept_where_nobody_claims_it(self, store, make_job, requests):
        store.add_run(asked_for(make_job("a"), "run-bad", NOW))
        store.add_run(asked_for(make_job("b"), "run-good", NOW))
        self.collection().update_one({"_id": "a"}, {"$set": {"runs.0.text": "no run"}})
        assert [run.id for run in requests.claim(store).runs] == ["run-good"]
        assert not requests.claim(store).runs
        assert len(self.documents()) == 2

    # Jobs

    def test_several_jobs_are_added_together_or_not_at_all(self, store, make_job):
        store.add_jobs([make_job("a"), make_job("b")])
        with pytest.raises(ConflictingIdError):
            store.add_jobs([make_job("c"), make_job("b"), make_job("d")])
        assert [job.id for job in store.get_all_jobs()] == ["a", "b"]

    def test_a_job_can_be_added_again_while_a_run_of_its_predecessor_goes_on(self, store, make_job, requests):
        store.add_job(make_job("a", due=NOW, trigger=DateTrigger(NOW), args=("old",)))
        (run,) = requests.fire(store).runs
        store.add_job(make_job("a", due=NOW + MINUTE, args=("new",)))
        assert [live.job.args for live in store.live_runs("a")] == [("old",)]
        assert store.settle([succeeded(run)]) == []
        assert store.lookup_job("a").args == ("new",)

    def test_a_run_keeps_the_definition_that_it_was_fired_with(self, store, make_job, requests):
        store.add_job(make_job("a", due=NOW, args=("old",), retry=2))
        (run,) = requests.fire(store).runs
        store.edit_job("a", lambda job: copy_with(job, args=("new",)))
        store.settle([failed(run)])
        (again,) = requests.claim(store, now=NOW + 10 * MINUTE).runs
        assert again.job.args == ("old",)

    def test_the_most_urgent_go_first_although_others_are_due_longer(self, store, make_job, requests):
        for number in range(30):
            store.add_job(make_job(f"usual-{number}", due=NOW - MINUTE))
        for number in range(3):
            store.add_job(make_job(f"urgent-{number}", due=NOW - number * SECOND, priority=0))
        fired = requests.fire(store, room={"default": 4})
        assert [run.job.id[:6] for run in fired.runs] == ["urgent"] * 3 + ["usual-"]

    def test_a_job_that_is_too_large_is_refused_with_both_numbers(self, store, make_job):
        with pytest.raises(InvalidArgument, match=r"\d{7}.*\d{7}"):
            store.add_job(make_job("a", args=("x" * 9_000_000,)))

    # Servers

    def test_another_process_is_heard_of_within_a_second(self, store, peer, make_job):
        woken, ready = threading.Event(), threading.Event()
        store.subscribe(lambda: woken.set() if ready.is_set() else None)
        assert store._listener.listening.wait(60)
        ready.set()
        store.add_job(make_job("ours"))
        peer.add_job(make_job("theirs"))
        assert woken.wait(60)
        assert store.poll_after() > 1000

    def test_what_we_do_ourselves_does_not_wake_us(self, store, peer, make_job):
        woken: list[None] = []
        store.subscribe(lambda: woken.append(None))
        assert store._listener.listening.wait(60)
        store.add_job(make_job("ours"))
        before = len(woken)
        peer.add_job(make_job("theirs"))
        wait_until(lambda: len(woken) > before)
        assert len(woken) == before + 1

    def test_calls_of_the_past_wake_nobody(self, store, peer, make_job):
        for number in range(20):
            peer.add_job(make_job(f"past-{number}"))
        wait_until(lambda: store._collections.calls.count_documents({}) == 20)  # nobody has waited for them
        woken: list[None] = []
        store.subscribe(lambda: woken.append(None))
        assert store._listener.listening.wait(60)
        peer.add_job(make_job("present"))
        wait_until(lambda: len(woken) > 1)
        assert len(woken) == 2, "at the start, and for the call after it"

    def test_where_calls_cannot_be_heard_the_server_is_asked(self, store, peer, make_job, requests):
        messages = self._client()[self.space.name]["jobs.calls"]
        messages.drop()
        messages.insert_one({"by": "somebody"})
        store.subscribe(lambda: None)
        peer.add_job(make_job("a", due=NOW))
        assert store.poll_after() <= 1
        assert not store._listener.listening.is_set()
        assert [run.job.id for run in requests.fire(store).runs] == ["a"]

    @pytest.mark.parametrize(("steps", "looks"), [
        (("claim_runs", "fire_due"), 1), (("fire_due", "claim_runs"), 1), (("fire_due", "fire_due"), 2),
        (("claim_runs", "claim_runs"), 2), (("claim_runs", "next round", "fire_due"), 2),
        (("claim_runs", "add", "fire_due"), 3),
    ])  # fmt: skip
    def test_what_one_step_of_a_round_has_seen_serves_the_other_one_and_no_later_one(
        self, store, make_job, requests, monkeypatch, steps, looks
    ):
        store.add_job(make_job("later", due=NOW + MINUTE))
        seen: list[None] = []
        look = store._reader.peek
        monkeypatch.setattr(store._reader, "peek", lambda request: (seen.append(None), look(request))[1])
        request = requests._request(NOW)
        for step in steps:
            if step == "add":
                store.add_job(make_job("now", due=NOW))
            elif step == "next round":
                request = requests._request(NOW)
            else:
                answer = getattr(store, step)(request)
        assert len(seen) == looks
        assert len(answer.runs) == steps.count("add")

    def test_leases_go_by_the_clock_of_the_server(self, scheduler, make_job):
        store = MongoDBJobStore.from_url(self.space.url)
        store.start(scheduler, "default")
        assert store.renew_owner(Owner("owner-1"), NOW, LEASE)
        assert store.renew_owner(Owner("owner-2"), NOW, -LEASE)
        assert [owner.id for owner in store.owners(NOW - 400 * LEASE)] == ["owner-1"]
        store.recover_runs(NOW - 400 * LEASE, lost)
        assert store.renew_owner(Owner("owner-1"), NOW, LEASE)
        assert not store.renew_owner(Owner("owner-2"), NOW, LEASE)
        store.shutdown()

    def test_a_ready_client_is_not_closed(self, scheduler, make_job):
        with pymongo.MongoClient(self.space.url) as client:
            store = MongoDBJobStore(self.space.name, client=client, server_time=False)
            store.start(scheduler, "default")
            store.add_job(make_job("a"))
            store.shutdown()
            assert client.admin.command("ping")["ok"]

    def test_a_store_can_be_started_again(self, scheduler, make_job):
        store = self.make_store()
        for number in range(2):
            store.start(scheduler, "default")
            store.add_job(make_job(str(number)))
            store.shutdown()
        store.start(scheduler, "default")
        assert len(store.get_all_jobs()) == 2
        store.shutdown()

    def test_a_collection_of_apscheduler_3_is_refused_and_left_alone(self, scheduler):
        self.collection().insert_one({"_id": "a", "next_run_time": 1.0, "job_state": b"pickle"})
        store = self.make_store()
        with pytest.raises(GoSchedulerError, match="APScheduler 3"):
            store.start(scheduler, "default")
        store.shutdown()
        assert len(self.documents()) == 1

    def test_a_client_that_does_not_wait_for_the_majority_is_told_of(self, scheduler, caplog):
        store = MongoDBJobStore.from_url(self.space.url, w=1)
        with caplog.at_level(logging.WARNING):
            store.start(scheduler, "default")
        store.shutdown()
        assert "can be lost" in caplog.text

    def test_a_client_that_does_not_wait_for_the_majority_sees_what_it_has_written(
        self, scheduler, make_job, requests
    ):
        store = MongoDBJobStore.from_url(self.space.url, server_time=False, w=1)
        store.start(scheduler, "default")
        try:
            store.add_jobs([make_job(f"job-{n}", due=NOW, trigger=DateTrigger(NOW)) for n in range(200)])
            fired = [requests.fire(store, room={"default": 50}).runs for _ in range(4)]
            assert list(map(len, fired)) == [50] * 4
            assert len(store.live_runs()) == 200
        finally:
            store.shutdown()

    def collection(self):
        return self._client()[self.space.name]["jobs"]

    def documents(self):
        """Return the documents that are not the ends of lanes."""
        return list(self.collection().find({"v": {"$ne": ""}}))

    def _client(self):
        if not hasattr(self, "_direct"):
            self._direct = pymongo.MongoClient(self.space.url)
        return self._direct

    @pytest.fixture(autouse=True)
    def _close(self):
        yield
        if hasattr(self, "_direct"):
            self._direct.close()


def test_a_server_that_does_not_answer_is_told_without_the_password(monkeypatch):
    monkeypatch.setattr(drivers, "DEADLINES", {**drivers.DEADLINES, "serverSelectionTimeoutMS": 100})
    store = MongoDBJobStore.from_url("mongodb://me:s3cret@127.0.0.1:1/jobs?directConnection=true")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1") as caught:
        store.start(None, "default")
    store.shutdown()
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(store)


def test_a_wrong_password_is_told_for_good_and_not_shown(mongodb, fresh):
    url = fresh(mongodb).url.replace("mongodb://", "mongodb://anna:s3cret@")
    with pytest.raises(GoSchedulerError, match="check user, password") as caught:
        ManualScheduler(jobstores={"default": url}).start()
    assert not isinstance(caught.value, StoreUnavailable)
    assert "s3cret" not in str(caught.value)



@pytest.mark.parametrize(("options", "match"), [
    ({"database": {"$ne": 1}}, "database"),
    ({"collection": "a b"}, "collection"),
    ({"url": "mongodb://me:s3cret@[bad"}, "MongoDB"),
    ({"url": "http://localhost"}, "MongoDB"),
    ({"client": mongomock.MongoClient()}, "use a MemoryJobStore in tests"),
])  # fmt: skip
def test_options_that_make_no_sense_are_refused_without_the_password(options, match):
    with pytest.raises((InvalidArgument, TypeError), match=match) as caught:
        MongoDBJobStore(**options)
    assert "s3cret" not in str(caught.value)


@pytest.mark.serial
def test_a_server_that_is_no_replica_set_serves_two_processes_too(mongodb, tmp_path, fresh):
    server = Standalone(tmp_path / "standalone")
    server.start()
    try:
        go_through_the_life_of_runs(fresh(server).url)
    finally:
        server.close()


def go_through_the_life_of_runs(url):
    scheduler = ManualScheduler(clock=ManualClock(NOW))
    store, peer = (MongoDBJobStore.from_url(url, server_time=False) for _ in range(2))
    for place in (store, peer):
        place.start(scheduler, "default")
        place.subscribe(lambda: None)
    make_job, requests = JobMaker(scheduler), Requests()
    assert store._listener.listening.wait(60)
    assert store.poll_after() > 1000, "a server of this kind tells, too"
    store.add_jobs([make_job(f"job-{number}", due=NOW, trigger=DateTrigger(NOW), retry=2) for number in range(40)])
    fired = in_threads([lambda place=place: requests.fire(place) for place in (store, peer) * 4])
    runs = [run for result in fired for run in result.runs]
    assert sorted(run.job.id for run in runs) == sorted(f"job-{number}" for number in range(40))
    store.settle([succeeded(run) for run in runs[:20]])
    peer.settle([failed(run) for run in runs[20:30]])
    assert len(peer.recover_runs(NOW, lost)) == 10
    assert len(requests.claim(store, now=NOW + MINUTE).runs) == 20
    assert len(store.history(EVERYTHING)) == 40
    for place in (store, peer):
        place.shutdown()


class TestMongoDBAgainstTheModel(against_the_model(MongoDBMachine, examples=5, steps=40)):
    @pytest.fixture(autouse=True)
    def _permit(self, mongodb, fresh):
        MongoDBMachine.url = fresh(mongodb).url


def end_at(monkeypatch, target, name, step):
    """Let a process end before or after one of its steps: it goes on with nothing else."""
    original = getattr(target, name)

    def ended(*args, **kwargs):
        if step == "after":
            original(*args, **kwargs)
        raise AutoReconnect("ended here")

    monkeypatch.setattr(target, name, ended)


def wait_until(condition):
    tick = threading.Event()
    for _ in range(6000):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError("waited in vain")
