"""Where notices go: a signed webhook, Slack and what is compatible with it, PagerDuty, e-mail, a function.

A channel is made of a URL, whose scheme says of which kind it is. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

from goscheduler.alerts.model import Notice, NoticeKind
from goscheduler.errors import InvalidArgument, UnknownOption, shown
from goscheduler.transports.base import Delivery

if TYPE_CHECKING:
    from goscheduler.transports.webhook import WebhookTransport

PAGERDUTY_HOST = "events.pagerduty.com"
PAGERDUTY_PATH = "/v2/enqueue"
LONGEST_SUMMARY = 1024
SLACK = "slack+"
#: Seconds that a receiver has: notices are claimed for thirty.
TIMEOUT = 8.0
#: Options of the channels that are asked over HTTP.
HTTP_OPTIONS = ("secret", "headers", "allow_private", "timeout")


@runtime_checkable
class Channel(Protocol):
    """Takes notices to people."""

    def send(self, notice: Notice) -> None:
        """Return when the notice was taken.

        :raises Exception: if it was not: it is tried again
        """

    def close(self) -> None:
        """Let go of connections."""


class FunctionChannel:
    """Calls a function with each notice."""

    def __init__(self, function: Callable[[Notice], object]) -> None:
        self._function = function

    def send(self, notice: Notice) -> None:
        self._function(notice)

    def close(self) -> None:
        """There is nothing to let go of."""


class WebhookChannel:
    """Posts the notice as JSON, signed in the manner of Standard Webhooks if there is a ``secret``.

    ``webhook-id`` is the same for every repetition of a notice. The address is resolved and checked before each
    request: one of this machine or of a private network needs ``allow_private``.
    """

    def __init__(self, url: str, **options: Any) -> None:
        from goscheduler.transports.webhook import WebhookTransport  # its client is an extra

        self._transport: WebhookTransport = WebhookTransport(url, **{"timeout": TIMEOUT, **options})
        self._transport.start()

    def send(self, notice: Notice) -> None:
        self.post(notice.id, f"alert.{notice.kind.value}", self.body(notice), notice)

    def body(self, notice: Notice) -> Mapping[str, Any]:
        """Return what is posted."""
        return notice.as_json()

    def post(self, id: str, event: str, body: Mapping[str, Any], notice: Notice) -> None:
        """Post a body."""
        payload = json.dumps(body).encode("utf-8")
        self._transport.publish(event, Delivery(id, event, payload, "application/json", notice.at))

    def close(self) -> None:
        self._transport.close()


class SlackChannel(WebhookChannel):
    """Posts the notice as text to an incoming webhook of Slack, Mattermost, Rocket.Chat, Discord (``/slack``)."""

    def body(self, notice: Notice) -> Mapping[str, Any]:
        text = notice.text
        for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(character, entity)
        return {"text": text}


class PagerDutyChannel(WebhookChannel):
    """Triggers and resolves incidents by the Events API v2 of PagerDuty."""

    def __init__(self, routing_key: str, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._routing_key = routing_key

    def send(self, notice: Notice) -> None:
        super().send(notice)
        if notice.kind is NoticeKind.TEST:  # nobody is to be woken for longer than that
            resolution = {**self.body(notice), "event_action": "resolve"}
            self.post(f"{notice.id}-resolve", "alert.test", resolution, notice)

    def body(self, notice: Notice) -> Mapping[str, Any]:
        is_test = notice.kind is NoticeKind.TEST
        return {
            "routing_key": self._routing_key,
            "event_action": "resolve" if notice.kind is NoticeKind.RECOVERY else "trigger",
            "dedup_key": notice.dedup_key,
            "payload": {
                "summary": f"{notice.title}: {notice.message}"[:LONGEST_SUMMARY],
                "source": "goscheduler",
                "severity": "info" if is_test else "error",
                "timestamp": notice.since.isoformat(),
                "custom_details": notice.as_json(),
            },
        }


def channel_of(value: Any, **options: Any) -> Channel:
    """Return the channel that a user means: one, a function, or a URL with options.

    Texts may stand elsewhere: ``"env:NAME"`` in the environment, ``"file:PATH"`` in a file.

    :raises InvalidArgument: for a URL of no known kind, or a secret that is not there
    :raises UnknownOption: for an option that the kind does not have
    """
    if isinstance(value, str):
        return _of_url(revealed("url", value), {name: revealed(name, option) for name, option in options.items()})
    if isinstance(value, Channel):
        return value
    if callable(value):
        return FunctionChannel(value)
    raise TypeError(f"a channel must be a URL, a function or an object with send() and close(), got {shown(value)}")


def revealed(field: str, value: Any) -> Any:
    """Return a value, or what it points to in the environment or in a file.

    :raises InvalidArgument: if that is not there
    """
    if not isinstance(value, str):
        return value
    kind, colon, place = value.partition(":")
    if not colon or kind not in ("env", "file"):
        return value
    try:
        return os.environ[place] if kind == "env" else Path(place).read_text(encoding="utf-8").strip()
    except (KeyError, OSError, ValueError):
        where = f"variable {place}" if kind == "env" else f"file {place}"
        raise InvalidArgument(f"{field}: there is no {where} that can be read", field=field) from None


def _of_url(url: str, options: dict[str, Any]) -> Channel:
    scheme = url.partition(":")[0].lower()
    if scheme in ("http", "https"):
        return WebhookChannel(url, **_checked(options, HTTP_OPTIONS, "a webhook"))
    if scheme.startswith(SLACK):
        return SlackChannel(url[len(SLACK) :], **_checked(options, HTTP_OPTIONS, "a Slack webhook"))
    if scheme.partition("+")[0] == "pagerduty":
        return _pagerduty(url, _checked(options, HTTP_OPTIONS, "PagerDuty"))
    if scheme == "mailto":
        from goscheduler.alerts.mail import OPTIONS, MailChannel

        return MailChannel(url, **_checked(options, OPTIONS, "e-mail"))
    if scheme == "python":
        _checked(options, (), "a function")
        return FunctionChannel(_function(url))
    raise InvalidArgument(  # the URL itself is not told: it may be a secret
        "url of a channel must begin with https:, slack+https:, pagerduty:, mailto: or python:", field="url"
    )


def _checked(options: dict[str, Any], known: tuple[str, ...], kind: str) -> dict[str, Any]:
    for name in options:
        if name not in known:
            raise UnknownOption(name, known, where=f"the channel of {kind}")
    return options


def _pagerduty(url: str, options: dict[str, Any]) -> Channel:
    """Return the channel for ``pagerduty://KEY@`` or ``pagerduty://KEY@HOST``; with ``+http`` for a stand-in."""
    split = urlsplit(url)
    if not split.username:
        raise InvalidArgument("url: PagerDuty needs its routing key, as in pagerduty://KEY@", field="url")
    place = split.netloc.rpartition("@")[2] or PAGERDUTY_HOST
    protocol = split.scheme.partition("+")[2] or "https"
    return PagerDutyChannel(unquote(split.username), f"{protocol}://{place}{split.path or PAGERDUTY_PATH}", **options)


def _function(url: str) -> Callable[[Notice], object]:
    module, _, name = url.removeprefix("python:").partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"url: there is no function {shown(url)}: {error}", field="url") from error
    if not callable(found):
        raise InvalidArgument(f"url: {shown(url)} is no function", field="url")
    function: Callable[[Notice], object] = found
    return function
