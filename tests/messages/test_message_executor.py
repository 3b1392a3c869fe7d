"""The executor of messages: batches, workers that hang, its end."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from message_doubles import Recorder

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import TransportUnavailable
from goscheduler.executors.context import attempt_key
from goscheduler.messages import Message, MessageScheduler
from goscheduler.messages._executor import DeliveryExecutor
from goscheduler.messages._settings import retry_of
from goscheduler.runs.model import OutcomeKind
from goscheduler.schedulers.base import STATE_RUNNING
from goscheduler.testing import ManualScheduler

PATIENCE = 60


class Host:
    """What an executor asks of its scheduler."""

    clock = SYSTEM_CLOCK

    def __init__(self):
        self.refused = set()
        self.reports = []
        self._changed = threading.Condition()

    def may_start(self, run):
        return run.id not in self.refused

    def report(self, run, outcome):
        with self._changed:
            self.reports.append((run.id, outcome))
            self._changed.notify_all()

    def wait_for(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.reports) >= count, PATIENCE)
        return dict(self.reports)

    def _create_lock(self):
        return threading.RLock()


class Gate:
    """A delivery that waits until it is let through."""

    def __init__(self):
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self.batches = []

    def __call__(self, runs):
        self.batches.append([run.id for run in runs])
        self.entered.release()
        assert self.open.wait(PATIENCE)
        return [None] * len(runs)


@pytest.fixture
def runs():
    """Return runs of messages as a store hands them out."""
    with ManualScheduler() as scheduler:
        front = MessageScheduler(scheduler=scheduler, transport=Recorder())
        jobs = [scheduler.get_job(mid) for mid in front.schedule_many(Message("event") for _ in range(20))]
        from goscheduler.runs.model import Run

        now = scheduler.clock.now()
        yield [Run(str(number), job, now, now, "owner", 1) for number, job in enumerate(jobs)]


@pytest.fixture
def started():
    """Return a function that makes an executor and starts it."""
    executors = []

    def start(deliver, workers=1, batch_size=5, together=True):
        executor = DeliveryExecutor(deliver, retry_of(5, 1, 0, 10), workers, batch_size, together)
        host = Host()
        executor.start(host, "messages")
        executors.append(executor)
        return executor, host

    yield start
    for executor in executors:
        executor.shutdown(wait=False)


def test_what_has_gathered_is_delivered_together(started, runs):
    gate = Gate()
    executor, host = started(gate)
    executor.submit(runs[0])
    assert gate.entered.acquire(timeout=PATIENCE)
    for run in runs[1:9]:
        executor.submit(run)
    assert executor.room() == 1
    gate.open.set()
    host.wait_for(9)
    assert [len(batch) for batch in gate.batches] == [1, 5, 3]
    assert executor.room() == 10


def test_where_nothing_can_be_delivered_together_each_worker_takes_one(started, runs):
    gate = Gate()
    executor, host = started(gate, workers=3, together=False)
    for run in runs[:5]:
        executor.submit(run)
    for _ in range(3):
        assert gate.entered.acquire(timeout=PATIENCE)
    assert sorted(gate.batches) == [["0"], ["1"], ["2"]]
    gate.open.set()
    assert all(outcome.kind is OutcomeKind.SUCCEEDED for outcome in host.wait_for(5).values())


def test_what_a_worker_takes_follows_how_quickly_it_is_published(started, runs):
    gate = Gate()
    executor, host = started(gate, workers=4, batch_size=10, together=False)
    executor._average = 0.001  # so far
    with executor._changed:
        for run in runs[:12]:
            executor._enqueue(run)
        assert (executor._coming, len(executor._threads)) == (2, 2)
        executor._average = 1.0  # and then it takes long
    for _ in range(4):
        assert gate.entered.acquire(timeout=PATIENCE), "the other workers are called too"
    gate.open.set()
    host.wait_for(12)
    assert max(map(len, gate.batches)) == 1
    assert executor._coming == 0


def test_each_of_a_batch_has_an_outcome_of_its_own(started, runs):
    answers = deque([[None, OSError("no"), None]])
    executor, host = started(lambda batch: answers.popleft(), workers=1)
    host.refused = {"1"}
    with executor._changed:  # so that they are taken together
        for run in runs[:4]:
            executor._enqueue(run)
    ends = host.wait_for(4)
    assert [ends[str(number)].kind.value for number in range(4)] == ["succeeded", "cancelled", "failed", "succeeded"]
    assert ends["1"].started_at is None


def test_a_delivery_that_breaks_fails_all_that_it_was_given(started, runs):
    def broken(batch):
        raise KeyboardInterrupt

    executor, host = started(broken)
    executor.submit(runs[0])
    executor.submit(runs[1])
    ends = host.wait_for(2)
    assert {type(outcome.error) for outcome in ends.values()} == {KeyboardInterrupt}
    assert executor.room() == 10


def test_a_worker_that_hangs_is_given_up_and_another_takes_its_place(started, runs):
    gate = Gate()
    executor, host = started(gate, workers=1)
    executor.submit(runs[0])
    assert gate.entered.acquire(timeout=PATIENCE)
    executor.submit(runs[1])
    assert executor.cancel(runs[0], "enough")
    assert not executor.cancel(runs[1], "enough")
    executor.give_up(runs[0])
    executor.give_up(runs[0])
    assert gate.entered.acquire(timeout=PATIENCE), "the second run is not held up"
    gate.open.set()
    host.wait_for(2)
    assert executor.room() == 10
    assert executor._batches == {}


def test_the_end_waits_for_what_is_published_and_gives_back_the_rest(started, runs):
    gate = Gate()
    executor, host = started(gate, workers=1, together=False)
    executor.submit(runs[0])
    assert gate.entered.acquire(timeout=PATIENCE)
    executor.submit(runs[1])
    ending = threading.Thread(target=executor.shutdown)
    ending.start()
    assert host.wait_for(1)["1"].kind is OutcomeKind.SNOOZED
    gate.open.set()
    ending.join(PATIENCE)
    assert host.wait_for(2)["0"].kind is OutcomeKind.SUCCEEDED
    executor.submit(runs[2])
    assert host.wait_for(3)["2"].kind is OutcomeKind.SNOOZED
    assert executor._threads == set()


def test_the_end_does_not_wait_longer_than_it_is_told(started, runs):
    gate = Gate()
    executor, _ = started(gate)
    executor.submit(runs[0])
    assert gate.entered.acquire(timeout=PATIENCE)
    executor.shutdown(wait=True, timeout=0.01)
    assert attempt_key(runs[0]) in executor._batches
    gate.open.set()


def test_a_system_without_threads_gets_its_runs_back(started, runs, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    executor, host = started(lambda batch: [None] * len(batch))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    executor.submit(runs[0])
    monkeypatch.undo()
    assert "can't start new thread" in host.wait_for(1)["0"].reason
    executor.submit(runs[1])
    assert host.wait_for(2)["1"].kind is OutcomeKind.SUCCEEDED


def test_an_error_that_is_raised_again_and_again_does_not_gather_frames():
    error = TransportUnavailable("down", retry_after=1)
    transport = Recorder(*[error] * 20)
    with ManualScheduler() as scheduler:
        front = MessageScheduler(scheduler=scheduler, transport=transport, workers=0, max_retries=0)
        front.start()
        front.schedule(Message("event"))
        scheduler.advance(30)
        assert scheduler.state == STATE_RUNNING
    assert len(transport.published) == 1
    assert error.__traceback__ is None


def test_a_transport_that_loses_count_fails_the_batch_and_nothing_else(started, runs):
    class Careless(Recorder):
        def publish_many(self, messages):
            return [None]

    front = MessageScheduler(transport=Careless())
    with pytest.raises(TypeError, match="got 3 messages and answered 1 times"):
        front._publish(runs[:3])
    assert list(front._publish(runs[:1])) == [None]
