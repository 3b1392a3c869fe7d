"""Thousands of messages through real brokers: each arrives, once if nothing happens, at least once if processes die.

A tenth of them is enough for every day; ``GOSCHEDULER_FULL=1`` sends all, and holds the channel to its speed.
"""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import threading
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import warm

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.messages import Message, MessageNotFound, MessageScheduler
from goscheduler.transports.channel import ChannelTransport

FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
MESSAGES = 10_000 if FULL else 400
KILLS = 5 if FULL else 1
#: A process that loses its lease has crashed, and a message is dead after a few crashes: no busy machine may do that.
LEASE = 4.0
PATIENCE = 100
#: Messages a second from due to delivered, on Redis, through the channel.
SPEED = 2000
HERE = Path(__file__).parent


class Broker:
    """A place in a broker: where messages are sent to, and what has arrived."""

    def __init__(self, space):
        self.url, self.name = space.url, space.name

    @property
    def transport(self):
        return {"type": self.url}

    def arrived(self):
        """Return the ids of the messages that have arrived, as often as they did."""
        raise NotImplementedError


class RabbitMQ(Broker):
    def arrived(self):
        import kombu

        ids = []
        with kombu.Connection(self.url) as connection, connection.channel() as channel:
            while (raw := channel.basic_get(self.name, no_ack=True)) is not None:
                ids.append(channel.message_to_python(raw).headers["scheduled_message_id"])
        return ids


class RedisStreams(Broker):
    def arrived(self):
        import redis

        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            return [fields["scheduled_message_id"] for _, fields in client.xrange(self.name)]


class Nats(Broker):
    @property
    def transport(self):
        # A window of nothing to speak of, so that duplicates are seen if there are any.
        return {
            "type": self.url, "stream": self.name, "create_stream": True, "subjects": [self.name],
            "duplicate_window": 0.1,
        }  # fmt: skip

    def arrived(self):
        return asyncio.run(self._read())

    async def _read(self):
        import nats

        connection = await nats.connect(self.url)
        try:
            stream = connection.jetstream()
            total = (await stream.stream_info(self.name)).state.messages
            subscription = await stream.pull_subscribe(self.name, durable="reader")
            ids = []
            while len(ids) < total:
                for message in await subscription.fetch(min(500, total - len(ids)), timeout=PATIENCE):
                    ids.append(message.headers["scheduled_message_id"])
                    await message.ack()
            return ids
        finally:
            await connection.close()


BROKERS = {"rabbitmq": RabbitMQ, "redis": RedisStreams, "nats": Nats}


@pytest.fixture(params=BROKERS)
def broker(request, shared_server, fresh):
    return BROKERS[request.param](fresh(shared_server(request.param)))


@pytest.fixture
def store(shared_server, fresh):
    """Return the URL of an empty store."""
    return fresh(shared_server("redis")).url


@pytest.fixture
def producer(store):
    """Return a front that only schedules."""
    front = MessageScheduler(store=store)
    yield front
    front.stop()


@contextmanager
def node(store, broker, **options):
    """Give a process that delivers, which is ready, and end it in an orderly way unless it was killed."""
    command = [HERE / "delivery_node.py", store, json.dumps(broker.transport), json.dumps(options)]
    process = warm.start(*command, stdin=warm.PIPE, stdout=warm.PIPE, bufsize=0, cwd=HERE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.stdin.close()
        process.stdout.read()
        assert process.wait(PATIENCE) in (0, -9)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def let_it_work(process):
    """Wait until a process is in the middle of its work; not for long, because the others may have left it none."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if selector.select(3):
            process.stdout.readline()


def wait_until_all_is_delivered(front):
    """Wait until nothing of any message is left in the store."""
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE
    store = front._shelf.store
    while store.get_next_run_time() is not None or store.live_runs() or store.pending_runs():
        assert SYSTEM_CLOCK.monotonic() < deadline, (
            f"{len(store.get_all_jobs())} messages wait, {len(store.live_runs())} are being delivered, "
            f"{len(store.pending_runs())} are to be tried again"
        )
        threading.Event().wait(0.05)
    assert front.dead_letters() == []


def test_every_message_arrives_although_the_process_that_delivers_is_killed_again_and_again(broker, store, producer):
    ids = producer.schedule_many(Message(broker.name, str(number)) for number in range(MESSAGES))
    for _ in range(KILLS):
        with node(store, broker, lease=LEASE) as process:
            let_it_work(process)
            process.kill()
    with node(store, broker, lease=LEASE):
        wait_until_all_is_delivered(producer)
    arrived = Counter(broker.arrived())
    assert arrived.keys() == set(ids)


def test_every_message_arrives_once_and_a_cancelled_one_never(broker, store, producer):
    begin = SYSTEM_CLOCK.now() + timedelta(seconds=0.5)
    ids = producer.schedule_many(
        Message(broker.name, scheduled_at=begin + timedelta(milliseconds=number * 2000 / MESSAGES))
        for number in range(MESSAGES)
    )
    later = producer.schedule(Message(broker.name, scheduled_at=begin + timedelta(hours=1)))
    cancelled = set()
    with MessageScheduler(store=store, transport=broker.transport):
        for mid in [*ids[:: MESSAGES // 50], later]:
            try:
                if producer.cancel(mid):
                    cancelled.add(mid)
            except MessageNotFound:
                continue  # delivered already
        wait_until_all_is_delivered(producer)
    assert later in cancelled
    assert Counter(broker.arrived()) == Counter(set(ids) - cancelled)


def test_messages_are_delivered_quickly(store):
    channel = ChannelTransport(maxsize=MESSAGES)
    front = MessageScheduler(store=store, transport=channel)
    ids = front.schedule_many(Message("order", {"number": number}) for number in range(MESSAGES))
    begin = SYSTEM_CLOCK.monotonic()
    with front:
        got = [channel.get(PATIENCE) for _ in ids]
        rate = MESSAGES / (SYSTEM_CLOCK.monotonic() - begin)
    assert Counter(message.id for message in got) == Counter(ids)
    print(f"{rate:.0f} messages a second")
    assert not FULL or rate >= SPEED
