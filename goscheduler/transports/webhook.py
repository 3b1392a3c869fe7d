"""Messages to an HTTP server, one POST for each, signed in the manner of Standard Webhooks.

That signature covers id, timestamp and body. A second one, of our own, covers the headers too that say what the message
is, such as the name of its event and its metadata.

The address is resolved and checked before each request, and the connection goes to the address that was checked, so
that a name that changes its mind in between does not lead into a private network.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote

import httpx

from goscheduler.clock import SYSTEM_CLOCK, Clock
from goscheduler.errors import InvalidArgument, MessageRejected, TransportUnavailable, described, shown
from goscheduler.transports._addresses import checked_addresses, is_public
from goscheduler.transports._checks import check_options, check_texts, count, flag, quoted, seconds
from goscheduler.transports._loop import LoopTransport
from goscheduler.transports.base import Delivery

THREAD = "goscheduler-webhook"
MOST_REDIRECTS = 5
#: How much of an answer is read, so that its connection can be used again; more is cut off.
LONGEST_ANSWER = 64 * 1024
#: A receiver cannot put a message off for longer than this.
LONGEST_RETRY_AFTER = 3600.0
EVENT_NAME = "{event_name}"
#: The headers that the signature of our own covers, in the order in which they are signed.
SIGNED_HEADERS = (
    "content-type", "goscheduler-attempt", "goscheduler-event-name", "goscheduler-metadata", "goscheduler-occurrence",
    "goscheduler-scheduled-at", "goscheduler-scheduled-message-id", "webhook-id", "webhook-timestamp",
)  # fmt: skip

#: What a message is, beside its metadata, which may have keys of the same names.
_TOLD = ("scheduled_message_id", "scheduled_at", "event_name", "attempt", "occurrence")
#: Metadata that are headers of their own too, by which servers go on with a trace.
_TRACE_CONTEXT = ("traceparent", "tracestate")
_SECRET_PREFIX = "whsec_"
_NOT_YOURS = ("host", "content-length", "transfer-encoding", "connection")
#: Answers of the class "your fault" that may still be different the next time.
_WORTH_ANOTHER = (408, 425, 429)
#: The redirects that ask for the same request again.
_SAME_REQUEST = (307, 308)


class WebhookTransport(LoopTransport):
    """Posts the payload of each message to ``url``; an answer of 2xx says that it was taken.

    :param url: where to; ``{event_name}`` in its path or query is replaced
    :param secret: the key of the signature: ``whsec_`` and base64, or any text or bytes. Several, as a list, sign side
        by side while one replaces the other. Without one nothing is signed
    :param headers: more headers for each request, such as ``Authorization``
    :param timeout: seconds for a request, from the look-up of the name to the end of the answer
    :param allow_private: also post to addresses of this machine and of private networks
    :param follow_redirects: go where an answer of 307 or 308 points to, under the same rules
    :param max_connections: how many requests of a batch run at the same time
    :param verify: False, or an ``ssl.SSLContext`` with certificates of your own
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | bytes | Sequence[str | bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        allow_private: bool = False,
        follow_redirects: bool = False,
        max_connections: int = 20,
        verify: Any = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._allow_private = flag("allow_private", allow_private)
        self._url, login = self._checked_url(url)
        self._keys = _keys(secret)
        self._headers = {**login, **_checked_headers(headers or {})}
        self._timeout = seconds("timeout", timeout)
        self._redirects = MOST_REDIRECTS if flag("follow_redirects", follow_redirects) else 0
        self._room = count("max_connections", max_connections)
        self._verify = verify
        self._clock = clock
        super().__init__(THREAD)
        self._connections: httpx.AsyncHTTPTransport | None = None

    @classmethod
    def from_url(cls, url: str, **options: Any) -> WebhookTransport:
        """Return the transport for a URL such as ``https://example.com/hooks``."""
        check_options(cls, options, "https")
        return cls(url, **options)

    def _seconds_for(self, messages: Sequence[Delivery]) -> float:
        return self._timeout * max(1, -(-len(messages) // self._room))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} ({self._where})>"

    @property
    def _where(self) -> str:
        """The server. Path and query are not told: they may be secrets too."""
        url = httpx.URL(self._url.replace(EVENT_NAME, "x"))
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    def _checked_url(self, url: Any) -> tuple[str, dict[str, str]]:
        """Return the URL without user name and password, and the header that says them."""
        try:
            place = re.split("[/?#]", url.partition("://")[2])[0]
            parsed = httpx.URL(url.replace(EVENT_NAME, "x"))
            sound = parsed.scheme in ("http", "https") and parsed.host and EVENT_NAME not in place
        except (AttributeError, TypeError, httpx.InvalidURL):
            sound = False
        if not sound:
            # The address itself is not told: it may hold a password.
            raise InvalidArgument("url must be an address such as https://example.com/hooks", field="url")
        if not self._allow_private and _is_private_number(parsed.host):
            raise InvalidArgument(
                f"url: {parsed.host} is not a public address; allow_private=True would allow it", field="url"
            )
        login, at, _ = place.rpartition("@")
        if not at:
            return str(url), {}
        encoded = base64.b64encode(unquote(login).encode()).decode("ascii")
        return str(url).replace(f"{login}@", "", 1), {"authorization": f"Basic {encoded}"}

    # On the thread of the loop

    async def _send_all(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        places = asyncio.Semaphore(self._room)

        async def post(message: Delivery) -> Exception | None:
            async with places:
                return await self._attempt_post(message)

        return list(await asyncio.gather(*(post(message) for message in messages)))

    async def _attempt_post(self, message: Delivery) -> Exception | None:
        try:
            await asyncio.wait_for(self._post(message), self._timeout)
        except (asyncio.TimeoutError, httpx.TimeoutException):
            return TransportUnavailable(f"{self._where} did not answer within {self._timeout:g} s")
        except (httpx.HTTPError, OSError) as error:
            if isinstance(error, TransportUnavailable):
                return error
            return TransportUnavailable(f"{self._where} cannot be reached: {described(error)}")
        except Exception as error:
            return error
        return None

    async def _post(self, message: Delivery) -> None:
        check_texts(message)
        url = self._url_for(message)
        headers = {**self._headers, **self._headers_for(message)}
        for _ in range(self._redirects + 1):
            status, answered = await self._send(url, headers, message.payload)
            if not self._redirects or status not in _SAME_REQUEST or "location" not in answered:
                break
            headers, url = self._redirected(headers, url, answered["location"])
        self._judge(status, answered)

    async def _send(self, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> tuple[int, httpx.Headers]:
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await checked_addresses(_host(url), port, self._allow_private)
        unreachable: httpx.ConnectError | None = None
        for address in addresses:
            try:
                return await self._send_to(address, url, headers, body)
            except httpx.ConnectError as error:
                unreachable = error
        raise unreachable or TransportUnavailable(f"the name {shown(url.host)} has no address")

    async def _send_to(
        self, address: str, url: httpx.URL, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, httpx.Headers]:
        request = httpx.Request(
            "POST",
            url.copy_with(host=address),
            content=body,
            headers={**headers, "host": url.netloc.decode("ascii")},
            extensions={
                "sni_hostname": _host(url),  # the certificate is that of the name, not of the number
                "timeout": httpx.Timeout(self._timeout).as_dict(),
            },
        )
        if url.host == httpx.URL(self._url.replace(EVENT_NAME, "x")).host:
            return await _exchange(self._kept(), request)
        # Connections are kept by number; one that was made for another name is not to be used for this one.
        async with self._new_connections() as connections:
            return await _exchange(connections, request)

    def _kept(self) -> httpx.AsyncHTTPTransport:
        if self._connections is None:
            self._connections = self._new_connections()
        return self._connections

    def _new_connections(self) -> httpx.AsyncHTTPTransport:
        # Not a client of httpx: it would follow the environment to a proxy, and log the whole URL.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self._room)
        return httpx.AsyncHTTPTransport(verify=self._verify, limits=limits, trust_env=False)

    async def _farewell(self) -> None:
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.aclose()

    def _url_for(self, message: Delivery) -> httpx.URL:
        if EVENT_NAME not in self._url:
            return httpx.URL(self._url)
        if message.event_name.strip(".") == "":
            raise MessageRejected(f"the event name {shown(message.event_name)} cannot be part of a path")
        return httpx.URL(self._url.replace(EVENT_NAME, quote(message.event_name, safe="")))

    def _headers_for(self, message: Delivery) -> dict[str, str]:
        key, sent = quoted(message.key), str(int(self._clock.now().timestamp()))
        headers = {
            "content-type": quoted(message.content_type),
            "user-agent": "goscheduler",
            "webhook-id": key,
            "webhook-timestamp": sent,
            "goscheduler-metadata": json.dumps(dict(message.metadata), sort_keys=True),
        }
        for name in _TRACE_CONTEXT:
            if name in message.metadata:
                headers[name] = quoted(message.metadata[name])
        told = message.headers()
        for name in _TOLD:
            headers[f"goscheduler-{name.replace('_', '-')}"] = quoted(told[name])
        if self._keys:
            signed = f"{key}.{sent}.".encode() + message.payload
            headers["webhook-signature"] = self._signatures(signed)
            lines = "".join(f"{name}: {headers[name]}\n" for name in SIGNED_HEADERS)
            headers["goscheduler-signature"] = self._signatures(f"{lines}\n".encode() + message.payload)
        return headers

    def _signatures(self, signed: bytes) -> str:
        return " ".join(_signature(secret, signed) for secret in self._keys)

    def _redirected(self, headers: Mapping[str, str], url: httpx.URL, target: str) -> tuple[dict[str, str], httpx.URL]:
        """Return what to send to where an answer has pointed; headers of the user stay with whom they are meant for."""
        try:
            there = url.join(target)
        except httpx.InvalidURL:
            raise TransportUnavailable("the redirect leads to an invalid address") from None
        if there.scheme != "https" and (there.scheme != "http" or url.scheme == "https"):
            raise MessageRejected("the redirect leads from https to something else, and is not followed")
        if (there.scheme, there.host, there.port) == (url.scheme, url.host, url.port):
            return dict(headers), there
        return {name: value for name, value in headers.items() if name not in self._headers}, there

    def _judge(self, status: int, answered: httpx.Headers) -> None:
        if 200 <= status < 300:
            return
        told = f"{self._where} answered {status}"
        if 400 <= status < 500 and status not in _WORTH_ANOTHER:
            raise MessageRejected(told)
        raise TransportUnavailable(told, retry_after=_retry_after(answered, self._clock.now()))


async def _exchange(connections: httpx.AsyncHTTPTransport, request: httpx.Request) -> tuple[int, httpx.Headers]:
    response = await connections.handle_async_request(request)
    read = 0
    try:
        async for chunk in response.aiter_raw():
            read += len(chunk)
            if read > LONGEST_ANSWER:
                break
    finally:
        await response.aclose()
    return response.status_code, response.headers


def _host(url: httpx.URL) -> str:
    """Return the name as the network knows it, in ASCII."""
    return url.raw_host.decode("ascii")


def _signature(key: bytes, signed: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode('ascii')}"


def _retry_after(answered: httpx.Headers, now: datetime) -> float | None:
    """Return the seconds that an answer asks to wait, given as a number or as a date."""
    value = answered.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), LONGEST_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return min(max(0.0, (aware - now).total_seconds()), LONGEST_RETRY_AFTER)


def _keys(secret: Any) -> list[bytes]:
    if secret is None:
        return []
    if not isinstance(secret, (str, bytes, list, tuple)):
        raise TypeError(f"secret must be a string, bytes or a list of them, got {type(secret).__name__}")
    if not secret:
        raise InvalidArgument("secret must not be empty; leave it out to sign nothing", field="secret")
    return [_key(one) for one in ([secret] if isinstance(secret, (str, bytes)) else secret)]


def _key(secret: Any) -> bytes:
    # Secrets are in no message of an error.
    if not isinstance(secret, (str, bytes)):
        raise TypeError(f"secret must be a string or bytes, got {type(secret).__name__}")
    if not secret:
        raise InvalidArgument("secret must not be empty", field="secret")
    if isinstance(secret, bytes):
        return secret
    if not secret.startswith(_SECRET_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("secret: what follows whsec_ must be base64", field="secret") from None


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    checked = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers must be strings, got {shown(name)}")
        if not name.isascii() or not name.isprintable() or not value.isascii() or not value.isprintable():
            raise InvalidArgument(f"headers: {shown(name)} must be printable ASCII", field="headers", value=name)
        if name.lower() in _NOT_YOURS:
            raise InvalidArgument(f"headers: {name} is set by the transport", field="headers", value=name)
        checked[name.lower()] = value
    return checked


def _is_private_number(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:
        return False  # a name; where it leads is looked up for each request
