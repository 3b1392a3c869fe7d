"""The transport into NATS JetStream under the contract of all transports, on a real server, and what is special."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import unquote

import nats as nats_client
import pytest
from nats.js.api import StorageType, StreamConfig
from server_process import HOST, free_port
from transport_contract import BRIEF, DUE, IMPATIENT, Received, ServerTransportContract, delivery, survives_its_server

from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, UnknownOption
from goscheduler.transports.nats import NatsTransport


@asynccontextmanager
async def jetstream(url: str):
    connection = await nats_client.connect(url)
    try:
        yield connection.jetstream()
    finally:
        await connection.close()


def entries(url: str, stream: str, subject: str | None = None) -> list[Received]:
    async def look() -> list[Received]:
        async with jetstream(url) as context:
            last = (await context.stream_info(stream)).state.last_seq
            kept = [await context.get_msg(stream, number) for number in range(1, last + 1)]
        return [_received(message) for message in kept if subject in (None, message.subject)]

    return asyncio.run(look())


def _received(message) -> Received:
    headers = {unquote(name): unquote(value) for name, value in message.headers.items() if name[:5] != "Nats-"}
    return Received(message.data or b"", headers)


def make_stream(url: str, **config) -> None:
    async def make() -> None:
        async with jetstream(url) as context:
            await context.add_stream(StreamConfig(storage=StorageType.MEMORY, **config))

    asyncio.run(make())


class TestContract(ServerTransportContract):
    refused_names = ("two words", "..", "a..b", "star.*")
    secrets = ("not-secret",)

    @pytest.fixture(autouse=True)
    def _place(self, nats, fresh) -> None:
        space = fresh(nats)
        self.url, self.stream, self.name = space.url, space.name, f"{space.name}."

    def make(self):
        return NatsTransport.from_url(
            self.url, stream=self.stream, create_stream=True, subjects=[f"{self.stream}.>"], timeout=60
        )

    def make_without_server(self):
        return NatsTransport.from_url(f"nats://goscheduler:not-secret@{HOST}:{free_port()}", timeout=IMPATIENT)

    def received(self, event_name: str, count: int) -> list[Received]:
        return entries(self.url, self.stream, event_name)


@pytest.fixture
def space(nats, fresh):
    return fresh(nats)


@pytest.fixture
def transport(space):
    transport = NatsTransport(space.url, prefix=f"{space.name}.", stream=space.name, create_stream=True)
    yield transport
    transport.close()


def test_what_is_published_again_is_kept_once(transport, space) -> None:
    for attempt in (1, 2):
        transport.publish("a", delivery("a", attempt=attempt))
    transport.publish("a", delivery("a", scheduled_at=DUE + timedelta(hours=1)))  # another occurrence
    headers = [entry.headers for entry in entries(space.url, space.name)]
    kept = [(one["attempt"], one["scheduled_at"][11:16]) for one in headers]
    assert kept == [("1", "20:00"), ("1", "21:00")]


def test_a_stream_that_exists_is_used_as_it_is(space) -> None:
    make_stream(space.url, name=space.name, subjects=[f"{space.name}.x"], max_msgs=1)
    transport = NatsTransport(space.url, prefix=f"{space.name}.", stream=space.name, create_stream=True)
    transport.publish("x", delivery("x", 1))
    transport.publish("x", delivery("x", 2))
    transport.close()

    async def count() -> int:
        async with jetstream(space.url) as context:
            return (await context.stream_info(space.name)).state.messages

    assert asyncio.run(count()) == 1


def test_a_subject_that_no_stream_takes_is_worth_another_attempt(space) -> None:
    transport = NatsTransport(space.url, prefix=f"{space.name}.")
    with pytest.raises(TransportUnavailable, match="no stream takes"):
        transport.publish("a", delivery("a"))
    make_stream(space.url, name=space.name, subjects=[f"{space.name}.>"])
    transport.publish("a", delivery("a"))
    transport.close()


def test_a_message_beyond_the_limit_of_the_server_is_rejected_and_the_connection_stays(transport, space) -> None:
    outcomes = transport.publish_many([delivery("a", 1), delivery("a", 2, payload=bytes(2**20)), delivery("a", 3)])
    assert [type(outcome) for outcome in outcomes] == [type(None), MessageRejected, type(None)]
    assert "1048576" in str(outcomes[1])
    assert len(entries(space.url, space.name)) == 2


def test_a_message_beyond_the_limit_of_its_stream_is_rejected(space) -> None:
    make_stream(space.url, name=space.name, subjects=[f"{space.name}.>"], max_msg_size=500)
    transport = NatsTransport(space.url, prefix=f"{space.name}.")
    with pytest.raises(MessageRejected, match="1000 bytes"):
        transport.publish("a", delivery("a", payload=bytes(1000)))
    transport.close()


def test_a_wrong_password_is_worth_another_attempt_and_is_not_told(nats) -> None:
    transport = NatsTransport(nats.url.replace("not-secret", "hunter2"))
    with pytest.raises(TransportUnavailable) as refused:
        transport.publish("a", delivery("a"))
    transport.close()
    assert "uthorization" in str(refused.value)
    assert "hunter2" not in f"{refused.value}{transport!r}"


def test_a_closed_transport_says_so(transport) -> None:
    transport.close()
    with pytest.raises(TransportUnavailable, match="closed"):
        transport.publish("a", delivery("a"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"servers": "localhost:4222"}, InvalidArgument),
        ({"servers": ["nats://localhost", 3]}, TypeError),
        ({"create_stream": True}, InvalidArgument),
        ({"create_stream": True, "stream": "S"}, InvalidArgument),
        ({"create_stream": True, "stream": "S", "subjects": "a.>"}, TypeError),
        ({"stream": "a.b"}, InvalidArgument),
        ({"stream": ""}, InvalidArgument),
        ({"prefix": "a b."}, InvalidArgument),
        ({"prefix": ">."}, InvalidArgument),
        ({"timeout": 0}, InvalidArgument),
        ({"timeout": True}, InvalidArgument),
        ({"duplicate_window": "1"}, InvalidArgument),
    ],
)
def test_options_that_make_no_sense_are_refused(options, error) -> None:
    with pytest.raises(error):
        NatsTransport(**options)


def test_a_misspelt_option_is_told_with_the_right_one() -> None:
    with pytest.raises(UnknownOption, match="create_stream"):
        NatsTransport.from_url("nats://localhost", create_streams=True)


def test_an_encrypted_address_is_one_that_the_client_knows() -> None:
    assert "tls://example.com:4222" in repr(NatsTransport.from_url("tls+nats://example.com:4222"))


@pytest.mark.serial
def test_it_survives_a_server_that_freezes_or_dies(private_server) -> None:
    server = private_server("nats")
    transport = NatsTransport(server.url, stream="S", create_stream=True, subjects=["orders"], timeout=BRIEF)
    survives_its_server(server, transport, "orders", lambda: entries(server.url, "S"))
    transport.close()
