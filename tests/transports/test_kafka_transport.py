"""The transport into Kafka under the contract of all transports, on a broker of librdkafka, and what is special."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from kafka_cluster import NOT_ALLOWED, OUT_OF_ORDER, PRODUCE, TOO_LARGE, UNKNOWN_TOPIC, Cluster
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

from goscheduler import fixed
from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, UnknownOption
from goscheduler.messages import Message, MessageScheduler
from goscheduler.testing import ManualScheduler
from goscheduler.transports.kafka import THREAD, KafkaTransport


@pytest.fixture(scope="module")
def shared_cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def transport(cluster):
    transport = KafkaTransport(cluster.url)
    yield transport
    transport.close()


NUMBERS = itertools.count()


class TestContract(ServerTransportContract):
    refused_names = ("orders/reminder:1-2_3", "Bestellung.größer", "two words", "$x", "star.*")
    secrets = ("not-secret",)

    @pytest.fixture(autouse=True)
    def _place(self, shared_cluster) -> None:
        self.cluster = shared_cluster
        self.name = f"t{next(NUMBERS)}."

    def make(self):
        return KafkaTransport.from_url(self.cluster.url, timeout=PATIENCE)

    def make_without_server(self):
        return KafkaTransport.from_url(f"kafka://me:not-secret@{HOST}:{free_port()}", timeout=IMPATIENT)

    def received(self, event_name: str, count: int) -> list[Received]:
        return self.cluster.received(event_name)


def test_a_topic_of_the_url_takes_the_messages_of_every_event(cluster) -> None:
    transport = KafkaTransport(f"{cluster.url}/all")
    outcomes = transport.publish_many([delivery("a/b", 1), delivery("größer", 2)])
    transport.close()
    assert outcomes == [None, None]
    assert sorted(one.headers["event_name"] for one in cluster.received("all")) == ["a/b", "größer"]


def test_a_topic_bears_the_prefix(cluster) -> None:
    transport = KafkaTransport(cluster.url, prefix="shop.")
    transport.publish("a", delivery("a"))
    transport.close()
    assert len(cluster.records("shop.a")) == 1


def test_the_key_is_the_id_of_the_message_or_the_metadata_that_was_named(cluster) -> None:
    transport = KafkaTransport(cluster.url, key_field="order")
    transport.publish_many([delivery("a", 1), delivery("a", 2, metadata={"order": "größer"})])
    transport.close()
    assert {record.key() for record in cluster.records("a")} == {b"m1", "größer".encode()}


def test_nothing_is_cut_at_a_null(transport, cluster) -> None:
    named, valued = delivery("a", 1, metadata={"a\0b": "1"}), delivery("a", 2, metadata={"a": "1\0 2"})
    refused, taken = transport.publish_many([named, valued])
    assert isinstance(refused, MessageRejected)
    assert taken is None
    assert [one.headers["a"] for one in cluster.received("a")] == ["1\0 2"]


def test_a_message_beyond_the_limit_of_the_client_or_the_broker_is_rejected_alone(transport, cluster) -> None:
    outcomes = transport.publish_many([delivery("a", 1), delivery("a", 2, payload=bytes(2**21)), delivery("a", 3)])
    assert [type(outcome) for outcome in outcomes] == [type(None), MessageRejected, type(None)]
    cluster.refuse(PRODUCE, TOO_LARGE)
    with pytest.raises(MessageRejected, match="too large"):
        transport.publish("a", delivery("a", 4))
    assert len(cluster.records("a")) == 2


def test_an_error_that_an_administrator_can_mend_is_worth_another_attempt(transport, cluster) -> None:
    transport.publish("a", delivery("a", 1))
    cluster.refuse(PRODUCE, NOT_ALLOWED)
    with pytest.raises(TransportUnavailable, match="authorization"):
        transport.publish("a", delivery("a", 2))


def test_a_topic_that_is_not_there_is_told_and_worth_another_attempt(cluster) -> None:
    cluster.refuse_topic("a", UNKNOWN_TOPIC)
    transport = KafkaTransport(f"{cluster.url}/a?topic.metadata.propagation.max.ms=100", timeout=PATIENCE)
    with pytest.raises(TransportUnavailable, match=r"[Uu]nknown topic"):
        transport.publish("a", delivery("a"))
    assert not transport.healthy()
    cluster.refuse_topic("a", 0)
    assert transport.healthy()
    transport.publish("a", delivery("a"))
    transport.close()
    assert len(cluster.records("a")) == 1


def test_a_producer_that_can_go_on_no_more_is_replaced(transport, cluster, caplog) -> None:
    transport.publish("a", delivery("a", 1))
    cluster.refuse(PRODUCE, OUT_OF_ORDER)
    with pytest.raises(TransportUnavailable):
        transport.publish("a", delivery("a", 2))
    transport.publish("a", delivery("a", 3))
    assert "The next message gets a new producer" in caplog.text
    assert {one.headers["scheduled_message_id"] for one in cluster.received("a")} == {"m1", "m3"}


def test_a_closed_transport_says_so_and_has_no_thread_of_its_own_or_of_librdkafka(cluster) -> None:
    before = threads()
    transport = KafkaTransport(cluster.url)
    transport.publish("a", delivery("a"))
    assert THREAD in [thread.name for thread in threading.enumerate()]
    assert librdkafka_threads_since(before)
    transport.close()
    assert THREAD not in [thread.name for thread in threading.enumerate()]
    deadline = SYSTEM_CLOCK.monotonic() + PATIENCE
    while librdkafka_threads_since(before):  # they end a moment after the producer
        assert SYSTEM_CLOCK.monotonic() < deadline
        os.sched_yield()
    with pytest.raises(TransportUnavailable, match="closed"):
        transport.publish("a", delivery("a"))
    assert not transport.healthy()


def librdkafka_threads_since(before: Mapping[str, str]) -> list[str]:
    """Return the threads that librdkafka has started since.

    Numbers tell, because a thread names itself after its start, and that of the cluster may do so only now.
    """
    return [name for number, name in threads().items() if number not in before and name.startswith("rdk:")]


def threads() -> dict[str, str]:
    """Return the threads of this process: number → name."""
    found = {}
    for file in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # a thread of somebody else may end meanwhile
            found[file.parent.name] = file.read_text()
    return found


def test_a_message_that_comes_due_while_the_broker_is_away_is_delivered_later(cluster) -> None:
    cluster.kill()
    with ManualScheduler() as scheduler:
        transport = KafkaTransport(f"{cluster.url}/orders", timeout=IMPATIENT)
        outbox = MessageScheduler(
            scheduler=scheduler, transport=transport, max_retries=0, backoff=fixed(10), jitter=0, workers=0
        )
        outbox.start()
        outbox.schedule(Message("orders.due", b"hello", id="one"))
        scheduler.run_due()
        assert "TransportUnavailable" in outbox.get("one").last_error
        cluster.restart()
        while outbox.list():
            scheduler.advance(10)
        outbox.stop()
    assert [one.payload for one in cluster.received("orders")] == [b"hello"]


def test_what_no_broker_has_acknowledged_in_time_is_told_why_and_not_sent_afterwards(cluster) -> None:
    cluster.kill()
    transport = KafkaTransport(cluster.url, timeout=IMPATIENT)
    problem = None
    while "refused" not in str(problem):  # the first may be given up before the connection was tried
        [problem] = transport.publish_many([delivery("a")])
        assert isinstance(problem, TransportUnavailable)
        assert "no acknowledgement within 0.5 s" in str(problem)
    cluster.restart()
    transport.close()
    assert cluster.received("a") == []


@pytest.mark.serial
def test_it_survives_a_broker_that_freezes_or_dies(cluster) -> None:
    transport = KafkaTransport(cluster.url, timeout=BRIEF)
    survives_its_server(cluster, transport, "orders", lambda: cluster.received("orders"))
    transport.close()


LOGIN = {"sasl.username": "me", "sasl.password": "a:b", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("kafka://one:9092,[::1]:9093/a", {"bootstrap.servers": "one:9092,[::1]:9093", "acks": "all"}),
        ("kafka://one?security.protocol=SSL&linger.ms=0", {"security.protocol": "SSL", "linger.ms": "0"}),
        ("kafka://me:a%3Ab@one/a", LOGIN),
        ("kafka://me:a%3Ab@one?security.protocol=SASL_PLAINTEXT&sasl.mechanism=SCRAM-SHA-512",
         {**LOGIN, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}),
    ],
)  # fmt: skip
def test_a_url_says_how_to_connect(url, expected) -> None:
    transport = KafkaTransport(url)
    assert expected.items() <= transport._config.items()
    assert "a%3Ab" not in repr(transport)


@pytest.mark.parametrize(
    ("url", "options", "error"),
    [
        ("localhost:9092", {}, InvalidArgument),
        (None, {}, InvalidArgument),
        ("kafka://", {}, InvalidArgument),
        ("kafka:///topic", {}, InvalidArgument),
        ("kafka://me:not-secret@/topic", {}, InvalidArgument),
        ("kafka://localhost/two words", {}, InvalidArgument),
        ("kafka://localhost/topic#1", {}, InvalidArgument),
        ("kafka://[localhost", {}, InvalidArgument),
        ("kafka://localhost?sasl.password", {}, InvalidArgument),
        ("kafka://localhost?acks=1", {}, InvalidArgument),
        ("kafka://localhost?security.protocl=SSL", {}, InvalidArgument),
        ("kafka://localhost?security.protocol=not-secret&sasl.password=not-secret", {}, InvalidArgument),
        ("kafka://localhost", {"config": {"delivery.report.only.error": True}}, InvalidArgument),
        ("kafka://localhost", {"config": {"linger.ms": "soon"}}, InvalidArgument),
        ("kafka://localhost", {"config": {1: 2}}, InvalidArgument),
        ("kafka://localhost/topic", {"prefix": "a."}, InvalidArgument),
        ("kafka://localhost", {"prefix": "a b."}, InvalidArgument),
        ("kafka://localhost", {"prefix": 1}, TypeError),
        ("kafka://localhost", {"key_field": 1}, TypeError),
        ("kafka://localhost", {"timeout": 0}, InvalidArgument),
    ],
)
def test_options_that_make_no_sense_are_refused(url, options, error) -> None:
    with pytest.raises(error) as refused:
        KafkaTransport(url, **options)
    assert "not-secret" not in str(refused.value)


def test_a_misspelt_option_is_told_with_the_right_one() -> None:
    with pytest.raises(UnknownOption, match="key_field"):
        KafkaTransport.from_url("kafka://localhost", key_fields="a")
