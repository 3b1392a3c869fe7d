"""Publishes messages through a transport, in batches where it supports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goscheduler.errors import shown
from goscheduler.transports.base import BaseTransport, Delivery

Deliveries = list[Delivery]
Errors = list[Exception | None]


def publish_all(transport: Any, deliveries: Sequence[Delivery]) -> Sequence[Exception | None]:
    """Publish messages, together where the transport can, and return for each None or why it failed."""
    if not deliveries:
        return ()
    if len(deliveries) > 1 and hasattr(transport, "publish_many"):
        answers: Sequence[Exception | None] = transport.publish_many(deliveries)
        if len(answers) != len(deliveries):
            raise TypeError(f"{shown(transport)} got {len(deliveries)} messages and answered {len(answers)} times")
        return answers
    return [_publish_one(transport, delivery) for delivery in deliveries]


def _publish_one(transport: Any, delivery: Delivery) -> Exception | None:
    try:
        transport.publish(delivery.event_name, delivery)
    except Exception as error:
        return error
    return None


def can_batch(transport: Any) -> bool:
    """Tell whether a transport has a way of its own to publish several at once."""
    several = getattr(type(transport), "publish_many", None)
    return several is not None and several is not BaseTransport.publish_many


def ask(transport: Any, what: str) -> None:
    """Call a method that a transport may have."""
    method = getattr(transport, what, None)
    if method is not None:
        method()
