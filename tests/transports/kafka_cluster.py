"""A Kafka broker that speaks the real protocol, and can be told to go away, to answer late and to refuse.

It is the mock cluster inside librdkafka, which has no other interface than that of C. A consumer reads what is in it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer, TopicPartition
from transport_contract import PATIENCE, Received

#: As the protocol counts requests and errors.
PRODUCE = 0
UNKNOWN_TOPIC = 3
TOO_LARGE = 10
NOT_ALLOWED = 29
OUT_OF_ORDER = 45

_PRODUCER = 0
_BROKER = 1
_NEVER_MS = 600_000


class Cluster:
    """One broker, with the verbs of a private server. It makes a topic when it is asked for one."""

    def __init__(self) -> None:
        self._library = _library()
        problem = ctypes.create_string_buffer(512)
        settings = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._library.rd_kafka_conf_set(settings, b"log_level", b"0", problem, 512)
        self._owner = ctypes.c_void_p(self._library.rd_kafka_new(_PRODUCER, settings, problem, 512))
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(self._owner, 1))
        self.servers = str(self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode())
        self.url = f"kafka://{self.servers}"

    def kill(self) -> None:
        self._library.rd_kafka_mock_broker_set_down(self._cluster, _BROKER)

    def restart(self) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, _BROKER)

    def freeze(self) -> None:
        self._library.rd_kafka_mock_broker_set_rtt(self._cluster, _BROKER, _NEVER_MS)

    def thaw(self) -> None:
        self._library.rd_kafka_mock_broker_set_rtt(self._cluster, _BROKER, 0)

    def refuse(self, request: int, error: int) -> None:
        """Answer the next request of a kind with an error."""
        errors = (ctypes.c_int * 1)(error)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(request), ctypes.c_size_t(1), errors
        )

    def refuse_topic(self, topic: str, error: int) -> None:
        """Answer questions about a topic with an error; with 0, no more."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), error)

    def records(self, topic: str) -> list[confluent_kafka.Message]:
        """Return all records of a topic; they are in order within a partition."""
        with _consumer(self.servers) as consumer:
            numbers = consumer.list_topics(topic, PATIENCE).topics[topic].partitions
            places = [TopicPartition(topic, number, 0) for number in numbers]
            ends = [consumer.get_watermark_offsets(place, PATIENCE)[1] for place in places]
            consumer.assign(places)
            return [_next(consumer) for _ in range(sum(ends))]

    def received(self, topic: str) -> list[Received]:
        return [
            Received(record.value() or b"", {name: value.decode() for name, value in record.headers() or []})
            for record in self.records(topic)
        ]

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._owner)


@contextmanager
def _consumer(servers: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "tests", "fetch.wait.max.ms": 10})
    try:
        yield consumer
    finally:
        consumer.close()


def _next(consumer: Consumer) -> confluent_kafka.Message:
    record = consumer.poll(PATIENCE)
    assert record is not None
    assert record.error() is None
    return record


def _library() -> ctypes.CDLL:
    """Return the librdkafka that confluent_kafka has loaded; a wheel brings one, a build takes that of the system."""
    package = Path(confluent_kafka.__file__).parent
    bundled = [*package.parent.glob("confluent_kafka.libs/librdkafka*"), *package.glob(".dylibs/librdkafka*")]
    library = ctypes.CDLL(str(bundled[0]) if bundled else "librdkafka.so.1")
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library
