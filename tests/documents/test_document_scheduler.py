"""The scheduler of documents: its life, its hooks, locks and errors. Time is moved by hand where it matters."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from queue import SimpleQueue

import pytest
import warm
from document_worlds import MINUTE, NOW, SECOND

from goscheduler.documents import DocumentScheduler, _worker
from goscheduler.documents._document_locks import DocumentLocks
from goscheduler.documents._rules import PARKED
from goscheduler.documents.memory import MemoryDocumentStore
from goscheduler.errors import InvalidArgument, SchedulerAlreadyRunningError
from goscheduler.testing import ManualClock

PATIENCE = 60
LOCK = timedelta(minutes=10)


class Seen:
    """What happened, to wait for."""

    def __init__(self):
        self.things = []
        self._changed = threading.Condition()

    def __call__(self, thing="called"):
        with self._changed:
            self.things.append(thing)
            self._changed.notify_all()

    def wait(self, count=1):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.things) >= count, PATIENCE), self.things
            return self.things


@pytest.fixture
def clock():
    return ManualClock(NOW)


@contextmanager
def running(store, on_document, **options):
    cron = DocumentScheduler(store, on_document, timezone="UTC", **options)
    cron.start()
    try:
        yield cron
    finally:
        assert cron.stop(PATIENCE)


def sleep_untils(store):
    return [document.get("sleepUntil") for document in store.documents]


# What is told of documents


def test_people_are_told_what_comes_what_is_due_and_what_is_malformed(clock):
    store = MemoryDocumentStore([
        {"_id": "due", "sleepUntil": NOW}, {"_id": "later", "sleepUntil": NOW + MINUTE, "interval": "0 8 * * *"},
        {"_id": "bad", "sleepUntil": "tomorrow"}, {"_id": "asleep"},
    ])  # fmt: skip
    cron = DocumentScheduler(store, print, clock=clock)
    assert [(each.id, each.sleep_until, each.interval) for each in cron.upcoming()] == [
        ("due", NOW, None), ("later", NOW + MINUTE, "0 8 * * *"),
    ]  # fmt: skip
    assert [each.id for each in cron.upcoming(1)] == ["due"]
    assert cron.count_due() == (1, True)
    clock.advance(60)
    assert cron.count_due(1) == (1, False)
    assert [(bad.id, bad.value) for bad in cron.malformed()] == [("bad", "tomorrow")]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "5", None, 100_001])
def test_a_number_of_documents_that_makes_no_sense_is_refused(wrong):
    cron = DocumentScheduler(MemoryDocumentStore(), print)
    for method, field in ((cron.upcoming, "limit"), (cron.count_due, "cap"), (cron.malformed, "limit")):
        with pytest.raises(InvalidArgument, match=field):
            method(wrong)


# What is done with documents


def test_due_documents_are_processed_once_oldest_first_and_the_others_are_left_alone(clock):
    store = MemoryDocumentStore([
        {"n": "newest", "sleepUntil": NOW}, {"n": "oldest", "sleepUntil": NOW - MINUTE}, {"n": "none"},
        {"n": "null", "sleepUntil": None}, {"n": "later", "sleepUntil": NOW + MINUTE},
    ])  # fmt: skip
    seen, idle = Seen(), Seen()
    with running(store, seen, on_idle=idle, clock=clock):
        idle.wait()
    assert [document["n"] for document in seen.things] == ["oldest", "newest"]
    assert [document["sleepUntil"] for document in seen.things] == [NOW - MINUTE, NOW]
    assert sleep_untils(store) == [None, None, None, None, NOW + MINUTE]


def test_a_recurring_document_comes_again_and_a_removable_one_goes_in_the_end(clock):
    ends = NOW + 2 * MINUTE
    store = MemoryDocumentStore([
        {"sleepUntil": NOW, "interval": "* * * * *", "repeatUntil": ends, "autoRemove": True},
    ])  # fmt: skip
    seen, idle = Seen(), Seen()
    with running(store, seen, on_idle=idle, clock=clock):
        for firing in (1, 2):
            idle.wait(firing)
            assert sleep_untils(store) == [NOW + firing * MINUTE]
            clock.advance("1m")
        idle.wait(3)
    assert len(seen.things) == 3
    assert store.documents == []


def test_a_document_that_slept_through_many_firings_is_processed_once_and_then_on_time(clock):
    store = MemoryDocumentStore([{"sleepUntil": NOW - timedelta(days=3), "interval": "0 * * * *"}])
    seen, idle = Seen(), Seen()
    with running(store, seen, on_idle=idle, clock=clock):
        idle.wait()
    assert sleep_untils(store) == [NOW + timedelta(hours=1)]
    assert len(seen.things) == 2, "once for what was missed, and once because now was its time"


def test_the_handler_may_change_the_time_itself_and_is_not_overwritten(clock):
    store = MemoryDocumentStore([{"sleepUntil": NOW, "interval": "* * * * *"}])
    idle = Seen()

    def handle(document):
        store.documents[0]["sleepUntil"] = NOW + timedelta(days=1)

    with running(store, handle, on_idle=idle, clock=clock):
        idle.wait()
    assert sleep_untils(store) == [NOW + timedelta(days=1)]


def test_coroutine_functions_are_awaited_all_on_one_loop(clock):
    store = MemoryDocumentStore([{"sleepUntil": NOW} for _ in range(3)])
    loops, stopped = Seen(), Seen()

    async def handle(document):
        await asyncio.sleep(0)
        loops(asyncio.get_running_loop())

    async def hook():
        await asyncio.sleep(0)
        loops(asyncio.get_running_loop())

    async def on_stop():
        stopped()

    with running(store, handle, on_start=hook, on_idle=hook, on_stop=on_stop, concurrency=3, clock=clock):
        loops.wait(5)
    assert len(set(map(id, loops.things))) == 1
    assert stopped.things == ["called"]
    assert loops.things[0].is_closed()


def test_as_many_documents_at_once_as_concurrency_says(clock):
    store = MemoryDocumentStore([{"sleepUntil": NOW} for _ in range(7)])
    together, idle = threading.Barrier(3), Seen()
    lock, live, most = threading.Lock(), [], []

    def handle(document):
        with lock:
            live.append(document)
            most.append(len(live))
            number = len(most)
        if number <= 3:
            together.wait(PATIENCE)
        with lock:
            live.pop()

    with running(store, handle, on_idle=idle, concurrency=3, clock=clock):
        idle.wait()
    assert max(most) == 3
    assert sleep_untils(store) == [None] * 7


# Life


def test_it_tells_whether_it_runs_processes_or_is_idle(clock):
    store = MemoryDocumentStore([{"sleepUntil": NOW}])
    begun, go_on, idle = threading.Event(), threading.Event(), Seen()

    def handle(document):
        begun.set()
        assert go_on.wait(PATIENCE)

    cron = DocumentScheduler(store, handle, on_idle=idle, clock=clock)
    assert (cron.is_running(), cron.is_processing(), cron.is_idle()) == (False, False, False)
    cron.start()
    assert begun.wait(PATIENCE)
    assert (cron.is_running(), cron.is_processing(), cron.is_idle()) == (True, True, False)
    go_on.set()
    idle.wait()
    assert (cron.is_running(), cron.is_processing(), cron.is_idle()) == (True, False, True)
    assert cron.stop()
    assert (cron.is_running(), cron.is_processing(), cron.is_idle()) == (False, False, False)


def test_it_can_be_started_and_stopped_any_number_of_times_and_hooks_are_called_once_each(clock):
    store = MemoryDocumentStore()
    calls = []
    cron = DocumentScheduler(
        store, print, on_start=lambda: calls.append("start"), on_stop=lambda: calls.append("stop"), clock=clock
    )
    assert cron.stop()
    for _ in range(3):
        cron.start()
        cron.start()
        assert cron.stop()
        assert cron.stop()
    assert calls == ["start", "stop"] * 3
    assert cron.wait()


def test_no_thread_is_left_after_a_stop(clock):
    async def handle(document):
        await asyncio.sleep(0)

    before = threading.active_count()
    store, idle = MemoryDocumentStore([{"sleepUntil": NOW} for _ in range(5)]), Seen()
    with running(store, handle, on_idle=idle, concurrency=4, clock=clock):
        idle.wait()
    assert threading.active_count() == before


def test_many_threads_may_start_and_stop_it_at_once(clock):
    store = MemoryDocumentStore([{"sleepUntil": NOW - SECOND, "interval": "* * * * * *"}])
    cron = DocumentScheduler(store, lambda document: None, clock=clock)
    starts, stops, barrier = [], [], threading.Barrier(6)

    def churn(number):
        barrier.wait(PATIENCE)
        for _ in range(10):
            starts.append(cron.start()) if number % 2 else stops.append(cron.stop())

    threads = [threading.Thread(target=churn, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert cron.stop(PATIENCE)
    assert (len(starts), len(stops)) == (30, 30)


def test_stop_waits_for_the_handler_or_for_its_time_limit(clock):
    store = MemoryDocumentStore([{"sleepUntil": NOW}, {"sleepUntil": NOW + SECOND}])
    begun, go_on, stopped = threading.Event(), threading.Event(), Seen()

    def handle(document):
        begun.set()
        assert go_on.wait(PATIENCE)

    cron = DocumentScheduler(store, handle, on_stop=stopped, clock=clock)
    cron.start()
    assert begun.wait(PATIENCE)
    assert not cron.stop(timeout=0.01)
    assert (cron.is_running(), cron.is_processing(), stopped.things) == (False, True, [])
    clock.advance("1m")
    go_on.set()
    assert cron.wait(PATIENCE)
    assert stopped.things == ["called"]
    assert sleep_untils(store) == [None, NOW + SECOND], "what is in hand is finished, nothing else is begun"


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_handler_may_stop_the_scheduler(clock, is_coroutine):
    store = MemoryDocumentStore([{"sleepUntil": NOW}, {"sleepUntil": NOW}])
    answers = []

    def handle(document):
        answers.append(cron.stop())
        with pytest.raises(SchedulerAlreadyRunningError):
            cron.start()

    async def handle_later(document):
        handle(document)

    cron = DocumentScheduler(store, handle_later if is_coroutine else handle, clock=clock)
    cron.start()
    assert cron.wait(PATIENCE)
    assert answers == [False]
    assert sleep_untils(store) == [None, NOW]


def test_on_idle_is_called_once_for_each_idle_period(clock, monkeypatch):
    monkeypatch.setattr(_worker, "SHORTEST_IDLE", 0.001)
    store = CountingStore()
    idle = Seen()
    with running(store, lambda document: None, on_idle=idle, clock=clock):
        idle.wait()
        store.looked_for_at_least(20)
        assert len(idle.things) == 1
        store.add({"sleepUntil": NOW})
        idle.wait(2)
        store.looked_for_at_least(20)
    assert len(idle.things) == 2


class CountingStore(MemoryDocumentStore):
    """Counts how often it is looked into."""

    def __init__(self, documents=()):
        self.looks = 0
        self._looked = threading.Condition()
        super().__init__(documents)

    def lock_next(self, now, until):
        with self._looked:
            self.looks += 1
            self._looked.notify_all()
        return super().lock_next(now, until)

    def looked_for_at_least(self, count):
        with self._looked:
            goal = self.looks + count
            assert self._looked.wait_for(lambda: self.looks >= goal, PATIENCE)


def test_the_delays_are_kept(clock, monkeypatch):
    waits = []

    class Recorded(threading.Event):
        def wait(self, timeout=None):
            waits.append(timeout)
            return super().wait(0.001 if timeout in (1, 3) else timeout)

    store, idle = CountingStore([{"sleepUntil": NOW, "interval": "* * * * *"}]), Seen()
    monkeypatch.setattr(_worker.threading, "Event", Recorded)
    options = {"next_delay": 1, "idle_delay": "3s", "reprocess_delay": timedelta(seconds=60)}
    with running(store, lambda document: None, on_idle=idle, clock=clock, **options):
        idle.wait()
        store.looked_for_at_least(2)
    assert sleep_untils(store) == [NOW + 2 * MINUTE]
    assert {1, 3} <= set(waits)


def test_the_store_is_not_asked_without_a_pause_when_there_is_nothing_to_do(clock, monkeypatch):
    waits = Seen()

    class Recorded(threading.Event):
        def wait(self, timeout=None):
            waits(timeout)
            return super().wait(timeout)

    monkeypatch.setattr(_worker.threading, "Event", Recorded)
    idle = Seen()
    with running(CountingStore(), print, on_idle=idle, clock=clock):
        idle.wait()
        waits.wait(4)
    assert _worker.SHORTEST_IDLE in waits.things


# Errors


def test_a_handler_that_raises_is_told_of_and_its_document_comes_again_when_the_lock_has_run_out(clock):
    store = MemoryDocumentStore([{"n": 1, "sleepUntil": NOW - SECOND}, {"n": 2, "sleepUntil": NOW}])
    errors, seen, idle = Seen(), Seen(), Seen()

    def handle(document):
        seen(document["n"])
        if seen.things == [1]:
            raise ZeroDivisionError("first time")

    with running(store, handle, on_error=errors, on_idle=idle, clock=clock):
        idle.wait()
        assert [type(error) for error in errors.things] == [ZeroDivisionError]
        assert sleep_untils(store) == [NOW + LOCK, None]
        clock.advance(LOCK)
        idle.wait(2)
    assert seen.things == [1, 2, 1]
    assert sleep_untils(store) == [None, None]


@pytest.mark.parametrize("is_coroutine", [False, True])
@pytest.mark.parametrize(
    "error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration, RecursionError]
)
def test_nothing_that_a_handler_raises_ends_the_scheduler(clock, error, is_coroutine):
    store = MemoryDocumentStore([{"sleepUntil": NOW - SECOND}, {"sleepUntil": NOW}])
    errors, idle = Seen(), Seen()
    first = [error()]

    def handle(document):
        if first:
            raise first.pop()

    async def handle_later(document):
        handle(document)

    with running(store, handle_later if is_coroutine else handle, on_error=errors, on_idle=idle, clock=clock):
        idle.wait()
    (told,) = errors.things
    assert type(told).__name__ in (error.__name__, "RuntimeError"), "a coroutine cannot raise StopIteration"
    assert sleep_untils(store) == [NOW + LOCK, None]


def test_on_error_gets_the_document_too_if_it_needs_two_arguments(clock):
    store = MemoryDocumentStore([{"n": 1, "sleepUntil": NOW}])
    told, idle = Seen(), Seen()

    def on_error(error, document):
        told((type(error), document["n"]))

    def handle(document):
        raise LookupError

    with running(store, handle, on_error=on_error, on_idle=idle, clock=clock):
        idle.wait()
    assert told.things == [(LookupError, 1)]


def test_an_error_that_nobody_listens_to_is_logged(clock, caplog):
    store, idle = MemoryDocumentStore([{"sleepUntil": NOW}]), Seen()

    def handle(document):
        raise LookupError("nobody home")

    with caplog.at_level(logging.ERROR, "goscheduler.documents"), running(store, handle, on_idle=idle, clock=clock):
        idle.wait()
    assert "LookupError: nobody home" in caplog.text


def test_hooks_that_raise_are_told_of_and_on_error_itself_is_only_logged(clock, caplog):
    errors = []

    def broken():
        raise ValueError("hook")

    def on_error(error):
        errors.append(error)
        raise RuntimeError("worse")

    store = MemoryDocumentStore()
    with (
        caplog.at_level(logging.ERROR, "goscheduler.documents"),
        running(store, print, on_idle=broken, on_stop=broken, on_error=on_error, clock=clock) as cron,
    ):
        while not cron.is_idle():
            assert cron.is_running()
    assert [str(error) for error in errors] == ["hook", "hook"]
    assert caplog.text.count("on_error raised RuntimeError: worse") == 2


def test_an_on_start_that_raises_keeps_it_from_starting(clock):
    stopped = Seen()

    def on_start():
        raise PermissionError("not today")

    cron = DocumentScheduler(MemoryDocumentStore(), print, on_start=on_start, on_stop=stopped, clock=clock)
    before = threading.active_count()
    with pytest.raises(PermissionError, match="not today"):
        cron.start()
    assert not cron.is_running()
    assert (threading.active_count(), stopped.things) == (before, [])


@pytest.mark.parametrize("interval", ["every day", "0 0 31 2 *", 7, "99 * * * *"])
def test_a_bad_expression_parks_its_document_tells_of_it_once_and_the_others_go_on(clock, interval):
    store = MemoryDocumentStore([
        {"n": "bad", "sleepUntil": NOW - SECOND, "interval": interval, "autoRemove": True},
        {"n": "good", "sleepUntil": NOW, "interval": "* * * * *"},
    ])  # fmt: skip
    errors, seen, idle = Seen(), Seen(), Seen()
    with running(store, seen, on_error=errors, on_idle=idle, clock=clock):
        idle.wait()
        clock.advance("1h")
        idle.wait(2)
    (error,) = errors.things
    assert isinstance(error, ValueError)
    assert store.documents[0]["sleepUntil"] is None
    assert store.documents[0]["interval"] == interval
    assert Counter(document["n"] for document in seen.things)["bad"] == 1
    assert Counter(document["n"] for document in seen.things)["good"] >= 2


def test_a_time_that_is_no_date_is_told_of_once_and_stays_as_it_is(clock, monkeypatch):
    monkeypatch.setattr(_worker, "SHORTEST_IDLE", 0.001)
    monkeypatch.setattr(_worker, "LOOK_FOR_MALFORMED", 0.0)
    store = CountingStore([{"_id": "x", "sleepUntil": "tomorrow"}, {"_id": "y", "sleepUntil": NOW}])
    errors, seen, idle = Seen(), Seen(), Seen()
    with running(store, seen, on_error=errors, on_idle=idle, clock=clock):
        idle.wait()
        store.looked_for_at_least(10)
    (error,) = errors.things
    assert isinstance(error, InvalidArgument)
    assert "'x'" in str(error)
    assert "'tomorrow'" in str(error)
    assert [document["_id"] for document in seen.things] == ["y"]
    assert store.documents[0]["sleepUntil"] == "tomorrow"


class ShakyStore(MemoryDocumentStore):
    """Fails as often as it is told to, before or after it has done what it was asked."""

    def __init__(self, documents, **failures):
        super().__init__(documents)
        self.failures = failures
        self.failed = Seen()

    def _step(self, name, *arguments):
        when = (self.failures.get(name) or [None]).pop(0)
        if when == "before":
            self.failed(name)
            raise ConnectionError("lost before")
        result = getattr(MemoryDocumentStore, name)(self, *arguments)
        if when == "after":
            self.failed(name)
            raise ConnectionError("lost after")
        return result

    def open(self):
        self._step("open")

    def lock_next(self, now, until):
        return self._step("lock_next", now, until)

    def update(self, document, sleep_until):
        return self._step("update", document, sleep_until)


@pytest.mark.parametrize("step", ["open", "lock_next", "update"])
def test_a_store_that_fails_is_told_of_and_work_goes_on_when_it_is_back(clock, monkeypatch, step):
    monkeypatch.setattr(_worker, "FIRST_PAUSE", 0.001)
    store = ShakyStore([{"sleepUntil": NOW}], **{step: ["before"] * 3})
    errors, seen, idle = Seen(), Seen(), Seen()
    with running(store, seen, on_error=errors, on_idle=idle, clock=clock):
        idle.wait()
    assert {type(error) for error in errors.things} == {ConnectionError}
    assert len(errors.things) == (1 if step == "update" else 3)
    assert len(seen.things) == 1, "writing the end is tried again, not the work"
    assert sleep_untils(store) == [None]


def test_an_end_whose_answer_was_lost_is_not_written_twice(clock, monkeypatch):
    monkeypatch.setattr(_worker, "FIRST_PAUSE", 0.001)
    store = ShakyStore([{"sleepUntil": NOW, "interval": "* * * * *"}], update=["after"])
    seen, idle = Seen(), Seen()
    with running(store, seen, on_error=Seen(), on_idle=idle, clock=clock):
        idle.wait()
    assert sleep_untils(store) == [NOW + MINUTE]
    assert len(seen.things) == 1


def test_a_store_that_does_not_take_the_end_keeps_a_stop_waiting_for_a_while_only(clock, monkeypatch):
    monkeypatch.setattr(_worker, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(_worker, "LAST_WRITES", 0.0)
    store = ShakyStore([{"sleepUntil": NOW}], update=["before"] * 10_000)
    with running(store, lambda document: None, on_error=Seen(), clock=clock):
        store.failed.wait()
    assert sleep_untils(store) == [NOW + LOCK], "it is processed again after the lock"


def test_a_store_that_can_never_work_is_refused_at_the_start(clock):
    class Unusable(MemoryDocumentStore):
        def open(self):
            raise InvalidArgument("there is no such column", field="sleep_until")

    cron = DocumentScheduler(Unusable(), print, clock=clock)
    with pytest.raises(InvalidArgument, match="no such column"):
        cron.start()
    assert not cron.is_running()


# Locks


def test_the_lock_is_renewed_while_a_handler_runs_so_a_long_one_is_processed_once(clock):
    renewed, seen, looks = Seen(), Seen(), Seen()
    lock = timedelta(seconds=0.3)

    class Watched(MemoryDocumentStore):
        def lock_next(self, now, until):
            found = super().lock_next(now, until)
            looks()
            return found

        def update(self, document, sleep_until):
            done = super().update(document, sleep_until)
            renewed(sleep_until)
            return done

    def handle(document):
        seen()
        for renewals in range(1, 5):  # longer than a lock lasts
            clock.advance(lock / 3)
            renewed.wait(renewals)
            looks.wait(len(looks.things) + 2)

    store = Watched([{"sleepUntil": NOW}])
    options = {"lock_duration": lock, "clock": clock}
    with running(store, handle, concurrency=2, **options), running(store, handle, concurrency=2, **options):
        renewed.wait(5)
    assert seen.things == ["called"]
    assert sleep_untils(store) == [None]


@pytest.fixture
def holds(clock):
    def make(store):
        errors = SimpleQueue()
        return DocumentLocks(store, clock, LOCK, lambda error, document: errors.put(error)), errors

    return make


def test_a_lock_is_renewed_after_a_third_of_its_time(clock, holds):
    store = MemoryDocumentStore([{"sleepUntil": NOW}])
    books, errors = holds(store)
    books.take()
    assert books.renew_due() == LOCK.total_seconds() / 3
    assert sleep_untils(store) == [NOW + LOCK]
    clock.advance(LOCK / 3)
    assert books.renew_due() == LOCK.total_seconds() / 3
    assert sleep_untils(store) == [NOW + LOCK / 3 + LOCK]
    assert errors.empty()


def test_a_lock_that_somebody_else_has_changed_is_renewed_no_more(clock, holds):
    store = MemoryDocumentStore([{"sleepUntil": NOW}])
    books, errors = holds(store)
    hold = books.take()
    store.documents[0]["sleepUntil"] = None
    clock.advance(LOCK / 3)
    assert books.renew_due() is None
    assert not books.settle(hold, PARKED)
    assert sleep_untils(store) == [None]
    assert errors.empty()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_renewal_whose_answer_was_lost_costs_neither_the_lock_nor_the_end(clock, holds, when):
    store = ShakyStore([{"sleepUntil": NOW}], update=[when])
    books, errors = holds(store)
    hold = books.take()
    clock.advance(LOCK / 3)
    assert books.renew_due() == LOCK.total_seconds() / 12, "it is tried again soon"
    assert isinstance(errors.get(timeout=PATIENCE), ConnectionError)
    clock.advance(LOCK / 12)
    books.renew_due()
    assert sleep_untils(store) == [clock.now() + LOCK]
    assert books.settle(hold, PARKED)
    assert sleep_untils(store) == [None]


def test_an_on_error_that_takes_long_does_not_keep_other_locks_from_being_renewed(clock):
    store = ShakyStore([{"n": n, "sleepUntil": NOW} for n in range(3)], update=["before", "before"])
    begun, go_on = threading.Event(), threading.Event()

    def slow(error, document):
        begun.set()
        assert go_on.wait(PATIENCE)

    books = DocumentLocks(store, clock, LOCK, slow)
    for _ in range(3):
        books.take()
    clock.advance(LOCK / 3)
    books.renew_due()
    assert begun.wait(PATIENCE)
    assert sorted(sleep_untils(store)) == [NOW + LOCK, NOW + LOCK, clock.now() + LOCK]
    go_on.set()


def test_a_document_that_was_put_down_is_not_renewed(clock, holds):
    store = MemoryDocumentStore([{"sleepUntil": NOW}])
    books, _ = holds(store)
    books.drop(books.take())
    clock.advance(LOCK / 2)
    assert books.renew_due() is None
    assert sleep_untils(store) == [NOW + LOCK]


class LateStore(CountingStore):
    """Does at once what it is asked for; until the look ``on_time``, the answer takes as long as a test says."""

    def __init__(self, clock, lock_next=None, update=None, on_time=2):
        super().__init__([{"sleepUntil": NOW}])
        self.clock = clock
        self.lateness = {"lock_next": lock_next, "update": update}
        self.on_time = on_time

    def lock_next(self, now, until):
        document = super().lock_next(now, until)
        self._pass_time("lock_next")
        return document

    def update(self, document, sleep_until):
        updated = super().update(document, sleep_until)
        self._pass_time("update")
        return updated

    def _pass_time(self, name):
        late = self.lateness[name]
        if late is not None and self.looks < self.on_time:
            self.clock.advance(late)

    def taken_by_another_process(self):
        """Lock the document as another process does when our lock has run out, and let that time pass."""
        assert MemoryDocumentStore.lock_next(self, NOW + LOCK, NOW + 2 * LOCK) is not None
        self.clock.advance(LOCK)


@pytest.mark.parametrize("late", [LOCK / 2, LOCK, 3 * LOCK])
def test_a_lock_whose_answer_came_late_is_renewed_before_the_document_is_processed(clock, late):
    store, locks, idle = LateStore(clock, lock_next=late), Seen(), Seen()
    with running(store, lambda document: locks(sleep_untils(store)), on_idle=idle, clock=clock):
        idle.wait()
    assert locks.things == [[NOW + late + LOCK]]
    assert sleep_untils(store) == [None]


def test_a_lock_whose_answer_came_in_time_is_not_renewed_first(clock):
    store, locks, idle = LateStore(clock, lock_next=LOCK / 4), Seen(), Seen()
    with running(store, lambda document: locks(sleep_untils(store)), on_idle=idle, clock=clock):
        idle.wait()
    assert locks.things == [[NOW + LOCK]]


def test_a_document_that_another_process_took_before_the_answer_came_is_not_processed(clock, caplog):
    class Overtaken(LateStore):
        def lock_next(self, now, until):
            document = super().lock_next(now, until)
            if self.looks == 1:
                self.taken_by_another_process()
            return document

    store, seen, idle = Overtaken(clock), Seen(), Seen()
    with running(store, seen, on_idle=idle, clock=clock):
        idle.wait()
    assert seen.things == []
    assert sleep_untils(store) == [NOW + 2 * LOCK]
    assert "the next poll finds the document again" in caplog.text


def test_a_document_that_another_process_took_while_this_one_stood_still_is_not_processed(clock, monkeypatch):
    store, seen, idle = LateStore(clock), Seen(), Seen()

    class Stopped(ThreadPoolExecutor):
        def submit(self, function, *arguments):
            def thawed():
                store.taken_by_another_process()
                function(*arguments)

            return super().submit(thawed)

    monkeypatch.setattr(_worker, "ThreadPoolExecutor", Stopped)
    with running(store, seen, on_idle=idle, clock=clock):
        idle.wait()
    assert seen.things == []
    assert sleep_untils(store) == [NOW + 2 * LOCK]


def test_a_document_waits_until_the_store_answers_within_its_lock(clock):
    store, looks, idle = LateStore(clock, lock_next=LOCK, update=LOCK, on_time=3), Seen(), Seen()
    with running(store, lambda document: looks(store.looks), on_idle=idle, clock=clock):
        idle.wait()
    assert looks.things == [3]
    assert sleep_untils(store) == [None]


def test_a_document_whose_late_lock_cannot_be_renewed_is_left_to_the_next_look(clock):
    class Unreachable(LateStore):
        def update(self, document, sleep_until):
            if self.looks < self.on_time:
                raise ConnectionError("gone")
            return super().update(document, sleep_until)

    store, looks, errors, idle = Unreachable(clock, lock_next=LOCK), Seen(), Seen(), Seen()
    with running(store, lambda document: looks(store.looks), on_error=errors, on_idle=idle, clock=clock):
        idle.wait()
    assert looks.things == [2]
    assert {type(error) for error in errors.things} == {ConnectionError}
    assert sleep_untils(store) == [None]


def test_a_lock_is_renewed_a_third_of_its_time_after_it_was_asked_for(clock, holds):
    store = LateStore(clock, lock_next=LOCK / 6, update=LOCK / 4)
    books, _ = holds(store)
    books.take()
    assert books.renew_due() == pytest.approx(LOCK.total_seconds() / 6)
    clock.advance(LOCK / 6)
    assert books.renew_due() == pytest.approx(LOCK.total_seconds() / 12)
    assert sleep_untils(store) == [NOW + LOCK / 3 + LOCK]


def test_a_lock_that_was_lost_before_the_document_is_processed_is_not_trusted_for_the_rest_of_its_time(clock, holds):
    store = MemoryDocumentStore([{"sleepUntil": NOW}])
    books, _ = holds(store)
    hold = books.take()
    assert books.ensure(hold)
    store.documents[0]["sleepUntil"] = None
    clock.advance(LOCK / 3)
    books.renew_due()
    assert not books.ensure(hold)
    assert sleep_untils(store) == [None]


# What it is given


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"next_delay": -1}, InvalidArgument, "next_delay"),
        ({"idle_delay": "soon"}, InvalidArgument, "idle_delay"),
        ({"reprocess_delay": None}, TypeError, "reprocess_delay"),
        ({"lock_duration": 0}, InvalidArgument, "lock_duration"),
        ({"lock_duration": float("nan")}, InvalidArgument, "lock_duration"),
        ({"lock_duration": "400d"}, InvalidArgument, "lock_duration"),
        ({"concurrency": 0}, InvalidArgument, "concurrency"),
        ({"concurrency": True}, TypeError, "concurrency"),
        ({"concurrency": 2.5}, TypeError, "concurrency"),
        ({"timezone": "Mars/Olympus"}, InvalidArgument, "timezone"),
        ({"on_error": "print"}, TypeError, "on_error"),
        ({"on_document": None}, TypeError, "on_document"),
        ({"store": {}}, TypeError, "store"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(options, error, words):
    arguments = {"store": MemoryDocumentStore(), "on_document": print, **options}
    with pytest.raises(error, match=words):
        DocumentScheduler(**arguments)


def test_a_document_in_memory_must_be_a_dict():
    with pytest.raises(TypeError, match="must be a dict"):
        MemoryDocumentStore(["not a document"])


def test_a_condition_leaves_other_documents_alone(clock):
    store = MemoryDocumentStore(
        [{"who": {"tenant": name}, "sleepUntil": NOW} for name in "ab"], condition={"who.tenant": "a"}
    )
    idle = Seen()
    with running(store, lambda document: None, on_idle=idle, clock=clock):
        idle.wait()
    assert sleep_untils(store) == [None, NOW]


@pytest.mark.serial
def test_a_program_that_forgets_to_stop_it_ends_all_the_same_after_what_is_in_hand():
    program = """
import threading
from datetime import datetime, timezone
from goscheduler.documents import DocumentScheduler
from goscheduler.documents.memory import MemoryDocumentStore

begun = threading.Event()

def handle(document):
    begun.set()
    threading.Event().wait(0.3)
    print("done", flush=True)

now = datetime.now(timezone.utc)
store = MemoryDocumentStore([{"sleepUntil": now}, {"sleepUntil": now}])
cron = DocumentScheduler(store, handle)
cron.start()
begun.wait()
"""
    done = warm.run("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_dates_without_a_zone_are_utc(clock):
    store = MemoryDocumentStore([{"sleepUntil": datetime(2026, 5, 4, 12)}, {"sleepUntil": datetime(2026, 5, 4, 12, 1)}])
    idle = Seen()
    with running(store, lambda document: None, on_idle=idle, clock=clock):
        idle.wait()
    assert sleep_untils(store) == [None, datetime(2026, 5, 4, 12, 1)]
