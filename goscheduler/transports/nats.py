"""Messages into NATS JetStream, each acknowledged by the stream that keeps it.

The client is made of coroutines and lives on a thread of its own. It does not reconnect by itself, because what it
would keep meanwhile might be sent after the message was cancelled: the next publishing connects anew.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from goscheduler._urls import masked
from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, described, shown
from goscheduler.logs import guarded_logger
from goscheduler.transports._checks import check_options, check_texts, flag, quoted, seconds, text
from goscheduler.transports._loop import LoopTransport
from goscheduler.transports.base import Delivery

DUPLICATE_WINDOW = 120.0
THREAD = "goscheduler-nats"
LEAVE_WITHIN = 1.0

_LOGGER = guarded_logger(__name__)

#: What a subject cannot have: white space, wildcards, control characters, and tokens without a character.
_NO_SUBJECT = re.compile(r"[\s*>\x00-\x1f\x7f]|^\.|\.\.|\.$|^$|^\$")
_NO_STREAM_NAME = re.compile(r"[\s.*>/\\\x00-\x1f\x7f]|^$")
_HEADER_OVERHEAD = len("NATS/1.0\r\n\r\n")
_LINE_OVERHEAD = len(": \r\n")
_TOO_LARGE = 10054


class _Session(NamedTuple):
    client: Client
    stream: JetStreamContext
    lost: asyncio.Event


class NatsTransport(LoopTransport):
    """Publishes each message to the subject ``prefix`` + event name, and waits for the stream to acknowledge it.

    ``Nats-Msg-Id`` is the same on every attempt, so that JetStream drops what is published twice within the duplicate
    window of the stream. Names and values of headers are percent-encoded where they are not plain ASCII.

    :param servers: one address such as ``nats://localhost:4222``, or several
    :param stream: the stream that must take the messages; without it, whichever takes the subject
    :param create_stream: make ``stream`` if there is none, with ``subjects``, or else all that begin with ``prefix``
    :param duplicate_window: of a stream that is made, in seconds
    :param timeout: seconds for a publishing, connecting included
    :param connection: more arguments for ``nats.connect``, such as ``user_credentials`` or ``tls``
    """

    def __init__(
        self,
        servers: str | Sequence[str] = "nats://localhost:4222",
        *,
        prefix: str = "",
        stream: str | None = None,
        create_stream: bool = False,
        subjects: Sequence[str] | None = None,
        duplicate_window: float = DUPLICATE_WINDOW,
        timeout: float = 10.0,
        connection: Mapping[str, Any] | None = None,
    ) -> None:
        self._servers = [_address(server) for server in ([servers] if isinstance(servers, str) else servers)]
        self._prefix = _checked_prefix(prefix)
        self._stream = _checked_stream(stream)
        self._new_subjects = self._subjects_of_new_stream(subjects) if flag("create_stream", create_stream) else None
        self._duplicate_window = seconds("duplicate_window", duplicate_window)
        self._timeout = seconds("timeout", timeout)
        self._settings = dict(connection or {})
        super().__init__(THREAD)
        self._session: _Session | None = None
        self._connecting: asyncio.Lock | None = None

    @classmethod
    def from_url(cls, url: str, **options: Any) -> NatsTransport:
        """Return the transport for a URL such as ``nats://localhost:4222``; ``tls+nats://`` encrypts."""
        check_options(cls, options, "nats")
        return cls(url, **options)

    def _seconds_for(self, messages: Sequence[Delivery]) -> float:
        return self._timeout

    def healthy(self) -> bool:
        try:
            self._run(self._ask, self._timeout)
        except TransportUnavailable:
            return False
        return True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({shown(self._prefix)} at {self._where})>"

    @property
    def _where(self) -> str:
        return ", ".join(masked(server) for server in self._servers)

    def _subjects_of_new_stream(self, subjects: Sequence[str] | None) -> list[str]:
        if self._stream is None:
            raise InvalidArgument("create_stream needs stream, the name of the stream", field="stream")
        if isinstance(subjects, str):
            raise TypeError(f"subjects must be a list of strings, got {shown(subjects)}")
        if not subjects and not self._prefix:
            raise InvalidArgument(
                'create_stream needs subjects, such as ["orders.>"], or a prefix, such as "orders."', field="subjects"
            )
        return list(subjects or [f"{self._prefix}>"])

    # On the thread of the loop

    async def _send_all(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._timeout
        try:
            session = await asyncio.wait_for(self._connected(), self._timeout)
        except (asyncio.TimeoutError, TimeoutError):
            raise self._unavailable(f"no answer within {self._timeout:g} s") from None
        attempts = [loop.create_task(self._publish_one(session, message)) for message in messages]
        lost = loop.create_task(session.lost.wait())
        together = asyncio.gather(*attempts, return_exceptions=True)
        try:
            either: set[asyncio.Future[Any]] = {together, lost}
            await asyncio.wait(either, timeout=until - loop.time(), return_when=asyncio.FIRST_COMPLETED)
            return [self._outcome(session, attempt) for attempt in attempts]
        finally:
            lost.cancel()
            together.cancel()
            await asyncio.gather(together, lost, return_exceptions=True)
            if until <= loop.time():
                await self._leave(session)  # who does not answer in time is not asked again

    def _outcome(self, session: _Session, attempt: asyncio.Task[Exception | None]) -> Exception | None:
        if attempt.done():
            error = attempt.exception()
            return error if isinstance(error, Exception) else attempt.result()
        if session.lost.is_set():
            return self._unavailable("the connection was lost before the message was acknowledged")
        return self._unavailable(f"the message was not acknowledged within {self._timeout:g} s")

    async def _publish_one(self, session: _Session, message: Delivery) -> Exception | None:
        try:
            subject, headers = self._subject(message), _headers(message)
            _check_size(message, headers, session.client.max_payload)
            # The limit of the caller ends it sooner.
            await session.stream.publish(
                subject, message.payload, timeout=self._timeout * 2, stream=self._stream, headers=headers
            )
        except MessageRejected as refusal:
            return refusal
        except nats.js.errors.NoStreamResponseError:
            return self._unavailable(f"no stream takes the subject {shown(subject)}, or JetStream is not there")
        except nats.js.errors.APIError as error:
            if error.err_code == _TOO_LARGE:
                return MessageRejected(f"the stream does not take messages of {len(message.payload)} bytes")
            return self._unavailable(described(error))
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            return self._unavailable(described(error))
        return None

    def _subject(self, message: Delivery) -> str:
        check_texts(message)
        subject = self._prefix + message.event_name
        if _NO_SUBJECT.search(subject):
            raise MessageRejected(
                f"{shown(subject)} is no subject of NATS: white space, *, >, a dollar sign in front and empty parts "
                "between dots cannot be"
            )
        return subject

    async def _ask(self) -> None:
        try:
            session = await asyncio.wait_for(self._connected(), self._timeout)
            await asyncio.wait_for(session.client.flush(), self._timeout)
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            raise self._unavailable(described(error)) from error

    async def _connected(self) -> _Session:
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._session is None or not self._session.client.is_connected:
                await self._leave(self._session)
                self._session = await self._connect()
            return self._session

    async def _connect(self) -> _Session:
        lost = asyncio.Event()
        problems: list[Exception] = []

        async def closed() -> None:
            lost.set()

        async def failed(error: Exception) -> None:
            problems[1:] = [error]  # the first and the last: this goes on for as long as the connection

        settings = {
            "connect_timeout": self._timeout,
            "reconnect_time_wait": 0.05,
            "max_reconnect_attempts": 1,
            "name": "goscheduler",
            **self._settings,
            "allow_reconnect": False,
            "closed_cb": closed,
            "error_cb": failed,
        }
        client = Client()
        session = _Session(client, client.jetstream(timeout=self._timeout), lost)
        try:
            await client.connect(self._servers, **settings)
            await self._make_stream(session)
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as error:
            await self._leave(session)
            # The first one tells why; those that follow, that the connection has ended.
            raise self._unavailable(described(problems[0] if problems else error)) from None
        except BaseException:
            await self._leave(session)
            raise
        return session

    async def _make_stream(self, session: _Session) -> None:
        if self._new_subjects is None:
            return
        try:
            await session.stream.stream_info(str(self._stream))
        except nats.js.errors.NotFoundError:
            await session.stream.add_stream(
                name=self._stream, subjects=self._new_subjects, duplicate_window=self._duplicate_window
            )

    async def _farewell(self) -> None:
        await self._leave(self._session)
        self._connecting = None

    async def _leave(self, session: _Session | None) -> None:
        if session is None:
            return
        if self._session is session:
            self._session = None
        try:
            await asyncio.wait_for(session.client.close(), LEAVE_WITHIN)
        except (nats.errors.Error, OSError, asyncio.TimeoutError, AttributeError) as error:
            # The last one is what nats-py before 2.15 raises for a connection that was never made.
            _LOGGER.debug("A connection to NATS could not be closed in good order: %s", described(error))
        session.lost.set()

    def _unavailable(self, why: str) -> TransportUnavailable:
        return TransportUnavailable(f"NATS at {self._where}: {why}")


def _headers(message: Delivery) -> dict[str, str]:
    if "" in message.metadata:
        raise MessageRejected("metadata has an entry without a name, which no header can have")
    headers = {_header_name(name): quoted(value) for name, value in message.headers().items()}
    headers["Nats-Msg-Id"] = quoted(message.key)
    return headers


def _header_name(name: str) -> str:
    """Return a name as a header may bear it; those that mean something to the server are kept from it."""
    plain = quoted(name).replace(" ", "%20")
    for sign in '"(),/:;<=>?@[\\]{}':
        plain = plain.replace(sign, f"%{ord(sign):02X}")
    return f"%{ord(plain[0]):02X}{plain[1:]}" if plain.lower().startswith("nats-") else plain


def _check_size(message: Delivery, headers: Mapping[str, str], limit: int) -> None:
    # The server cuts the connection of who sends more, and with it everything that others have sent.
    size = sum(len(name) + len(value) + _LINE_OVERHEAD for name, value in headers.items())
    size += _HEADER_OVERHEAD + len(message.payload)
    if size > limit:
        raise MessageRejected(f"the message has {size} bytes with its headers, and the NATS server takes {limit}")


def _address(server: Any) -> str:
    if not isinstance(server, str):
        raise TypeError(f"servers must be a URL or a list of URLs, got {shown(server)}")
    address = f"tls://{server[len('tls+nats://') :]}" if server.lower().startswith("tls+nats://") else server
    if not re.match(r"(nats|tls|ws|wss)://[^\s/]", address, re.IGNORECASE) or not address.isprintable():
        # The address itself is not told: it may hold a password.
        raise InvalidArgument("servers must be addresses such as nats://localhost:4222", field="servers")
    return address


def _checked_prefix(prefix: Any) -> str:
    if text("prefix", prefix) and _NO_SUBJECT.search(f"{prefix}x"):
        raise InvalidArgument(f"prefix must be the beginning of a subject, got {shown(prefix)}", field="prefix")
    return str(prefix)


def _checked_stream(stream: Any) -> str | None:
    if stream is not None and _NO_STREAM_NAME.search(text("stream", stream)):
        raise InvalidArgument(f"stream must be a name without dots, wildcards or spaces, got {shown(stream)}",
                              field="stream", value=stream)  # fmt: skip
    return stream if stream is None else str(stream)
