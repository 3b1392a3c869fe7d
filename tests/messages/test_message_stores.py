"""Messages in real stores, shared by processes."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import warm
from message_doubles import Recorder

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import SchedulerNotRunningError
from goscheduler.messages import Message, MessageFilter, MessageNotFound, MessageScheduler, MessageState, Recurrence
from goscheduler.transports.channel import ChannelTransport

FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
PATIENCE = 60
HERE = Path(__file__).parent
NODE = HERE / "message_node.py"


def in_an_hour():
    return SYSTEM_CLOCK.now() + timedelta(hours=1)


@contextmanager
def front_on(url, transport=None, **options):
    """Give a front that is stopped in the end; what has a transport delivers."""
    front = MessageScheduler(store=url, transport=transport, **options)
    try:
        if transport is not None:
            front.start()
        yield front
    finally:
        front.stop()


def test_messages_are_delivered_as_they_were_scheduled(store_url):
    channel = ChannelTransport()
    with front_on(store_url, channel) as front:
        ids = front.schedule_many(
            Message(f"event-{number % 3}", bytes([number]), {"näme": f"wërt {number}"}) for number in range(50)
        )
        ids.append(front.schedule(Message("single", bytes([50]), {"näme": "wërt 50"})))
        got = [channel.get(PATIENCE) for _ in ids]
        assert channel.get(timeout=0.05) is None, "each of them once"
    assert {message.id for message in got} == set(ids)
    for message in got:
        number = message.payload[0]
        assert message.id == ids[number]
        assert message.metadata == {"näme": f"wërt {number}"}
        assert (message.attempt, message.occurrence) == (1, 1)


def test_messages_that_wait_survive_the_process_and_are_found_listed_postponed_and_cancelled(store_url):
    with front_on(store_url) as front:
        due = in_an_hour()
        mid, other = front.schedule_many([Message("a", {"x": 1}, {"k": "v"}, due), Message("b", scheduled_at=due)])
    with front_on(store_url) as front:
        message = front.get(mid)
        assert (message.state, message.scheduled_at, message.attempts) == (MessageState.PENDING, due, 0)
        assert (message.payload, message.metadata) == (b'{"x":1}', {"k": "v"})
        assert [found.id for found in front.list(MessageFilter(event_name="b"))] == [other]
        assert front.health().pending == 2
        assert front.postpone(mid, to=due + timedelta(days=1)).scheduled_at == due + timedelta(days=1)
        assert [found.id for found in front.list()] == [other, mid]
        assert front.cancel(other)
        with pytest.raises(MessageNotFound):
            front.get(other)
        front.postpone(mid, to=SYSTEM_CLOCK.now())
    channel = ChannelTransport()
    with front_on(store_url, channel):
        assert channel.get(PATIENCE).id == mid


def test_a_failed_message_is_retried_dies_and_is_redriven(store_url):
    transport = Recorder(*[OSError("no")] * 3)
    dead = threading.Event()
    with front_on(store_url, transport, max_retries=2, backoff=0.01) as front:
        front.scheduler.add_listener(lambda event: dead.set(), 1 << 20)
        mid = front.schedule(Message("order", b"x"))
        assert dead.wait(PATIENCE)
        assert [message.attempt for message in transport.tried] == [1, 2, 3]
        assert [(letter.id, letter.attempts) for letter in front.dead_letters("order")] == [(mid, 3)]
        delivered = threading.Event()
        front.scheduler.add_listener(lambda event: delivered.set(), 1 << 12)
        assert front.redrive(mid) == 1
        assert delivered.wait(PATIENCE)
        assert [message.attempt for message in transport.published] == [4]


def test_a_recurring_message_comes_again(store_url):
    channel = ChannelTransport()
    with front_on(store_url, channel) as front:
        mid = front.schedule(Message("tick", recurrence=Recurrence(interval=0.05, max_occurrences=3, catch_up=True)))
        got = [channel.get(PATIENCE) for _ in range(3)]
        assert [message.occurrence for message in got] == [1, 2, 3]
        assert {message.id for message in got} == {mid}
        assert channel.get(timeout=0.1) is None


@contextmanager
def node(url, gate=False, **options):
    command = [NODE, url, json.dumps(options), *(["--gate"] if gate else [])]
    process = warm.start(*command, stdin=warm.PIPE, stdout=warm.PIPE, text=True, cwd=HERE)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def told(process, line):
    process.stdin.write(line)
    process.stdin.flush()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "redis", "mongodb"] if FULL else ["postgresql", "redis"])
def test_a_message_that_another_process_has_and_has_not_published_is_cancelled(kind, url_of):
    store_url = url_of(kind)
    with front_on(store_url) as front, node(store_url, gate=True, workers=1) as process:
        first, *others = front.schedule_many(Message("order") for _ in range(5))
        begun = process.stdout.readline().split()[1]
        waiting = [mid for mid in (first, *others) if mid != begun]
        assert {front.get(mid).state for mid in waiting} <= {MessageState.DELIVERING, MessageState.PENDING}
        assert front.cancel(waiting[0], timeout=PATIENCE) is True
        assert front.cancel(begun, timeout=0.1) is False, "it is being published, and nobody can tell what comes of it"
        told(process, "go\n")
        process.stdin.close()
        published = [line.split()[1] for line in process.stdout if line.startswith("published")]
        assert waiting[0] not in published
        assert begun in published
        with pytest.raises(MessageNotFound):
            front.cancel(waiting[0])


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_while_messages_are_delivered_cancel_tells_the_truth(kind, url_of):
    """Every message is cancelled while it is being delivered: it was published if and only if that came too late."""
    published = set()
    transport = ChannelTransport()
    transport.subscribe(lambda message: published.add(message.id))
    draw = random.Random(1)
    answers, found_too_late = {}, set()
    with front_on(None if kind == "memory" else url_of(kind), transport, batch_size=20) as front:
        ids = front.schedule_many(
            Message("order", scheduled_at=SYSTEM_CLOCK.now() + timedelta(milliseconds=draw.uniform(0, 500)))
            for _ in range(200)
        )

        def cancel(mid):
            try:
                answers[mid] = front.cancel(mid)
                if answers[mid]:
                    assert mid not in published
            except MessageNotFound:
                found_too_late.add(mid)
                assert mid in published

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(cancel, ids))
    assert {mid for mid, cancelled in answers.items() if cancelled} == set(ids) - published
    assert found_too_late | {mid for mid, cancelled in answers.items() if not cancelled} == published


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_message_is_part_of_the_transaction_of_a_connection(kind, url_of):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = url_of(kind)
    channel = ChannelTransport()
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with front_on(url, channel, max_poll_interval=0.1) as front:
        with engine.begin() as connection:
            kept = front.add(Message("kept"), connection=connection)
            after = front.schedule_after(0, "after", connection=connection)
        with engine.connect() as connection:
            front.schedule(Message("lost"), connection=connection)
            connection.rollback()
        assert {channel.get(PATIENCE).id for _ in range(2)} == {kept, after}
        assert channel.get(timeout=0.2) is None
    engine.dispose()


def test_the_intervals_of_polling_are_passed_to_the_store(url_of):
    with front_on(url_of("sqlite"), min_poll_interval=0.01, max_poll_interval=5.0, poll_interval=7) as front:
        poll = front._shelf.store._poll
        assert (poll._shortest, poll._longest, front.scheduler.poll_interval) == (0.01, 5.0, 7)


def test_a_front_can_be_stopped_and_started_again(url_of):
    url, transport = url_of("sqlite"), Recorder()
    channel = ChannelTransport()
    front = MessageScheduler(store=url, transport=channel)
    for _ in range(2):
        front.start()
        front.start()
        mid = front.schedule(Message("order"))
        assert channel.get(PATIENCE).id == mid
        assert front.running
        front.stop()
        front.stop()
        assert not front.running
    assert transport.published == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("goscheduler-messages")]


def test_what_was_scheduled_before_the_start_is_in_the_store_at_once(url_of):
    url = url_of("sqlite")
    with front_on(url) as producer:
        mid = producer.schedule(Message("order"))
        with front_on(url) as other:
            assert other.get(mid).state is MessageState.PENDING
        assert not producer.running


def test_a_transport_may_stop_the_front_that_called_it(url_of):
    done = threading.Event()

    def publish(event_name, message):
        front.stop()
        done.set()

    front = MessageScheduler(store=url_of("sqlite"), transport=publish)
    front.schedule(Message("last"))
    front.start()
    assert done.wait(PATIENCE)
    assert front.scheduler.engine.stopped.wait(PATIENCE)
    with front_on(str(front._shelf.store._database.engine.url)) as other:
        assert other.list() == []


def test_what_is_published_to_may_schedule_also_while_the_front_is_stopped(url_of):
    begun, errors = threading.Event(), []

    def publish(event_name, message):
        front.schedule(Message("next", scheduled_at=in_an_hour()))
        begun.set()
        while front.scheduler.running:
            threading.Event().wait(0.01)
        try:
            front.schedule(Message("too late", scheduled_at=in_an_hour()))
        except SchedulerNotRunningError as error:
            errors.append(error)

    url = url_of("sqlite")
    with front_on(url, publish) as front:
        front.schedule(Message("first"))
        assert begun.wait(PATIENCE)
    assert len(errors) == 1
    with front_on(url) as other:
        assert [message.event_name for message in other.list()] == ["next"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_schedules_and_delivers_by_itself(url_of):
    url, (reading, writing) = url_of("sqlite"), os.pipe()
    transport = ChannelTransport()
    transport.subscribe(lambda message: os.write(writing, b"delivered"))
    front = MessageScheduler(store=url, transport=transport)
    front.schedule(Message("later", scheduled_at=in_an_hour()))
    front.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of later versions: a fork beside threads
        pid = os.fork()
    if pid == 0:
        front.schedule(Message("now"))
        assert not front.running
        front.start()
        threading.Event().wait(PATIENCE)
        os._exit(1)
    try:
        front.stop()  # so that it is the child that delivers
        assert os.read(reading, 9) == b"delivered"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)
