"""The transport to RabbitMQ under the contract of all transports, on a real server, and what is special about it."""

from __future__ import annotations

import os
import time
from contextlib import closing

import kombu
import pytest
from broken_line import Line
from kombu.exceptions import ChannelError
from server_process import HOST, free_port
from transport_contract import (
    BRIEF,
    IMPATIENT,
    PATIENCE,
    Received,
    ServerTransportContract,
    delivery,
    survives_its_server,
)

from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, UnknownOption
from goscheduler.transports.kombu import KombuTransport

FULL = bool(os.environ.get("GOSCHEDULER_FULL"))
BATCHES = 100 if FULL else 5


def fetched(url: str, queue: str) -> list[kombu.Message]:
    """Take everything out of a queue."""
    with kombu.Connection(url) as connection, connection.channel() as channel:
        found = []
        while (raw := channel.basic_get(queue, no_ack=True)) is not None:
            found.append(channel.message_to_python(raw))
        return found


def entries(url: str, queue: str) -> list[Received]:
    # The client gives an empty body as an empty text.
    return [Received(message.body or b"", message.headers) for message in fetched(url, queue)]


class TestContract(ServerTransportContract):
    secrets = ("not-secret",)

    @pytest.fixture(autouse=True)
    def _place(self, rabbitmq, fresh) -> None:
        space = fresh(rabbitmq)
        self.url, self.name = space.url, f"{space.name}."

    def make(self):
        return KombuTransport.from_url(self.url, pool_size=3)

    def make_without_server(self):
        return KombuTransport.from_url(f"amqp://goscheduler:not-secret@{HOST}:{free_port()}/%2F", timeout=IMPATIENT)

    def received(self, event_name: str, count: int) -> list[Received]:
        return entries(self.url, event_name)


@pytest.fixture
def space(rabbitmq, fresh):
    return fresh(rabbitmq)


@pytest.fixture
def make(space):
    made = []

    def make(**options) -> KombuTransport:
        made.append(KombuTransport(space.url, **options))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


def declare(space, *, exchange: str = "", **queue) -> None:
    with kombu.Connection(space.url) as connection, connection.channel() as channel:
        settings = {"durable": True, "auto_delete": False, **queue}
        channel.queue_declare(space.name, **settings)
        if exchange:
            channel.queue_bind(space.name, exchange, "orders.#")


def test_a_message_survives_the_broker_and_says_what_it_is(make, space) -> None:
    make().publish(space.name, delivery(space.name, content_type="application/json", payload=b'{"a": 1}'))
    [message] = fetched(space.url, space.name)
    properties = message.properties
    assert (properties["delivery_mode"], properties["type"]) == (2, space.name)
    assert properties["message_id"] == delivery(space.name).key
    assert message.content_type == "application/json"
    message.accept = {"application/json"}
    assert message.decode() == {"a": 1}


def test_an_exchange_is_made_and_gives_messages_to_whoever_is_bound(make, space) -> None:
    transport = make(exchange=space.name)
    with pytest.raises(MessageRejected, match=f"no queue takes 'orders.new' from exchange '{space.name}'"):
        transport.publish("orders.new", delivery("orders.new"))
    declare(space, exchange=space.name)
    outcomes = transport.publish_many([delivery("orders.new", 1), delivery("invoices.new", 2), delivery("orders.a", 3)])
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "Unroutable", "NoneType"]
    assert [entry.headers["scheduled_message_id"] for entry in entries(space.url, space.name)] == ["m1", "m3"]


def test_what_the_user_has_declared_with_other_settings_is_used_as_it_is(make, space) -> None:
    declare(space, arguments={"x-max-priority": 5}, durable=False)
    make().publish(space.name, delivery(space.name))
    assert len(fetched(space.url, space.name)) == 1


def test_queues_are_made_with_the_arguments_that_are_given(make, space) -> None:
    make(queue_arguments={"x-max-length": 1, "x-overflow": "drop-head"}).publish_many(
        [delivery(space.name, number) for number in range(3)]
    )
    assert [entry.headers["scheduled_message_id"] for entry in entries(space.url, space.name)] == ["m2"]


def test_a_queue_that_was_deleted_is_made_again(make, space) -> None:
    transport = make(pool_size=1)
    transport.publish(space.name, delivery(space.name, 1))
    with kombu.Connection(space.url) as connection, connection.channel() as channel:
        channel.queue_delete(space.name)
    transport.publish(space.name, delivery(space.name, 2))
    assert [entry.headers["scheduled_message_id"] for entry in entries(space.url, space.name)] == ["m2"]


def test_nothing_is_made_that_should_not_be(make, space) -> None:
    with pytest.raises(MessageRejected, match="no queue takes"):
        make(declare=False).publish(space.name, delivery(space.name))
    with pytest.raises(TransportUnavailable, match="NOT_FOUND"):
        make(declare=False, exchange=space.name).publish(space.name, delivery(space.name))
    with pytest.raises(ChannelError, match="NOT_FOUND"):
        fetched(space.url, space.name)


def test_a_full_queue_that_refuses_is_worth_another_attempt(make, space) -> None:
    declare(space, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    outcomes = make().publish_many([delivery(space.name, number) for number in range(2)])
    assert [type(outcome) for outcome in outcomes] == [type(None), TransportUnavailable]


def test_one_bad_message_does_not_spoil_its_batch(make, space) -> None:
    names = [space.name, "amq.reserved", space.name, f"{'ü' * 200}", space.name]
    outcomes = make().publish_many([delivery(name, number) for number, name in enumerate(names)])
    assert [type(outcome) for outcome in outcomes] == [
        *(type(None), MessageRejected, type(None), MessageRejected, type(None))
    ]
    assert [entry.headers["scheduled_message_id"] for entry in entries(space.url, space.name)] == ["m0", "m2", "m4"]


def test_metadata_beyond_one_frame_is_rejected_and_the_largest_that_fits_is_not(make, space) -> None:
    sizes = (119_500, 130_000)
    outcomes = make().publish_many([delivery(space.name, metadata={"note": "x" * size}) for size in sizes])
    assert [type(outcome) for outcome in outcomes] == [type(None), MessageRejected]


def test_a_batch_to_an_exchange_that_vanished_is_worth_another_attempt_each(make, space) -> None:
    transport = make(exchange=space.name)
    transport.publish_many([delivery("orders", 1)])
    with kombu.Connection(space.url) as connection, connection.channel() as channel:
        channel.exchange_delete(space.name)
    outcomes = transport.publish_many([delivery("orders", number) for number in range(3)])
    assert [type(outcome).__name__ for outcome in outcomes] == ["Unroutable"] * 3, "the exchange is made again"


def test_a_long_id_has_a_short_one_that_stays_the_same(make, space) -> None:
    transport = make()
    for _ in range(2):
        transport.publish(space.name, delivery(space.name, number="x" * 300))
    ids = {message.properties["message_id"] for message in fetched(space.url, space.name)}
    assert [len(one) for one in ids] == [64]


def test_who_finds_no_free_connection_gives_up_in_time(make, space) -> None:
    transport = make(pool_size=1, timeout=BRIEF)
    transport.publish(space.name, delivery(space.name))
    with transport._links.lent(kombu_deadline()), pytest.raises(TransportUnavailable, match="pool_size"):
        transport.publish(space.name, delivery(space.name))
    transport.publish(space.name, delivery(space.name))


def kombu_deadline():
    from goscheduler.clock import SYSTEM_CLOCK, Deadline

    return Deadline(SYSTEM_CLOCK, PATIENCE)


def test_a_wrong_password_is_worth_another_attempt_and_is_not_told(rabbitmq) -> None:
    transport = KombuTransport(rabbitmq.url.replace("not-secret", "hunter2"))
    with pytest.raises(TransportUnavailable, match="ACCESS_REFUSED") as refused:
        transport.publish("a", delivery("a"))
    transport.close()
    assert not transport.healthy()
    assert "hunter2" not in f"{refused.value}{refused.value.__cause__}{transport!r}"


def test_a_second_broker_is_used_when_the_first_is_away(space) -> None:
    transport = KombuTransport(f"amqp://{HOST}:{free_port()}//;{space.url}")
    transport.publish(space.name, delivery(space.name))
    transport.close()
    assert len(fetched(space.url, space.name)) == 1


def test_what_else_kombu_speaks_carries_messages_too(redis_server, fresh) -> None:
    url = fresh(redis_server).url
    transport = KombuTransport(url)
    message = delivery("orders", payload=bytes(range(256)))
    assert transport.publish_many([message, delivery("orders", 2)]) == [None, None]
    assert transport.healthy()
    transport.close()
    first, second = fetched(url, "orders")
    assert (first.body, first.headers) == (message.payload, message.headers())
    assert second.headers["scheduled_message_id"] == "m2"


@pytest.mark.parametrize(
    ("url", "options", "error"),
    [
        ("amqp://localhost", {"exchange_type": "best"}, InvalidArgument),
        ("amqp://localhost", {"exchange": "x" * 300}, InvalidArgument),
        ("amqp://localhost", {"exchange": None}, TypeError),
        ("amqp://localhost", {"declare": 1}, TypeError),
        ("amqp://localhost", {"pool_size": 0}, InvalidArgument),
        ("amqp://localhost", {"timeout": 0}, InvalidArgument),
        ("amqp://user:not-secret@localhost:port", {}, InvalidArgument),
        ("nonsense://user:not-secret@localhost", {}, InvalidArgument),
    ],
)
def test_options_that_make_no_sense_are_refused(url, options, error) -> None:
    with pytest.raises(error) as refused:
        KombuTransport(url, **options)
    assert "not-secret" not in str(refused.value)


def test_a_misspelt_option_is_told_with_the_right_one() -> None:
    with pytest.raises(UnknownOption, match="exchange"):
        KombuTransport.from_url("amqp://localhost", exchnge="x")


def test_batches_are_confirmed_together(make, space) -> None:
    transport = make()
    began = time.monotonic()
    for batch in range(BATCHES):
        messages = [delivery(space.name, batch * 100 + number) for number in range(100)]
        assert transport.publish_many(messages) == [None] * 100
    print(f"{BATCHES * 100 / (time.monotonic() - began):.0f} messages a second")
    ids = [entry.headers["scheduled_message_id"] for entry in entries(space.url, space.name)]
    assert sorted(ids) == sorted(f"m{number}" for number in range(BATCHES * 100))


def test_it_survives_a_line_that_freezes_or_breaks(rabbitmq, space) -> None:
    with closing(Line(rabbitmq.port)) as line:
        transport = KombuTransport(space.url.replace(str(rabbitmq.port), str(line.port)), timeout=BRIEF)
        survives_its_server(line, transport, space.name, lambda: entries(space.url, space.name))
        transport.close()


if FULL:  # it takes a while to start twice

    @pytest.mark.serial
    def test_it_survives_a_server_that_freezes_or_dies(private_server) -> None:
        server = private_server("rabbitmq")
        transport = KombuTransport(server.url, timeout=BRIEF)
        survives_its_server(server, transport, "orders", lambda: entries(server.url, "orders"))
        transport.close()
