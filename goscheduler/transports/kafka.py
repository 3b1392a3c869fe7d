"""Messages into Apache Kafka, each acknowledged by every replica that is in sync.

librdkafka sends from threads of its own; one thread of ours listens to its reports. It is librdkafka that gives a
message up after ``timeout``, so that it sends nothing more of a message once ``publish`` has raised.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

from confluent_kafka import KafkaError, KafkaException, Producer

from goscheduler._urls import masked, without_secrets
from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, described, shown
from goscheduler.logs import guarded_logger
from goscheduler.plugins import require_clear_login
from goscheduler.transports._checks import check_options, check_texts, seconds, text
from goscheduler.transports.base import BaseTransport, Delivery

THREAD = "goscheduler-kafka"
#: How long after ``timeout`` a report is waited for; librdkafka looks for messages to give up once a second.
GRACE = 5.0
LISTEN_SECONDS = 0.2

_LOGGER = guarded_logger(__name__)

_URL = re.compile(r"kafka://(?P<servers>[^/?#]+)(?:/(?P<topic>[^?#]*))?(?:\?(?P<query>[^#]*))?", re.IGNORECASE)
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
#: What no other attempt would change.
_NEVER = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_EXCEPTION,
    }
)
#: Settings of librdkafka on which the promises of a transport rest, or which would take the reports away from it.
_OURS = frozenset(
    {
        "bootstrap.servers", "metadata.broker.list", "enable.idempotence", "acks", "request.required.acks",
        "message.timeout.ms", "delivery.timeout.ms", "delivery.report.only.error", "transactional.id", "error_cb",
        "logger",
    }
)  # fmt: skip
#: Settings of librdkafka that a user may change.
_DEFAULTS: Mapping[str, Any] = {
    "client.id": "goscheduler",
    "message.max.bytes": 1_048_588,  # what a broker takes by default; librdkafka would take less
    # A broker that finds a batch too large refuses all of it. A batch above this size is one large message.
    "batch.size": 65_536,
    "reconnect.backoff.max.ms": 1_000,
}


#: None for a message that is safe, or what became of it.
_Report: TypeAlias = "Future[KafkaError | Exception | None]"


class _Address(NamedTuple):
    servers: str
    topic: str
    settings: dict[str, Any]


class _Record(NamedTuple):
    """As a producer takes it."""

    topic: str
    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


class KafkaTransport(BaseTransport):
    """Publishes each message to the topic of the URL, or else to the topic ``prefix`` + event name.

    The producer is idempotent and waits for all replicas that are in sync. The key of a record is the id of its
    message, so that all occurrences and attempts are in one partition, in order. Parameters of the URL are settings of
    librdkafka; a login in it stands for SASL over TLS, unless they say otherwise.

    :param url: such as ``kafka://one:9092,two:9092/orders``
    :param key_field: the name of metadata whose value is the key, where a message has it
    :param timeout: seconds for a publishing, connecting and the brokers' acknowledgement included
    :param config: more settings of librdkafka, such as certificates, or ``oauth_cb``
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "",
        key_field: str | None = None,
        timeout: float = 10.0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._timeout = seconds("timeout", timeout)
        address = _read(url)
        self._url = url
        self._topic = address.topic
        self._prefix = _checked_prefix(prefix, address.topic)
        self._key_field = None if key_field is None else text("key_field", key_field)
        self._config = _configuration(address, dict(config or {}), self._timeout)
        self._check_configuration()
        self._lock = threading.Lock()
        self._link: _Link | None = None
        self._closed = False

    @classmethod
    def from_url(cls, url: str, **options: Any) -> KafkaTransport:
        """Return the transport for a URL such as ``kafka://localhost:9092/orders?security.protocol=SSL``."""
        check_options(cls, options, "kafka")
        return cls(url, **options)

    def start(self) -> None:
        with self._lock:
            self._closed = False

    def close(self) -> None:
        """Wait for the reports on messages that are under way, and let go of connections and threads."""
        with self._lock:
            link, self._link, self._closed = self._link, None, True
        if link is not None:
            link.close(self._timeout + GRACE)

    def publish(self, event_name: str, message: Delivery) -> None:
        problem = self.publish_many([message])[0]
        if problem is not None:
            raise problem

    def publish_many(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Send several, wait for all reports, and return for each None or what ``publish`` would have raised."""
        try:
            link = self._opened()
        except TransportUnavailable as problem:
            return [problem for _ in messages]
        reports = [self._sent(link, message) for message in messages]
        wait(reports, self._timeout + GRACE)
        return [self._outcome(link, report) for report in reports]

    def healthy(self) -> bool:
        try:
            return self._opened().answers(self._topic or None, self._timeout)
        except (KafkaException, TransportUnavailable):
            return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({shown(self._topic or self._prefix)} at {self._where})>"

    @property
    def _where(self) -> str:
        return masked(self._url).partition("?")[0]

    def _check_configuration(self) -> None:
        """Tell now about settings that make no sense; nothing is connected to."""
        unconnected = {name: value for name, value in self._config.items() if name != "bootstrap.servers"}
        try:
            Producer({**unconnected, "logger": _DriverLog()})
        except (KafkaException, TypeError, ValueError) as error:
            told = without_secrets(_text_of(error), self._url)
            raise InvalidArgument(f"librdkafka refuses a setting in url or config: {told}", field="config") from None

    def _opened(self) -> _Link:
        with self._lock:
            if self._closed:
                raise TransportUnavailable("the transport is closed")
            if self._link is not None and self._link.broken:
                self._link.leave()
                self._link = None
            if self._link is None:
                self._link = _Link(self._config, self._where)
            return self._link

    def _sent(self, link: _Link, message: Delivery) -> _Report:
        """Give a message to the producer, and return what will hold the report on it."""
        report: _Report = Future()
        try:
            link.send(self._record(message), report)
        except (MessageRejected, TransportUnavailable) as problem:
            report.set_result(problem)
        return report

    def _record(self, message: Delivery) -> _Record:
        headers = _headers(message)
        key = message.id if self._key_field is None else message.metadata.get(self._key_field, message.id)
        return _Record(self._topic_of(message), key.encode(), message.payload, headers)

    def _topic_of(self, message: Delivery) -> str:
        topic = self._topic or self._prefix + message.event_name
        if not _TOPIC.match(topic):
            raise MessageRejected(
                f"{shown(topic)} is no topic of Kafka: 1 to 249 letters of ASCII, digits, dots, underscores and hyphens"
            )
        return topic

    def _outcome(self, link: _Link, report: _Report) -> Exception | None:
        if not report.done():
            return self._unavailable(f"librdkafka has not reported within {self._timeout + GRACE:g} s")
        result = report.result()
        return self._problem(link, result) if isinstance(result, KafkaError) else result

    def _problem(self, link: _Link, error: KafkaError) -> Exception:
        if error.code() in _NEVER:
            return MessageRejected(f"Kafka at {self._where} refuses the message: {error.str()}")
        if error.code() == KafkaError._MSG_TIMED_OUT:
            return self._unavailable(f"no acknowledgement within {self._timeout:g} s{link.last_trouble()}")
        return self._unavailable(error.str())

    def _unavailable(self, why: str) -> TransportUnavailable:
        return TransportUnavailable(f"Kafka at {self._where}: {why}")


class _Link:
    """A producer, and the thread that listens to its reports. After ``broken`` it is of no use."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.broken = False
        self._where = where
        self._lock = threading.Lock()
        self._leaving = False
        self._trouble = _Trouble()
        self._producer = Producer({**config, "error_cb": self._trouble.note, "logger": _DriverLog()})
        self._thread = threading.Thread(target=self._listen, name=THREAD, daemon=True)
        self._thread.start()

    def send(self, record: _Record, report: _Report) -> None:
        """Put a message into the queue of the producer; the report follows."""
        trouble = self._trouble

        def reported(error: KafkaError | None, _: object) -> None:
            if error is None:
                trouble.forget()
            report.set_result(error)

        with self._lock:
            if self._leaving:
                raise TransportUnavailable("the producer was closed meanwhile")
            try:
                self._producer.produce(**record._asdict(), on_delivery=reported)
            except BufferError:
                report.set_result(KafkaError(KafkaError._QUEUE_FULL))
            except KafkaException as refusal:
                report.set_result(refusal.args[0])

    def answers(self, topic: str | None, within: float) -> bool:
        """Ask the brokers for the topic, or for all.

        :raises KafkaException: if none answers
        """
        topics = self._producer.list_topics(topic, within).topics
        return topic is None or topics[topic].error is None

    def last_trouble(self) -> str:
        """Return why brokers could not be reached, in brackets, or nothing."""
        return self._trouble.text

    def close(self, within: float) -> None:
        """Take no more messages, and wait for the reports on the others."""
        self.leave()
        self._thread.join(within)

    def leave(self) -> None:
        """Take no more messages; the thread ends with the last report."""
        with self._lock:
            self._leaving = True

    def _listen(self) -> None:
        while not self._leaving or len(self._producer):
            try:
                self._producer.poll(LISTEN_SECONDS)
            except Exception as error:  # fatal for the producer, or raised by a callback of the user
                self.broken = True
                _LOGGER.warning("Kafka at %s: %s. The next message gets a new producer.", self._where, _text_of(error))


class _Trouble:
    """The last error of a connection. A producer refers to this and not to its link, which would be a cycle, and keep
    the threads of both until the garbage is collected."""

    def __init__(self) -> None:
        self.text = ""

    def note(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # which does not say why
            self.text = f" ({error.str()})"

    def forget(self) -> None:
        self.text = ""


class _DriverLog:
    """Takes the log of librdkafka, which repeats in many lines what the errors of a publishing say."""

    def log(self, level: int, message: str, *arguments: object) -> None:
        _LOGGER.debug(message, *arguments)


def _headers(message: Delivery) -> list[tuple[str, bytes]]:
    check_texts(message)
    headers = message.headers()
    for name in headers:
        if "\0" in name:  # where librdkafka would end it
            raise MessageRejected(f"metadata has {shown(name)}, and a header of Kafka has no name with a null in it")
    return [(name, value.encode()) for name, value in headers.items()]


def _read(url: Any) -> _Address:
    # Not by urlsplit: it takes no brackets behind another server.
    parts = _URL.fullmatch(url) if isinstance(url, str) and url.isprintable() else None
    if parts is None:
        raise _bad_url()
    require_clear_login(url)
    query = parts["query"] or ""
    try:
        settings = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise _bad_url() from None
    login, _, servers = parts["servers"].rpartition("@")
    topic = unquote(parts["topic"] or "")
    if not servers or servers.count("[") != servers.count("]") or (topic and not _TOPIC.match(topic)):
        raise _bad_url()
    return _Address(servers, topic, {**_login(login), **settings})


def _login(login: str) -> dict[str, str]:
    user, _, password = login.partition(":")
    if not login:
        return {}
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": unquote(user),
        "sasl.password": unquote(password),
    }


def _bad_url() -> InvalidArgument:
    # The URL itself is not told: it may hold a password.
    return InvalidArgument(
        "url must be an address such as kafka://one:9092,two:9092/topic?security.protocol=SSL", field="url"
    )


def _checked_prefix(prefix: Any, topic: str) -> str:
    if text("prefix", prefix) and topic:
        raise InvalidArgument("prefix is for topics that bear the event's name, and url has a topic", field="prefix")
    if prefix and not _TOPIC.match(f"{prefix}x"):
        raise InvalidArgument(f"prefix must be the beginning of a topic, got {shown(prefix)}", field="prefix")
    return str(prefix)


def _configuration(address: _Address, config: dict[str, Any], timeout: float) -> dict[str, Any]:
    taken = sorted(_OURS & {*address.settings, *config})
    if taken:
        raise InvalidArgument(f"the transport itself sets {', '.join(taken)}; leave it out", field="config")
    milliseconds = max(2, round(timeout * 1000))
    return {
        **_DEFAULTS,
        "topic.metadata.propagation.max.ms": milliseconds // 2,  # so that a missing topic is told before the time is up
        **address.settings,
        **config,
        "bootstrap.servers": address.servers,
        "enable.idempotence": True,
        "acks": "all",
        "message.timeout.ms": milliseconds,
    }


def _text_of(error: Exception) -> str:
    return error.args[0].str() if isinstance(error, KafkaException) else described(error)
