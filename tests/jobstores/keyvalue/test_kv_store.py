"""What the stores on etcd and ZooKeeper have in common, on a server in memory that is as strict as both of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goscheduler._drivers.urls import addresses, check_path, read_url
from goscheduler.errors import ConflictingIdError, InvalidArgument, StoreUnavailable
from goscheduler.events import EVENT_LEASE_LOST
from goscheduler.jobstores._keyvalue.owners import TimedHeartbeats
from goscheduler.jobstores._keyvalue.server import (
    NOTIFY_KEY,
    Found,
    Key,
    Span,
    Transaction,
    decode_time,
    encode_time,
    encode_time_descending,
    escape,
    unescape,
)
from goscheduler.jobstores._keyvalue.store import KeyValueJobStore
from goscheduler.runs.limits import Limit
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.transitions import asked_for
from goscheduler.testing import EventRecorder, ManualScheduler
from goscheduler.testing.contract import JobMaker, Requests, StoreContract, in_threads, succeeded
from goscheduler.testing.model import StoreMachine, against_the_model
from goscheduler.testing.model_limits import limits_against_the_model
from goscheduler.times import to_micros
from goscheduler.triggers.date import DateTrigger

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


class MemoryKeyValue:
    """Several stores may use it at once."""

    max_bytes = 900_000

    def __init__(self, max_changes: int = 128) -> None:
        self.max_changes = max_changes
        self.values: dict[Key, Found] = {}
        self._lock = threading.Lock()
        self._listeners: list[Callable[[str], None]] = []
        self._version = 0
        self.calls = 0
        self.before_commit: Callable[[], object] | None = None
        """Called once, before the next step is committed."""
        self.before_read: tuple[Key, Callable[[], object]] | None = None
        """Called once, before a key is read."""
        self.silent: list[str] = []
        """Calls that are to be done, and not to be answered."""
        self.loses_answer: Callable[[Transaction], bool] = lambda _: False
        """Tells of which transaction the answer is lost, once."""

    def open(self) -> None:
        return

    def close(self) -> None:
        return

    def abandon(self) -> None:
        return

    def read(self, keys: Sequence[Key]) -> list[Found | None]:
        self.calls += 1
        self._answer("read")
        if self.before_read is not None and self.before_read[0] in keys:
            (_, meanwhile), self.before_read = self.before_read, None
            meanwhile()
        with self._lock:
            return [self.values.get(key) for key in keys]

    def names(self, spans: Sequence[Span]) -> list[list[str]]:
        self.calls += 1
        self._answer("names")
        with self._lock:
            return [
                sorted(key[-1] for key in self.values if key[:-1] == span.folder and span.has(key[-1]))[: span.limit]
                for span in spans
            ]

    def commit(self, transaction: Transaction) -> bool:
        self.calls += 1
        if self.before_commit is not None:
            meanwhile, self.before_commit = self.before_commit, None
            meanwhile()
        assert len(transaction) <= self.max_changes
        changed = [
            *transaction.created,
            *transaction.replaced,
            *transaction.deleted,
            *transaction.put,
            *transaction.checked,
        ]
        assert len(set(changed)) == len(changed), "a key may be changed once in a step"
        with self._lock:
            if not self._as_expected(transaction):
                return False
            self._version += 1
            for key in transaction.deleted:
                del self.values[key]
            values = {
                **transaction.created,
                **{key: value for key, (value, _) in transaction.replaced.items()},
                **transaction.put,
            }
            self.values.update({key: Found(value, self._version) for key, value in values.items()})
            self._check_groups(transaction)
        self._answer("commit")
        if self.loses_answer(transaction):
            self.loses_answer = lambda _: False
            raise StoreUnavailable("no answer")
        if NOTIFY_KEY in transaction.put:
            for heard in self._listeners:
                heard(transaction.put[NOTIFY_KEY])
        return True

    def _answer(self, call: str) -> None:
        if self.silent[:1] == [call]:
            del self.silent[0]
            raise StoreUnavailable("no answer")

    def _as_expected(self, transaction: Transaction) -> bool:
        expected = {**transaction.deleted, **{key: version for key, (_, version) in transaction.replaced.items()}}
        return (
            not any(key in self.values for key in transaction.created)
            and all(key in self.values for key in transaction.checked)
            and all(
                key in self.values and version in (None, self.values[key].version) for key, version in expected.items()
            )
        )

    def _check_groups(self, transaction: Transaction) -> None:
        """ZooKeeper takes no member without its group, and no group away that has members."""
        for key in (*transaction.created, *transaction.deleted):
            if key[0] == "members" and key in self.values:
                assert ("groups", key[1]) in self.values
            if key[0] == "groups" and key not in self.values:
                assert not any(other[:2] == ("members", key[1]) for other in self.values)

    def ensure(self, key: Key) -> None:
        with self._lock:
            self.values.setdefault(key, Found("", 0))

    def mirror(self, folder: Key, values: bool) -> MemoryMirror:
        return MemoryMirror(self, folder)

    def listen(self, heard: Callable[[str], None]) -> None:
        self._listeners.append(heard)


class MemoryMirror:
    """Compares everything."""

    def __init__(self, server: MemoryKeyValue, folder: Key) -> None:
        self.held: dict[str, Found | None] = {}
        self._server = server
        self._folder = folder

    def refresh(self) -> set[str]:
        before = self.held
        (names,) = self._server.names([Span(self._folder)])
        found = zip(names, self._server.read([(*self._folder, name) for name in names]), strict=True)
        self.held = {name: each for name, each in found if each is not None}
        return {name for name in before.keys() | self.held.keys() if before.get(name) != self.held.get(name)}


def store_on(server: MemoryKeyValue) -> KeyValueJobStore:
    return KeyValueJobStore(server, TimedHeartbeats(server), None, True)


class TestContract(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self):
        self.server = MemoryKeyValue()

    def make_store(self):
        return store_on(self.server)

    def make_peer(self, store):
        return store_on(self.server)


class TestContractOfASmallServer(TestContract):
    """One that takes few changes at once, so that most things take several steps."""

    @pytest.fixture(autouse=True)
    def _place(self):
        self.server = MemoryKeyValue(max_changes=30)


class Machine(StoreMachine):
    decides_apart = True

    def make_store(self):
        self.server = MemoryKeyValue()
        return store_on(self.server)

    def make_peer(self, store):
        return store_on(self.server)


TestAgainstTheModel = against_the_model(Machine, examples=10)
TestLimitsAgainstTheModel = limits_against_the_model(Machine, examples=20)


@pytest.fixture
def server():
    return MemoryKeyValue()


@pytest.fixture
def scheduler():
    return ManualScheduler()


@pytest.fixture
def started(server, scheduler):
    """Return a function that starts another store on the server."""

    def start():
        store = store_on(server)
        store.start(scheduler, "default")
        return store

    return start


@pytest.fixture
def store(started):
    return started()


@pytest.fixture
def make_job(scheduler):
    return JobMaker(scheduler)


@pytest.fixture
def requests():
    return Requests()


# Strays


def test_a_job_or_run_that_is_moved_while_strays_are_looked_for_is_none(server, started, store, make_job, requests):
    peer = started()
    store.add_job(make_job("a", due=NOW))
    (place,) = [key for key in server.values if key[0] == "due"]
    server.before_read = (place, lambda: requests.fire(peer, now=NOW))
    assert not store.requeue_orphans(100).ids
    (place,) = [key for key in server.values if key[0] == "owned"]
    server.before_read = (place, lambda: peer.retire_owner("owner-1"))
    assert not store.requeue_orphans(100).ids
    assert len([key for key in server.values if key[0] == "due"]) == 1
    assert len([key for key in server.values if key[0] == "ready"]) == 1


def test_of_two_who_put_the_same_job_back_one_does(server, started, store, make_job):
    peer = started()
    store.add_job(make_job("a", due=NOW))
    (place,) = [key for key in server.values if key[0] == "due"]
    del server.values[place]
    found = []
    server.before_commit = lambda: found.append(peer.requeue_orphans(100))
    assert not store.requeue_orphans(100).ids
    assert [put_back.ids for put_back in found] == [["a"]]
    assert len([key for key in server.values if key[0] == "due"]) == 1


# What is left behind


def test_nothing_but_the_history_is_left_when_everything_is_over(server, store, make_job, requests):
    limit = Limit("two", concurrency=2)
    for number in range(6):
        store.add_job(make_job(f"once-{number}", trigger=DateTrigger(NOW), limits=[limit]))
    store.add_job(make_job("often", max_instances=2))
    store.add_run(asked_for(make_job("gone"), "asked", NOW))
    runs = [*requests.fire(store).runs, *requests.claim(store).runs]
    while runs:
        store.settle([succeeded(run) for run in runs])
        runs = list(requests.claim(store).runs)
    store.remove_job("often")
    left = {key[0] for key in server.values}
    assert left == {"bell", "history", "lanes"}
    assert len(store.history(HistoryQuery())) == 8


def test_a_job_that_is_removed_while_it_runs_is_forgotten_with_its_last_run(server, store, make_job, requests):
    store.add_job(make_job("a"))
    (run,) = requests.fire(store).runs
    store.remove_job("a")
    store.forget_job("a")
    store.settle([succeeded(run)])
    assert {key[0] for key in server.values} == {"bell", "history", "lanes"}


def test_a_run_that_was_let_try_and_is_discarded_with_the_one_that_would_be_next(store, make_job, requests):
    store.add_job(make_job("a"))
    (live,) = requests.fire(store).runs
    for number in range(3):
        store.add_run(asked_for(make_job("a"), f"asked-{number}", NOW))
    assert not requests.claim(store).runs
    store.settle([succeeded(live)])
    assert store.discard_pending("a")
    assert store.pending_runs() == []


# What it costs


def test_a_look_at_a_store_in_which_nothing_is_due_costs_one_call(server, store, make_job, requests):
    store.add_job(make_job("a", due=NOW + SECOND))
    requests.fire(store)
    before = server.calls
    assert requests.fire(store).next_due == NOW + SECOND
    assert server.calls == before + 1


def test_a_round_in_which_nothing_is_due_costs_one_call(server, store, requests):
    requests.fire(store)
    before = server.calls
    requests.fire(store)
    requests.claim(store)
    assert server.calls == before + 1
    requests.claim(store)
    assert server.calls == before + 2, "what was seen is believed once"


def test_a_job_that_is_due_is_handed_over_after_a_look_two_reads_and_a_write(server, store, make_job, requests):
    requests.fire(store)
    store.add_job(make_job("a"))
    store.add_job(make_job("later", due=NOW + 30 * SECOND))
    requests.fire(store, now=NOW - SECOND)  # by now the lane is known
    before = server.calls
    fired = requests.fire(store, room={"default": 10})
    assert [run.job.id for run in fired.runs] == ["a"]
    assert (fired.next_due, fired.more) == (NOW + 30 * SECOND, False)
    requests.claim(store, room={"default": 9})
    assert server.calls == before + 4


@pytest.mark.parametrize("room", [0, 1, 2, 15, 16, 17, 40])
@pytest.mark.parametrize("jobs", [1, 15, 16, 17, 30])
def test_what_is_left_after_a_firing_is_told_as_by_one_who_looks_then(started, make_job, requests, room, jobs):
    store, other = started(), started()
    store.add_jobs([make_job(f"job-{number:02d}", due=NOW - number * SECOND) for number in range(jobs)])
    store.add_job(make_job("other", due=NOW - SECOND, priority=9, trigger=DateTrigger(NOW - SECOND)))
    store.add_job(make_job("later", due=NOW + SECOND))
    fired = requests.fire(store, room={"default": room})
    assert len(fired.runs) == min(room, jobs + 1)
    left = {"default": room - len(fired.runs)}
    work = other._reader.peek(requests._request(NOW, room=left))
    assert (None if fired.next_due is None else to_micros(fired.next_due)) == work.job_due(left)
    assert fired.more == work.out_of_capacity(left)


def test_a_firing_that_leaves_runs_to_wait_says_when_they_are_due(store, make_job, requests):
    store.add_job(make_job("a", due=NOW - 60 * SECOND, start=NOW - 60 * SECOND, coalesce=False, max_instances=1))
    fired = requests.fire(store)
    assert len(fired.runs) == 1
    assert requests.claim(store).more, "one fire time waits for the run to end"


def test_the_calls_of_a_firing_do_not_grow_with_the_number_of_jobs(started, make_job):
    costs = []
    for count in (1, 8):
        server = MemoryKeyValue()
        store = store_on(server)
        store.start(ManualScheduler(), "default")
        store.add_jobs([make_job(f"job-{number}") for number in range(count)])
        before = server.calls
        assert len(Requests().fire(store).runs) == count
        costs.append(server.calls - before)
    assert costs[0] == costs[1] < 10


# Steps that are too large for one


def test_a_backlog_that_is_too_large_for_one_step_is_written_in_several(make_job, requests, scheduler):
    server = MemoryKeyValue(max_changes=60)
    store = store_on(server)
    store.start(scheduler, "default")
    store.add_job(make_job("a", due=NOW - 99 * 60 * SECOND, start=NOW - 99 * 60 * SECOND, coalesce=False))
    (first,) = requests.fire(store).runs
    assert first.scheduled_at == NOW - 99 * 60 * SECOND
    assert [run.scheduled_at for run in store.pending_runs("a")] == [
        NOW - number * 60 * SECOND for number in range(98, -1, -1)
    ]
    assert store.lookup_job("a").next_run_time == NOW + 60 * SECOND


def test_jobs_that_are_added_together_are_all_taken_back_when_one_id_is_taken(server, store, make_job):
    store.add_job(make_job("job-150", name="first"))
    with pytest.raises(ConflictingIdError, match="job-150"):
        store.add_jobs([make_job(f"job-{number}") for number in range(200)])
    assert [job.name for job in store.get_all_jobs()] == ["first"]
    with pytest.raises(ConflictingIdError, match="twice"):
        store.add_jobs([make_job("twice"), make_job("other"), make_job("twice")])


def test_a_job_that_is_larger_than_the_server_takes_is_refused_with_both_numbers(store, make_job):
    with pytest.raises(InvalidArgument, match=r"takes 3\d{5} bytes, and this job store keeps at most 300000"):
        store.add_job(make_job("a", args=["x" * 310_000]))
    with pytest.raises(InvalidArgument, match="30 limits; this job store takes at most 21"):
        store.add_job(make_job("a", limits=[Limit(str(number), concurrency=1) for number in range(30)]))


# Others at the same time


def test_a_limit_holds_whoever_claims(started, store, make_job, requests):
    limit = Limit("three", concurrency=3)
    for number in range(20):
        store.add_job(make_job(f"job-{number}", trigger=DateTrigger(NOW), limits=[limit]))
    peers = [started() for _ in range(4)]
    ran: list[str] = []
    fired = in_threads([lambda peer=peer: requests.fire(peer) for peer in peers])
    waves = [run for each in fired for run in each.runs]
    while waves:
        assert len(store.live_runs()) == len(waves) <= 3
        ran += [run.job.id for run in waves]
        in_threads([lambda run=run: store.settle([succeeded(run)]) for run in waves])
        claimed = in_threads([lambda peer=peer: requests.claim(peer) for peer in peers])
        waves = [run for each in claimed for run in each.runs]
    assert sorted(ran) == sorted(f"job-{number}" for number in range(20))


def test_a_run_is_not_held_for_one_that_ends_at_the_same_moment(server, started, store, make_job, requests):
    peer = started()
    store.add_job(make_job("a"))
    (live,) = requests.fire(store).runs
    store.add_run(asked_for(make_job("a"), "asked", NOW))
    server.before_commit = lambda: peer.settle([succeeded(live)])
    assert [run.id for run in requests.claim(store).runs] == ["asked"]


def test_a_run_that_is_just_being_held_is_let_go_by_one_that_ends(server, started, store, make_job, requests):
    peer = started()
    store.add_job(make_job("a"))
    (live,) = requests.fire(store).runs
    store.add_run(asked_for(make_job("a"), "asked", NOW))
    server.before_commit = lambda: requests.claim(peer)
    assert not store.settle([succeeded(live)])
    assert [run.id for run in requests.claim(store).runs] == ["asked"]


def test_who_was_frozen_while_it_looked_for_lost_runs_takes_none_from_a_living_owner(
    server, started, store, make_job, requests
):
    store.add_job(make_job("a", trigger=DateTrigger(NOW)))
    (run,) = requests.fire(store).runs
    heirs = []

    def meanwhile():
        peer = started()
        peer.retire_owner("owner-1")
        heirs.extend(requests.claim(peer, owner="owner-2").runs)

    server.before_read = (("runs", run.id), meanwhile)
    assert not store.recover_runs(NOW, pytest.fail)
    assert [live.owner for live in store.live_runs()] == ["owner-2"]


# Servers that do not answer


@pytest.mark.parametrize(
    ("lost", "outcomes"),
    [("owned", [OutcomeKind.SUCCEEDED, OutcomeKind.SNOOZED]), ("history", [OutcomeKind.SUCCEEDED])],
)
def test_a_firing_or_an_end_whose_answer_was_lost_runs_the_job_once(server, lost, outcomes):
    with ManualScheduler(jobstores={"default": store_on(server)}) as scheduler:
        recorder = EventRecorder(scheduler, EVENT_LEASE_LOST)
        scheduler.add_job("json:dumps", "date", run_date=scheduler.clock.now() + SECOND, args=["x"], id="once")
        server.loses_answer = lambda transaction: any(key[0] == lost for key in transaction.created)
        scheduler.advance("1s")
        scheduler.advance("2s")
        assert [record.outcome for record in scheduler.runs("once")] == outcomes
        assert not recorder.events
        assert not scheduler.get_jobs()


def test_a_claim_that_was_not_written_is_not_believed_because_another_process_has_claimed_the_run(
    server, store, make_job, requests, scheduler
):
    store.add_run(asked_for(make_job("a"), "asked", NOW))
    other, theirs = store_on(server), []
    other.start(scheduler, "default")

    def be_overtaken():
        theirs.extend(other.claim_runs(requests._request(NOW)._replace(owner="owner-2")).runs)
        raise StoreUnavailable("no answer")

    server.before_commit = be_overtaken
    claimed = store.claim_runs(requests._request(NOW))
    assert [run.id for run in theirs] == ["asked"]
    assert not claimed.runs
    assert not requests.claim(store, now=NOW + SECOND).runs


def test_what_was_fired_or_claimed_before_the_server_went_silent_is_handed_over(server, store, make_job, requests):
    store.add_job(make_job("a", due=NOW - 60 * SECOND, start=NOW - 60 * SECOND, coalesce=False))
    store.add_run(asked_for(make_job("b"), "asked", NOW - 120 * SECOND))
    server.before_commit = lambda: server.silent.append("names")
    fired = store.fire_due(requests._request(NOW))
    assert [run.job.id for run in fired.runs] == ["a"]
    assert isinstance(fired.error, StoreUnavailable)
    server.before_commit = lambda: server.silent.append("names")
    claimed = store.claim_runs(requests._request(NOW))
    assert [run.id for run in claimed.runs] == ["asked"]
    assert isinstance(claimed.error, StoreUnavailable)


# Records that somebody else has written

HOSTILE = {
    "pickle": "cos\nsystem\n(S'touch {}'\ntR.",
    "no text": "\udc80\udcff\udc00",
    "nesting": "[" * 100_000,
    "another list": "[1, 2, 3]\n{}",
    "nothing": "",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_record_that_cannot_be_read_is_a_suspended_job_whose_bytes_are_kept(server, store, make_job, requests, text):
    key = ("jobs", escape("a/b"))
    store.add_job(make_job("a/b"))
    store.add_job(make_job("good"))
    server.values[key] = Found(text, 99)
    fired = requests.fire(store)
    assert [run.job.id for run in fired.runs] == ["good"]
    assert [suspended.job.id for suspended in fired.suspended] == ["a/b"]
    assert set(store.suspensions()) == {"a/b"}
    assert server.values[key].value == text
    assert not requests.fire(store).suspended
    store.remove_job("a/b")
    assert [job.id for job in store.get_all_jobs()] == ["good"]


def test_a_definition_that_cannot_be_read_is_kept(server, store, make_job, requests):
    store.add_job(make_job("a"))
    header = server.values["jobs", "a"].value.partition("\n")[0]
    server.values["jobs", "a"] = Found(f"{header}\nnonsense\udcff", 99)
    assert [suspended.job.id for suspended in requests.fire(store).suspended] == ["a"]
    assert "its record cannot be read" in store.suspensions()["a"]
    assert server.values["jobs", "a"].value.endswith("\nnonsense\udcff")
    assert store.lookup_job("a").next_run_time == NOW


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_run_that_cannot_be_read_is_kept_and_hinders_nobody(server, store, make_job, requests, text):
    store.add_run(asked_for(make_job("a"), "bad", NOW))
    store.add_run(asked_for(make_job("b"), "good", NOW))
    server.values["runs", "bad"] = Found(text, 99)
    assert [run.id for run in requests.claim(store).runs] == ["good"]
    assert requests.claim(store).next_due is None
    assert server.values["runs", "bad"].value == text


@pytest.mark.parametrize("live", [True, False])
def test_a_run_whose_own_text_cannot_be_read_is_put_aside_and_its_job_goes_on(
    server, store, make_job, requests, live, caplog
):
    store.add_job(make_job("a", trigger=DateTrigger(NOW)))
    store.add_run(asked_for(make_job("a"), "bad", NOW))
    claimed = requests.claim(store).runs if live else ()
    header = server.values["runs", "bad"].value.partition("\n")[0]
    server.values["runs", "bad"] = Found(f"{header}\nnonsense", 99)
    assert not store.recover_runs(NOW, pytest.fail)
    assert not requests.claim(store).runs
    assert [run.job.id for run in requests.fire(store).runs] == ["a"]
    assert server.values["runs", "bad"].value.endswith("\nnonsense")
    assert store.settle([succeeded(run) for run in claimed]) == [succeeded(run) for run in claimed]
    assert not store.discard_pending("a")
    assert [run.id for run in store.live_runs("a")] != ["bad"]


def test_what_cannot_be_read_of_the_history_is_left_out(server, store, make_job, requests, caplog):
    store.add_job(make_job("a", retry=1))
    (run,) = requests.fire(store).runs
    store.settle([succeeded(run)])
    server.values["history", encode_time(1) + ".x.1.O.a.y"] = Found("nonsense", 1)
    server.values["dead", "x"] = Found(json.dumps([1, 2]), 1)
    assert [record.run_id for record in store.history(HistoryQuery())] == [run.id]
    assert store.dead_letters(HistoryQuery()) == []
    assert caplog.text.count("is kept and cannot be read") == 2


# Words


@given(st.text())
def test_a_word_says_which_name_it_stands_for_and_is_inert(name):
    assert unescape(escape(name)) == name
    assert set(escape(name)).isdisjoint("/.~ \0")


@given(st.lists(st.integers(0, 10**17), min_size=2, max_size=2))
def test_words_of_times_are_in_their_order(times):
    earlier, later = sorted(times)
    assert encode_time(earlier) <= encode_time(later)
    assert encode_time_descending(earlier) >= encode_time_descending(later)
    assert decode_time(encode_time(earlier)) == earlier


def test_a_path_never_touches_another_one_that_begins_like_it():
    assert check_path("/a") + "/" == check_path("a/") + "/" == "/a/"


@pytest.mark.parametrize("path", ["", "/", "//", "/a//b", "/a/../b", "/a/./b", "/a\0", "/a\nb"])
def test_a_path_with_parts_that_no_server_takes_is_refused(path):
    with pytest.raises(InvalidArgument, match="path"):
        check_path(path)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("etcd://", ("etcd", "", "", "", "")),
        ("etcd://h:1", ("etcd", "h:1", "", "", "")),
        ("etcd://h:1/", ("etcd", "h:1", "", "", "")),
        ("etcd://h:1/a/b", ("etcd", "h:1", "", "", "/a/b")),
        ("ETCD://u:p%40:x@h/a", ("etcd", "h", "u", "p@:x", "/a")),
        ("zk://h:1,g:2/a", ("zk", "h:1,g:2", "", "", "/a")),
    ],
)
def test_a_url_says_where_a_store_is(url, expected):
    assert read_url(url, ("etcd", "zk"), "an example") == expected


@pytest.mark.parametrize("url", ["h:1", "redis://u:canary@h", "etcd://u:canary@h /x", "etcd://u:canary@h/a?x=1"])
def test_a_url_that_says_something_else_is_refused_without_its_password(url):
    with pytest.raises(InvalidArgument, match="must look like an example") as caught:
        read_url(url, ("etcd",), "an example")
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(caught.value.value)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("", [("localhost", 7)]),
        ("h", [("h", 7)]),
        ("h:8", [("h", 8)]),
        ("[::1]:8", [("::1", 8)]),
        ("h:8,g,[::1]:9", [("h", 8), ("g", 7), ("::1", 9)]),
    ],
)
def test_addresses_are_hosts_and_ports(hosts, expected):
    assert addresses(hosts, 7) == expected


@pytest.mark.parametrize("hosts", ["h:port", "h:1,", ",h:1", "h:1;g:2", "::1"])
def test_what_is_no_address_is_refused(hosts):
    with pytest.raises(InvalidArgument, match="host:port"):
        addresses(hosts, 7)
