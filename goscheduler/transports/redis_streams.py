"""Messages into Redis Streams: one entry of the stream that bears the event's name, for each message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from goscheduler._drivers.redis import address_of, close_client, forget_connections, make_client
from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, described, shown
from goscheduler.transports._checks import check_options, check_texts, count, flag, seconds, text
from goscheduler.transports.base import BaseTransport, Delivery


class RedisStreamsTransport(BaseTransport):
    """Adds each message to the stream ``prefix`` + event name with ``XADD``.

    The fields of an entry are the message's headers, and the payload as it is in ``payload_field``. Give ``url`` or a
    ``client``; a client of yours is not closed.

    :param maxlen: about how many entries a stream keeps; older ones go. All of them, if nothing is said
    :param approximate: with False exactly ``maxlen`` are kept, which costs more
    :param timeout: seconds within which the server must answer
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Any = None,
        prefix: str = "",
        payload_field: str = "payload",
        maxlen: int | None = None,
        approximate: bool = True,
        timeout: float = 10.0,
    ) -> None:
        if (url is None) == (client is None):
            raise InvalidArgument("give either url or client", field="url")
        self._prefix = text("prefix", prefix)
        self._payload_field = text("payload_field", payload_field)
        self._maxlen = None if maxlen is None else count("maxlen", maxlen)
        self._approximate = flag("approximate", approximate)
        self._own = client is None
        within = seconds("timeout", timeout)
        deadlines = {"socket_connect_timeout": within, "socket_timeout": within}
        self._client: Any = make_client(str(url), deadlines) if client is None else client

    @classmethod
    def from_url(cls, url: str, **options: Any) -> RedisStreamsTransport:
        """Return the transport for a URL such as ``redis://localhost:6379/0``."""
        check_options(cls, options, "redis")
        return cls(url, **options)

    def publish(self, event_name: str, message: Delivery) -> None:
        problem = self.publish_many([message])[0]
        if problem is not None:
            raise problem

    def publish_many(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Publish several in one round trip, and return for each None or what ``publish`` would have raised."""
        refusals = [self._refusal(message) for message in messages]
        answers = iter(self._add([message for message, no in zip(messages, refusals, strict=True) if no is None]))
        return [refusal or next(answers) for refusal in refusals]

    def healthy(self) -> bool:
        try:
            return bool(self._client.ping())
        except redis.RedisError:
            return False

    def close(self) -> None:
        """Close the connections, if they are the transport's own; publishing again would open new ones."""
        if self._own:
            close_client(self._client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({shown(self._prefix)} at {address_of(self._client)})>"

    def _refusal(self, message: Delivery) -> Exception | None:
        try:
            check_texts(message)
        except MessageRejected as refusal:
            return refusal
        if self._payload_field in message.headers():
            return MessageRejected(
                f"metadata has {shown(self._payload_field)}, which is the field of the payload; rename it, or choose "
                "another payload_field"
            )
        return None

    def _add(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for message in messages:
                    pipeline.xadd(
                        self._prefix + message.event_name,
                        {**message.headers(), self._payload_field: message.payload},
                        maxlen=self._maxlen,
                        approximate=self._approximate,
                    )
                answers = pipeline.execute(raise_on_error=False)
        except redis.RedisError as error:
            return [self._problem(error) for _ in messages]
        return [self._problem(answer) if isinstance(answer, Exception) else None for answer in answers]

    def _problem(self, error: Exception) -> Exception:
        problem: Exception
        if isinstance(error, redis.ResponseError) and str(error).startswith("WRONGTYPE"):
            problem = MessageRejected(f"the key of the stream holds something else: {described(error)}")
        else:
            if isinstance(error, redis.ReadOnlyError):
                forget_connections(self._client)
            address = address_of(self._client)
            problem = TransportUnavailable(f"Redis at {address} did not take the message: {described(error)}")
        problem.__cause__ = error
        return problem
