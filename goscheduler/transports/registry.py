"""Transports by URL. Nothing is imported before its scheme is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from goscheduler._urls import masked
from goscheduler.errors import InvalidArgument, shown
from goscheduler.plugins import BuiltIn
from goscheduler.transports.base import Transport

_KOMBU = BuiltIn("goscheduler.transports.kombu:KombuTransport", "kombu")
_REDIS = BuiltIn("goscheduler.transports.redis_streams:RedisStreamsTransport", "redis")
_NATS = BuiltIn("goscheduler.transports.nats:NatsTransport", "nats")
_KAFKA = BuiltIn("goscheduler.transports.kafka:KafkaTransport", "kafka")
_WEBHOOK = BuiltIn("goscheduler.transports.webhook:WebhookTransport", "webhook")

#: What a transport's URL begins with → its class, and the extra that brings its driver.
TRANSPORTS: Mapping[str, BuiltIn] = MappingProxyType(
    {
        "amqp": _KOMBU,
        "amqps": _KOMBU,
        "redis": _REDIS,
        "rediss": _REDIS,
        "redis+sentinel": _REDIS,
        "rediss+sentinel": _REDIS,
        "nats": _NATS,
        "tls+nats": _NATS,
        "kafka": _KAFKA,
        "http": _WEBHOOK,
        "https": _WEBHOOK,
        "channel": BuiltIn("goscheduler.transports.channel:ChannelTransport"),
    }
)

#: Before any other scheme: whatever Kombu speaks, as in ``kombu+sqs://``.
BY_KOMBU = "kombu+"


def create_transport(value: Any) -> Transport:
    """Return the transport that a user means: one, its URL, a dict with its URL as ``type`` and options, or a function.

    :raises InvalidArgument: for a URL whose scheme nobody knows
    :raises ImportError: if a package that it needs is not installed
    """
    if isinstance(value, str):
        return _from_url(value, {})
    if isinstance(value, Mapping):
        options = dict(value)
        url = options.pop("type", None)
        if not isinstance(url, str):
            raise InvalidArgument('transport: a dict needs a URL as "type"', field="transport")
        return _from_url(url, options)
    if isinstance(value, Transport):
        return value
    if callable(value):
        from goscheduler.transports.callable import CallableTransport

        return CallableTransport(value)
    raise TypeError(
        "transport must be a URL, a dict, a function or an object with publish(event_name, message), "
        f"got {shown(value)}"
    )


def _from_url(url: str, options: Mapping[str, Any]) -> Transport:
    scheme, separator, _ = url.partition(":")
    scheme = scheme.lower() if separator else ""
    if scheme.startswith(BY_KOMBU):
        entry, url = _KOMBU, url[len(BY_KOMBU) :]
    elif scheme in TRANSPORTS:
        entry = TRANSPORTS[scheme]
    else:
        known = ", ".join(f"{scheme}:" for scheme in (*TRANSPORTS, f"{BY_KOMBU}…"))
        raise InvalidArgument(
            f"transport: no transport is known for the URL {shown(url)}; known are {known}",
            field="transport",
            value=masked(url),
        )
    transport: Transport = _load(scheme, entry).from_url(url, **options)
    return transport


def _load(scheme: str, entry: BuiltIn) -> Any:
    module, _, name = entry.reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if entry.extra is None:
            raise
        raise ImportError(
            f'The transport "{scheme}:" needs a package that is not installed ({error}); '
            f'install it with: pip install "goscheduler[{entry.extra}]"',
            name=error.name,
        ) from error
