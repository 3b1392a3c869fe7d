"""Messages into Redis Streams: one entry of the stream that bears the event's name, for each message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

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
        self._client: Any = _connect(url, seconds("timeout", timeout)) if client is None else client

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
            self._client.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({shown(self._prefix)} at {self._address})>"

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
            problem = TransportUnavailable(f"Redis at {self._address} did not take the message: {described(error)}")
        problem.__cause__ = error
        return problem

    @property
    def _address(self) -> str:
        settings = getattr(getattr(self._client, "connection_pool", None), "connection_kwargs", {})
        if "path" in settings:
            return str(settings["path"])
        return f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}/{settings.get('db', 0)}"


def _connect(url: str | None, timeout: float) -> Any:
    # Nothing is sent twice by the client: what was sent and not answered may have been added.
    once = Retry(NoBackoff(), 0)
    settings = {"socket_connect_timeout": timeout, "socket_timeout": timeout, "socket_keepalive": True, "retry": once}
    try:
        return redis.Redis.from_url(str(url), **settings, decode_responses=False)
    except (ValueError, TypeError):
        # The address itself is not told: it may hold a password.
        raise InvalidArgument("url must be an address such as redis://localhost:6379/0", field="url") from None
