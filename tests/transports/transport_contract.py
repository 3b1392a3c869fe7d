"""What every transport promises, as tests to inherit: say how to make one and how to see what has arrived."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest

from goscheduler.errors import MessageRejected, TransportUnavailable
from goscheduler.transports.base import Delivery

DUE = datetime(2026, 3, 29, 1, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
PATIENCE = 60
#: For transports whose server does not answer.
IMPATIENT = 0.5
#: For transports whose server answers, and is then frozen: a busy machine has to connect and to publish in that time.
BRIEF = 4.0

PAYLOADS = {
    "a text": b"hello",
    "every byte": bytes(range(256)),
    "nothing": b"",
    "one megabyte": bytes(1_000_000),
}
METADATA = {
    "order": "1",
    "Ünï cödé": "Straße — 東京",
    "colon: and\ttab": "line one\r\nline two: Nats-Msg-Id: 1",
    "100%": "%41 50% off",
    "spaces": "  around  ",
    "empty": "",
    "Nats-Msg-Id": "not mine to set",
}
NAMES = ("orders.reminder", "orders/reminder:1-2_3", "Bestellung.größer", "two words", "..", "a..b", "$x", "star.*")


class Received(NamedTuple):
    payload: bytes
    #: As ``Delivery.headers`` has them, whatever they were on the way.
    headers: dict[str, str]


def delivery(event_name: str, number: int = 1, **changes: Any) -> Delivery:
    settings: dict[str, Any] = {"payload": b"hello", "content_type": "text/plain", "scheduled_at": DUE, **changes}
    return Delivery(id=f"m{number}", event_name=event_name, **settings)


class TransportContract:
    """Everything that needs no server to be killed."""

    #: What the names of events begin with, so that tests do not see each other's.
    name = ""
    #: Names of events that the transport cannot carry.
    refused_names: Sequence[str] = ()
    secrets: Sequence[str] = ()

    def make(self, **options: Any) -> Any:
        """Return a transport."""
        raise NotImplementedError

    def received(self, event_name: str, count: int) -> list[Received]:
        """Wait until so many messages have arrived, and return all that are there."""
        raise NotImplementedError

    @pytest.fixture
    def transport(self) -> Any:
        transport = self.make()
        transport.start()
        yield transport
        transport.close()

    def event(self, suffix: str = "orders.reminder") -> str:
        return f"{self.name}{suffix}"

    @pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS.keys())
    def test_a_payload_arrives_once_and_unchanged(self, transport, payload) -> None:
        transport.publish(self.event(), delivery(self.event(), payload=payload))
        assert [message.payload == payload for message in self.received(self.event(), 1)] == [True]

    def test_headers_tell_what_the_message_is_and_hold_its_metadata(self, transport) -> None:
        message = delivery(self.event(), metadata=METADATA, attempt=3, occurrence=7, content_type="application/json")
        transport.publish(message.event_name, message)
        [received] = self.received(self.event(), 1)
        assert received.headers == message.headers()
        assert received.headers["scheduled_at"] == "2026-03-28T20:00:00+00:00"
        assert (received.headers["attempt"], received.headers["occurrence"]) == ("3", "7")

    @pytest.mark.parametrize("name", NAMES)
    def test_a_name_is_carried_as_it_is_or_refused_clearly(self, transport, name) -> None:
        message = delivery(self.event(name))
        if name in self.refused_names:
            with pytest.raises(MessageRejected) as refused:
                transport.publish(message.event_name, message)
            assert repr(message.event_name)[1:-1] in str(refused.value)
            return
        transport.publish(message.event_name, message)
        [received] = self.received(message.event_name, 1)
        assert received.headers["event_name"] == message.event_name

    def test_a_batch_arrives_whole(self, transport) -> None:
        messages = [delivery(self.event(), number, payload=str(number).encode()) for number in range(100)]
        assert transport.publish_many(messages) == [None] * 100
        assert sorted(int(message.payload) for message in self.received(self.event(), 100)) == list(range(100))
        assert transport.publish_many([]) == []

    def test_eight_threads_publish_at_once(self, transport) -> None:
        def publish(number: int) -> None:
            transport.publish(self.event(), delivery(self.event(), number, payload=str(number).encode()))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(publish, range(80)))
        assert sorted(int(message.payload) for message in self.received(self.event(), 80)) == list(range(80))

    def test_close_may_be_repeated_and_leaves_no_thread(self) -> None:
        before = set(threading.enumerate())
        transport = self.make()
        transport.close()
        transport.start()
        transport.publish(self.event(), delivery(self.event()))
        transport.close()
        transport.close()
        assert len(self.received(self.event(), 1)) == 1
        ours = [thread.name for thread in threading.enumerate() if thread.name.startswith("goscheduler-")]
        assert set(ours) <= {thread.name for thread in before}

    def test_it_can_be_started_again_after_close(self) -> None:
        transport = self.make()
        for number in range(2):
            transport.start()
            transport.publish(self.event(), delivery(self.event(), number))
            assert transport.healthy()
            transport.close()
        assert len(self.received(self.event(), 2)) == 2


class ServerTransportContract(TransportContract):
    """What a transport has to do beside that if it writes bytes to somebody else."""

    def make_without_server(self) -> Any:
        """Return a transport whose server is not there, which gives up after :data:`IMPATIENT`."""
        raise NotImplementedError

    def test_a_server_that_is_not_there_is_worth_another_attempt(self) -> None:
        transport = self.make_without_server()
        began = time.monotonic()
        try:
            with pytest.raises(TransportUnavailable) as raised:
                transport.publish(self.event(), delivery(self.event()))
            outcomes = transport.publish_many([delivery(self.event(), number) for number in range(3)])
        finally:
            transport.close()
        assert [type(outcome) for outcome in outcomes] == [TransportUnavailable] * 3
        assert time.monotonic() - began < PATIENCE / 2
        assert not any(secret in f"{raised.value}{raised.value.__cause__}{transport!r}" for secret in self.secrets)

    def test_a_text_that_cannot_be_sent_does_not_spoil_its_batch(self, transport) -> None:
        broken = delivery(self.event(), 2, metadata={"name": "\ud800"})
        outcomes = transport.publish_many([delivery(self.event(), 1), broken, delivery(self.event(), 3)])
        assert [type(outcome) for outcome in outcomes] == [type(None), MessageRejected, type(None)]
        ids = [message.headers["scheduled_message_id"] for message in self.received(self.event(), 2)]
        assert sorted(ids) == ["m1", "m3"]


def survives_its_server(server: Any, transport: Any, event_name: str, received: Callable[[], list[Received]]) -> None:
    """Check that a transport with a short timeout fails in time while its server is away, and then works again."""
    transport.publish(event_name, delivery(event_name, 1))
    server.freeze()
    began = time.monotonic()
    with pytest.raises(TransportUnavailable):
        transport.publish(event_name, delivery(event_name, 2))
    assert time.monotonic() - began < PATIENCE / 2
    server.thaw()
    transport.publish(event_name, delivery(event_name, 3))
    server.kill()
    with pytest.raises(TransportUnavailable):
        transport.publish(event_name, delivery(event_name, 4))
    assert not transport.healthy()
    server.restart()
    transport.publish(event_name, delivery(event_name, 5))
    with ThreadPoolExecutor(8) as pool:
        numbers = range(10, 26)
        list(pool.map(lambda number: transport.publish(event_name, delivery(event_name, number)), numbers))
    arrived = {message.headers["scheduled_message_id"] for message in received()}
    # The second was sent and never confirmed: it may have arrived.
    assert arrived - {"m2"} == {"m1", "m3", "m5", *(f"m{number}" for number in numbers)}
