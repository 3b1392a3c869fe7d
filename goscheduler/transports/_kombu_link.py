"""Connections of the Kombu transport: one thread at a time uses one, and knows what the broker has confirmed."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, LifoQueue
from typing import Any, NamedTuple

from kombu.exceptions import ChannelError

from goscheduler.clock import Deadline
from goscheduler.errors import MessageRejected, TransportUnavailable, described, shown
from goscheduler.transports.base import Delivery

#: After this many names it is asked anew which queues there are.
MOST_KNOWN = 10_000
LONGEST_ID = 255
_NOT_FOUND = 404
_PERSISTENT = 2


class Unroutable(MessageRejected):
    """The broker has no queue for the message."""


class ConnectionLost(TransportUnavailable):
    """The connection ended before the broker confirmed the message."""


class ChannelClosed(TransportUnavailable):
    """The broker closed the channel because of one of the messages that were sent together."""


class Routing(NamedTuple):
    """Where messages go, and what is made for them."""

    exchange: str
    exchange_type: str
    declare: bool
    queue_arguments: Mapping[str, Any]


class Link:
    """One connection and its channel. After ``broken`` it is of no use."""

    def __init__(self, connection: Any, routing: Routing, address: str) -> None:
        self.broken = False
        self._connection = connection
        self._routing = routing
        self._address = address
        self._known: set[str] = set()
        self._channel = connection.channel()
        #: Others than RabbitMQ have taken a message when the call returns.
        self._confirms = connection.transport.driver_name == "py-amqp"
        self._sent = 0
        self._unconfirmed: set[int] = set()
        self._refused: set[int] = set()
        self._returned: dict[str, str] = {}
        if self._confirms:
            self._channel.confirm_select()
            self._channel.events["basic_ack"].add(self._on_ack)
            self._channel.events["basic_nack"].add(self._on_nack)
            self._channel.events["basic_return"].add(self._on_return)

    def send(self, messages: Sequence[Delivery], deadline: Deadline) -> list[Exception | None]:
        """Publish, wait for confirmation, and return for each message None or what is wrong with it. Does not raise."""
        self._refused.clear()
        self._returned.clear()
        numbers: list[int | Exception] = []
        trouble: Exception | None = None
        try:
            for message in messages:
                numbers.append(self._publish(message))
            self._await_confirmations(deadline)
        except Exception as error:
            self.broken = True
            trouble = self._trouble(error, alone=len(messages) == 1)
        return [
            self._outcome(message, numbers[place] if place < len(numbers) else None, trouble)
            for place, message in enumerate(messages)
        ]

    def alive(self) -> bool:
        """Ask the broker something."""
        try:
            with self._connection.channel():
                return bool(self._connection.connected)
        except Exception:
            self.broken = True
            return False

    def close(self, orderly: bool) -> None:
        if orderly and not self.broken:
            self._connection.release()
        else:
            self._connection.collect()

    def _publish(self, message: Delivery) -> int | Exception:
        """Return the number under which the broker will confirm the message."""
        try:
            self._make_way(message.event_name)
        except MessageRejected as refusal:
            return refusal
        prepared = self._channel.prepare_message(
            message.payload,
            content_type=message.content_type,
            content_encoding="binary",
            headers=message.headers(),
            properties={
                "delivery_mode": _PERSISTENT,
                "message_id": _short_id(message),
                "type": message.event_name,
                "app_id": "goscheduler",
            },
        )
        options = {"mandatory": True} if self._confirms else {}
        self._channel.basic_publish(
            prepared, exchange=self._routing.exchange, routing_key=message.event_name, **options
        )
        self._sent += 1
        if self._confirms:
            self._unconfirmed.add(self._sent)
        return self._sent

    def _make_way(self, event_name: str) -> None:
        """Make sure that there is an exchange, or a queue, unless that is the user's."""
        routing = self._routing
        name = routing.exchange or event_name
        if not routing.declare or name in self._known:
            return
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        try:
            self._declare(name)
        except ChannelError as error:
            raise MessageRejected(f"{shown(name)} cannot be made at {self._address}: {described(error)}") from error
        self._known.add(name)

    def _declare(self, name: str) -> None:
        # Asked first: what the user has made with other settings is used as it is. A no costs the channel.
        if self._exists(name):
            return
        with self._connection.channel() as channel:
            if self._routing.exchange:
                channel.exchange_declare(name, self._routing.exchange_type, durable=True, auto_delete=False)
            else:
                arguments = dict(self._routing.queue_arguments)
                channel.queue_declare(name, durable=True, exclusive=False, auto_delete=False, arguments=arguments)

    def _exists(self, name: str) -> bool:
        try:
            with self._connection.channel() as channel:
                if self._routing.exchange:
                    channel.exchange_declare(name, self._routing.exchange_type, passive=True)
                else:
                    channel.queue_declare(name, passive=True)
        except ChannelError as error:
            if str(error.reply_code) == str(_NOT_FOUND):
                return False
            raise
        return True

    def _await_confirmations(self, deadline: Deadline) -> None:
        while self._unconfirmed:
            left = deadline.left()
            if left == 0:
                raise TimeoutError("the broker did not confirm in time")
            self._connection.drain_events(timeout=left)

    def _outcome(
        self, message: Delivery, number: int | Exception | None, trouble: Exception | None
    ) -> Exception | None:
        if isinstance(number, Exception):
            return number
        if number is None or number in self._unconfirmed:
            return trouble
        if number in self._refused:
            return TransportUnavailable(f"the broker at {self._address} refused the message; is a queue full?")
        reason = self._returned.get(_short_id(message))
        if reason is None:
            return None
        self._known.discard(message.event_name)
        return Unroutable(f"no queue takes {shown(message.event_name)} from exchange "
                          f"{shown(self._routing.exchange)} at {self._address}: {reason}")  # fmt: skip

    def _trouble(self, error: Exception, alone: bool) -> Exception:
        kind = TransportUnavailable if alone else ChannelClosed
        if not isinstance(error, ChannelError):
            kind = ConnectionLost
        problem = kind(f"the broker at {self._address} did not take the message: {described(error)}")
        problem.__cause__ = error
        return problem

    # Called while events are drained

    def _on_ack(self, number: int, multiple: bool) -> None:
        self._unconfirmed -= self._meant(number, multiple)

    def _on_nack(self, number: int, multiple: bool) -> None:
        meant = self._meant(number, multiple)
        self._refused |= meant
        self._unconfirmed -= meant

    def _on_return(self, error: Exception, exchange: str, routing_key: str, message: Any) -> None:
        self._returned[str(message.properties.get("message_id"))] = described(error)

    def _meant(self, number: int, multiple: bool) -> set[int]:
        return {one for one in self._unconfirmed if one <= number} if multiple else {number}


class Links:
    """At most ``size`` links, made when they are needed."""

    def __init__(self, connect: Callable[[Deadline], Link], size: int) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._closed = False
        #: A place without a link is one that may be made.
        self._places: LifoQueue[Link | None] = LifoQueue()
        for _ in range(size):
            self._places.put(None)

    @contextmanager
    def lent(self, deadline: Deadline) -> Iterator[Link]:
        """Lend a link that nobody else uses meanwhile.

        :raises TransportUnavailable: if there is none in time, or no broker answers
        """
        link = self._take(deadline)
        try:
            yield link
        except BaseException:
            link.broken = True
            raise
        finally:
            self._give_back(link)

    def open(self) -> None:
        """Lend links again after ``close``."""
        with self._lock:
            self._closed = False

    def close(self, deadline: Deadline) -> None:
        """Close what nobody uses, and lend no more; in good order only as long as the deadline lets it."""
        with self._lock:
            self._closed = True
        self._close_idle(deadline)

    def _take(self, deadline: Deadline) -> Link:
        if self._closed:
            raise TransportUnavailable("the transport is closed")
        try:
            link = self._places.get(timeout=deadline.left())
        except Empty:
            raise TransportUnavailable("all connections to the broker are in use; pool_size allows no more") from None
        if link is not None:
            return link
        try:
            return self._connect(deadline)
        except BaseException:
            self._places.put(None)
            raise

    def _give_back(self, link: Link) -> None:
        with self._lock:
            useless = link.broken or self._closed
            self._places.put(None if useless else link)
        if useless:
            link.close(orderly=not link.broken)
        if link.broken:
            self._close_idle(None)  # the others were connected to the same broker

    def _close_idle(self, deadline: Deadline | None) -> None:
        for link in self._emptied():
            if link is not None:
                link.close(orderly=deadline is not None and bool(deadline.left()))

    def _emptied(self) -> list[Link | None]:
        """Take what nobody uses out of its places."""
        idle: list[Link | None] = []
        with suppress(Empty):
            while True:
                idle.append(self._places.get_nowait())
        for _ in idle:
            self._places.put(None)
        return idle


def _short_id(message: Delivery) -> str:
    """Return the key of a message, or what stands for it if it is too long for AMQP."""
    key = message.key
    return key if len(key.encode()) <= LONGEST_ID else hashlib.sha256(key.encode()).hexdigest()
