"""A queue of the user's own for messages that could not be delivered."""

from __future__ import annotations

import threading

import pytest
from message_doubles import Manual, Recorder

from goscheduler.messages import DeadLetterQueue, DeadLetterStore, Message, MessageRejected, MessageScheduler
from goscheduler.messages.dead import DeadLetterForwarder

PATIENCE = 60


class Queue:
    """Takes messages, or raises the next of its errors."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.taken = []
        self.changed = threading.Condition()

    def put(self, message, error, attempts):
        with self.changed:
            self.changed.notify_all()
            if self.errors:
                raise self.errors.pop(0)
            self.taken.append((message.id, message.payload, error, attempts))

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, PATIENCE)


def test_a_dead_message_goes_to_the_queue_and_from_the_store():
    queue = Queue()
    assert isinstance(queue, DeadLetterQueue)
    front = MessageScheduler(transport=Recorder(OSError("no"), OSError("no")), max_retries=1, backoff=0.01,
                             dead_letters=queue)  # fmt: skip
    with front:
        mid = front.schedule(Message("order", b"x"))
        queue.wait_for(1)
    assert queue.taken == [(mid, b"x", "OSError: no", 2)]
    assert front._undertaker._thread is None


def test_a_queue_that_fails_loses_nothing():
    with Manual(MessageRejected("no"), MessageRejected("no")) as manual:
        ids = {manual.front.schedule(Message("order")) for _ in range(2)}
        manual.scheduler.run_due()
        queue = Queue(OSError("the disk is full"))
        undertaker = DeadLetterForwarder(manual.scheduler, manual.front._shelf, queue)
        assert undertaker.hand_over() == 1
        assert {dead.id for dead in manual.front.dead_letters()} == ids - {queue.taken[0][0]}
        assert undertaker.hand_over() == 1
        assert {taken[0] for taken in queue.taken} == ids
        assert undertaker.hand_over() == 0


def test_what_died_before_the_start_is_handed_over_at_the_start():
    with Manual(MessageRejected("no")) as manual:
        mid = manual.front.schedule(Message("order"))
        manual.scheduler.run_due()
        queue = Queue()
        undertaker = DeadLetterForwarder(manual.scheduler, manual.front._shelf, queue)
        undertaker.start()
        queue.wait_for(1)
        undertaker.stop(PATIENCE)
        assert [taken[0] for taken in queue.taken] == [mid]
        assert manual.front.dead_letters() == []


def test_a_message_that_another_process_has_handed_over_is_not_counted():
    class Quicker(Queue):
        def put(self, message, error, attempts):
            super().put(message, error, attempts)
            manual.front.discard(message.id)

    with Manual(MessageRejected("no")) as manual:
        manual.front.schedule(Message("order"))
        manual.scheduler.run_due()
        assert DeadLetterForwarder(manual.scheduler, manual.front._shelf, Quicker()).hand_over() == 0


def test_a_store_that_does_not_answer_does_not_end_the_thread(monkeypatch):
    with Manual() as manual:
        answered = threading.Event()
        calls = []

        def hand_over(undertaker):
            calls.append(1)
            if len(calls) == 1:
                raise OSError("the store is out")
            answered.set()

        monkeypatch.setattr(DeadLetterForwarder, "hand_over", hand_over)
        undertaker = DeadLetterForwarder(manual.scheduler, manual.front._shelf, Queue())
        undertaker.start()
        while not answered.wait(0.01):
            undertaker._hear(None)
        undertaker.stop(PATIENCE)


class Store:
    """Takes the parts of dead messages."""

    def __init__(self):
        self.taken = []

    def store(self, event_name, original_id, payload, metadata, error, retry_count, source):
        self.taken.append((event_name, original_id, payload, metadata, error, retry_count, source))


def test_a_queue_may_want_the_parts_of_a_message_and_the_exception():
    assert isinstance(Store(), DeadLetterStore)
    with Manual(OSError("no"), OSError(), max_retries=1, backoff=0, name="outbox") as manual:
        mid = manual.front.schedule(Message("order", b"x", {"a": "b"}))
        manual.scheduler.run_due()
        store = Store()
        assert DeadLetterForwarder(manual.scheduler, manual.front._shelf, store).hand_over() == 1
    ((*parts, error, retries, source),) = store.taken
    assert parts == ["order", mid, b"x", {"a": "b"}]
    assert isinstance(error, Exception)
    assert (str(error), retries, source) == ("OSError", 1, "outbox")


def test_a_message_brings_its_exception_and_its_source_to_any_queue():
    with Manual(MessageRejected("too odd"), name="outbox") as manual:
        manual.front.schedule(Message("order"))
        manual.scheduler.run_due()
        (dead,) = manual.front.dead_letters()
    assert dead.source == "outbox"
    assert dead.exception.type_name == "goscheduler.errors.MessageRejected"
    assert dead.exception.message == "too odd"


def test_only_something_with_put_or_store_is_a_queue():
    with pytest.raises(TypeError, match=r"dead_letters must have put.* or store"):
        MessageScheduler(dead_letters=[])
