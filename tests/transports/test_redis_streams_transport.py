"""The transport into Redis Streams under the contract of all transports, on a real server, and what is special."""

from __future__ import annotations

import pytest
import redis
from server_process import HOST, free_port
from transport_contract import BRIEF, IMPATIENT, Received, ServerTransportContract, delivery, survives_its_server

from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, UnknownOption
from goscheduler.transports.redis_streams import RedisStreamsTransport


def entries(url: str, stream: str) -> list[Received]:
    with redis.Redis.from_url(url) as client:
        found = [fields for _, fields in client.xrange(stream)]
    return [
        Received(fields.pop(b"payload"), {name.decode(): value.decode() for name, value in fields.items()})
        for fields in found
    ]


class TestContract(ServerTransportContract):
    name = "prefix:"
    secrets = ("not-secret",)

    @pytest.fixture(autouse=True)
    def _place(self, redis_server, fresh) -> None:
        self.url = fresh(redis_server).url

    def make(self):
        return RedisStreamsTransport.from_url(self.url)

    def make_without_server(self):
        return RedisStreamsTransport.from_url(f"redis://:not-secret@{HOST}:{free_port()}/0", timeout=IMPATIENT)

    def received(self, event_name: str, count: int) -> list[Received]:
        return entries(self.url, event_name)


@pytest.fixture
def url(redis_server, fresh) -> str:
    return fresh(redis_server).url


def test_a_stream_bears_the_prefix_and_keeps_what_it_is_told_to(url) -> None:
    transport = RedisStreamsTransport(url, prefix="events:", maxlen=3, approximate=False)
    transport.publish_many([delivery("a", number) for number in range(10)])
    transport.close()
    assert [entry.headers["scheduled_message_id"] for entry in entries(url, "events:a")] == ["m7", "m8", "m9"]


def test_metadata_never_takes_the_place_of_the_payload(url) -> None:
    message = delivery("a", metadata={"payload": "mine"})
    transport = RedisStreamsTransport(url)
    with pytest.raises(MessageRejected, match="payload_field"):
        transport.publish("a", message)
    transport.close()
    body = RedisStreamsTransport(url, payload_field="body")
    body.publish("a", message)
    body.close()
    with redis.Redis.from_url(url, decode_responses=True) as client:
        [(_, fields)] = client.xrange("a")
    assert (fields["payload"], fields["body"]) == ("mine", "hello")


def test_a_key_of_another_type_rejects_its_messages_and_no_others(url) -> None:
    with redis.Redis.from_url(url) as client:
        client.set("taken", "1")
    transport = RedisStreamsTransport(url)
    outcomes = transport.publish_many([delivery("taken"), delivery("free")])
    transport.close()
    assert [type(outcome) for outcome in outcomes] == [MessageRejected, type(None)]


def test_a_client_of_the_user_is_used_and_left_open(url) -> None:
    with redis.Redis.from_url(url) as client:
        transport = RedisStreamsTransport(client=client)
        transport.publish("a", delivery("a"))
        transport.close()
        assert client.xlen("a") == 1


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((), {}, InvalidArgument),
        (("redis://localhost",), {"client": object()}, InvalidArgument),
        (("http://user:not-secret@localhost",), {}, InvalidArgument),
        (("redis://localhost",), {"maxlen": 0}, InvalidArgument),
        (("redis://localhost",), {"timeout": float("nan")}, InvalidArgument),
        (("redis://localhost",), {"timeout": -1}, InvalidArgument),
        (("redis://localhost",), {"prefix": "a\nb"}, InvalidArgument),
        (("redis://localhost",), {"prefix": 1}, TypeError),
        (("redis://localhost",), {"approximate": "no"}, TypeError),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments, options, error) -> None:
    with pytest.raises(error) as refused:
        RedisStreamsTransport(*arguments, **options)
    assert "not-secret" not in str(refused.value)


def test_a_misspelt_option_is_told_with_the_right_one() -> None:
    with pytest.raises(UnknownOption, match="maxlen"):
        RedisStreamsTransport.from_url("redis://localhost", max_len=3)


@pytest.mark.serial
def test_it_survives_a_server_that_freezes_or_dies(private_server) -> None:
    server = private_server("redis", durable=True)  # everysec may put a write off, and lose it
    transport = RedisStreamsTransport(server.url, timeout=BRIEF)
    survives_its_server(server, transport, "orders", lambda: entries(server.url, "orders"))
    transport.close()


@pytest.mark.serial
def test_a_server_that_asks_for_a_password_is_worth_another_attempt(private_server) -> None:
    server = private_server("redis", "--requirepass", "x")
    transport = RedisStreamsTransport(server.url.replace("://", "://:not-secret@"))
    with pytest.raises(TransportUnavailable) as refused:
        transport.publish("a", delivery("a"))
    transport.close()
    assert "not-secret" not in f"{refused.value}{transport!r}"
