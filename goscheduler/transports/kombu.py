"""Messages to RabbitMQ, and to what else Kombu speaks.

RabbitMQ confirms every message: a batch is sent in one go and then waited for. Threads do not share a connection; each
borrows one from :class:`~goscheduler.transports._kombu_link.Links` for as long as it publishes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kombu.connection import Connection

from goscheduler._urls import masked
from goscheduler.clock import SYSTEM_CLOCK, Deadline
from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, described, shown
from goscheduler.plugins import require_clear_login
from goscheduler.transports._checks import check_options, check_texts, count, flag, seconds, text
from goscheduler.transports._kombu_link import ChannelClosed, ConnectionLost, Link, Links, Routing, Unroutable
from goscheduler.transports.base import BaseTransport, Delivery

#: Bytes of a routing key, of the name of a header, and of other short texts of AMQP.
LONGEST_TEXT = 255
#: Headers travel in one frame, of 128 KiB unless the broker was told otherwise.
LONGEST_HEADERS = 120_000
POOL_SIZE = 8
EXCHANGE_TYPES = ("direct", "topic", "fanout", "headers")
_OVERHEAD = 6


class KombuTransport(BaseTransport):
    """Publishes each message, persistently, with the event name as the routing key.

    Without ``exchange`` a message goes into the queue that bears the event's name. With one, it goes to whatever queues
    are bound to that exchange; if there are none, it is rejected and so becomes a dead letter.

    :param exchange: the name of the exchange; the default one if empty
    :param exchange_type: of an exchange that is made
    :param declare: make the exchange or the queue, durable, where there is none
    :param queue_arguments: for queues that are made, such as ``{"x-queue-type": "quorum"}``
    :param pool_size: how many connections there are at most, one for each thread that publishes at the same time
    :param timeout: seconds for a publishing, connecting and the broker's confirmation included
    :param ssl: as Kombu takes it, for certificates of your own; ``amqps://`` alone encrypts
    :param transport_options: for Kombu's transport
    """

    def __init__(
        self,
        url: str,
        *,
        exchange: str = "",
        exchange_type: str = "topic",
        declare: bool = True,
        queue_arguments: Mapping[str, Any] | None = None,
        pool_size: int = POOL_SIZE,
        timeout: float = 10.0,
        ssl: Any = None,
        transport_options: Mapping[str, Any] | None = None,
    ) -> None:
        if exchange_type not in EXCHANGE_TYPES:
            raise InvalidArgument(
                f"exchange_type must be one of {', '.join(EXCHANGE_TYPES)}, got {shown(exchange_type)}",
                field="exchange_type",
                value=exchange_type,
            )
        if len(text("exchange", exchange).encode()) > LONGEST_TEXT:
            raise InvalidArgument(f"exchange must have at most {LONGEST_TEXT} bytes", field="exchange")
        self._timeout = seconds("timeout", timeout)
        self._routing = Routing(exchange, exchange_type, flag("declare", declare), dict(queue_arguments or {}))
        self._settings: dict[str, Any] = {"ssl": ssl} if ssl is not None else {}
        self._options = dict(transport_options or {})
        self._url = url
        self._connection()  # so that an address that makes no sense is told now
        self._links = Links(self._connect, count("pool_size", pool_size))

    @classmethod
    def from_url(cls, url: str, **options: Any) -> KombuTransport:
        """Return the transport for a URL such as ``amqp://user:password@localhost:5672/%2F``."""
        check_options(cls, options, "amqp")
        return cls(url, **options)

    def start(self) -> None:
        self._links.open()

    def close(self) -> None:
        """Close the connections; those in use when they are given back."""
        self._links.close(Deadline(SYSTEM_CLOCK, self._timeout))

    def publish(self, event_name: str, message: Delivery) -> None:
        problem = self.publish_many([message])[0]
        if problem is not None:
            raise problem

    def publish_many(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Send several, wait for all confirmations, and return for each None or what ``publish`` would have raised."""
        refusals = [_refusal(message) for message in messages]
        sendable = [message for message, refusal in zip(messages, refusals, strict=True) if refusal is None]
        outcomes = iter(self._deliver(sendable, Deadline(SYSTEM_CLOCK, self._timeout)))
        return [refusal or next(outcomes) for refusal in refusals]

    def healthy(self) -> bool:
        try:
            with self._links.lent(Deadline(SYSTEM_CLOCK, self._timeout)) as link:
                return link.alive()
        except TransportUnavailable:
            return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({shown(self._routing.exchange)} at {self._address})>"

    def _deliver(self, messages: Sequence[Delivery], deadline: Deadline) -> list[Exception | None]:
        """Send, and once more what a connection that had gone stale, or a queue that had been deleted, has kept."""
        outcomes = self._send(messages, deadline)
        again = [number for number, outcome in enumerate(outcomes) if self._is_worth_another(outcome)]
        if not again or not deadline.left():
            return outcomes
        batches = [[number] for number in again] if _has_closed_channel(outcomes) else [again]
        for batch in batches:
            repeated = self._send([messages[number] for number in batch], deadline)
            for number, outcome in zip(batch, repeated, strict=True):
                outcomes[number] = outcome
        return outcomes

    def _is_worth_another(self, outcome: Exception | None) -> bool:
        if isinstance(outcome, Unroutable):
            return self._routing.exchange == "" and self._routing.declare
        return isinstance(outcome, (ConnectionLost, ChannelClosed))

    def _send(self, messages: Sequence[Delivery], deadline: Deadline) -> list[Exception | None]:
        if not messages:
            return []
        try:
            with self._links.lent(deadline) as link:
                return link.send(messages, deadline)
        except TransportUnavailable as problem:
            return [problem for _ in messages]

    def _connect(self, deadline: Deadline) -> Link:
        connection = self._connection()
        try:
            connection.ensure_connection(
                max_retries=len(connection.alt), interval_start=0, interval_step=0, interval_max=0,
                timeout=deadline.left(at_least=0.1),
            )  # fmt: skip
            return Link(connection, self._routing, self._address)
        except Exception as error:
            connection.collect()
            raise TransportUnavailable(f"no broker answers at {self._address}: {described(error)}") from error

    def _connection(self) -> Any:
        limits = {"connect_timeout": self._timeout, "read_timeout": self._timeout, "write_timeout": self._timeout}
        amqp = isinstance(self._url, str) and self._url.lower().startswith(("amqp", "pyamqp"))
        options = {**(limits if amqp else {}), **self._options}
        for each in str(self._url).split(";"):  # of several brokers
            require_clear_login(each)
        try:
            settings = {"connect_timeout": self._timeout, "transport_options": options, **self._settings}
            connection = Connection(self._url, **settings)  # type: ignore[no-untyped-call]
            connection.transport  # noqa: B018 - imports what the scheme names
        except ImportError:
            raise
        except Exception:
            # The address itself is not told: it may hold a password.
            raise InvalidArgument(
                "url must be an address that Kombu knows, such as amqp://localhost:5672/%2F", field="url"
            ) from None
        return connection

    @property
    def _address(self) -> str:
        return masked(str(self._connection().as_uri(mask="***")))


def _refusal(message: Delivery) -> MessageRejected | None:
    try:
        check_texts(message)
    except MessageRejected as refusal:
        return refusal
    size = sum(len(name.encode()) + len(value.encode()) + _OVERHEAD for name, value in message.headers().items())
    if size > LONGEST_HEADERS:
        # The broker would cut the connection, and with it everything that others have sent.
        return MessageRejected(f"metadata has about {size} bytes, and AMQP carries {LONGEST_HEADERS} beside a payload")
    names = {"event_name": message.event_name, "content_type": message.content_type}
    names.update({f"the name of metadata {shown(name)}": name for name in message.metadata})
    for what, value in names.items():
        if len(value.encode()) > LONGEST_TEXT:
            return MessageRejected(f"{what} has more than the {LONGEST_TEXT} bytes of AMQP: {shown(value)}")
    return None


def _has_closed_channel(outcomes: Sequence[Exception | None]) -> bool:
    return any(isinstance(outcome, ChannelClosed) for outcome in outcomes)
