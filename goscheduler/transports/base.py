"""The port of transports: what carries a message away when it is due.

A transport has ``publish``. It returns when the message is safe with whoever gets it (a broker has confirmed it, a
server has answered), and raises otherwise: :class:`~goscheduler.errors.MessageRejected` for a message that will never
be taken, and anything else, best :class:`~goscheduler.errors.TransportUnavailable`, for one to try again.

``publish`` is called from several threads at once, and must come to an end by itself: nothing ends a thread that waits
for a server. What it is given may have been published before, if a process died between the publishing and the record
of it: :attr:`Delivery.key` is the same then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from goscheduler.times import to_micros

#: The names of the headers that every delivered message bears; metadata cannot have them.
HEADER_NAMES = ("scheduled_message_id", "scheduled_at", "event_name", "content_type", "attempt", "occurrence")


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message on its way, as a transport gets it."""

    id: str
    """The id that ``schedule`` returned; the same for every occurrence of a recurring message."""
    event_name: str
    payload: bytes
    content_type: str
    scheduled_at: datetime
    """When it was due. The same on every attempt."""
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    attempt: int = 1
    """Counted from 1."""
    occurrence: int = 1
    """Which time of its recurrence this is, counted from 1; always 1 for a message that does not recur."""

    @property
    def key(self) -> str:
        """The same for every attempt at this occurrence, and for no other: what receivers tell duplicates by."""
        return f"{self.id}@{to_micros(self.scheduled_at)}"

    def headers(self) -> dict[str, str]:
        """Return metadata and what the message is, as texts, for a transport that has headers."""
        return {
            **self.metadata,
            "scheduled_message_id": self.id,
            "scheduled_at": self.scheduled_at.astimezone(timezone.utc).isoformat(),
            "event_name": self.event_name,
            "content_type": self.content_type,
            "attempt": str(self.attempt),
            "occurrence": str(self.occurrence),
        }


@runtime_checkable
class Transport(Protocol):
    """The methods that a transport must have. Derive from :class:`BaseTransport` to have the rest of it too."""

    def publish(self, event_name: str, message: Delivery) -> None:
        """Return when the message is safe with whoever gets it.

        :raises MessageRejected: if it will never be taken; it becomes a dead letter at once
        :raises Exception: for anything else; it is tried again
        """


class BaseTransport:
    """What a transport may have besides ``publish``, with defaults that do what is needed."""

    @classmethod
    def from_url(cls, url: str, **options: Any) -> BaseTransport:
        """Return the transport that a URL describes."""
        raise NotImplementedError(f"{cls.__name__} is not made from a URL")

    def start(self) -> None:
        """Get ready; again after :meth:`close`. A server that does not answer yet must not make it raise."""

    def close(self) -> None:
        """Let go of threads and connections. Called when the scheduler has stopped; a second call is harmless."""

    def publish(self, event_name: str, message: Delivery) -> None:
        """Return when the message is safe with whoever gets it, see :class:`Transport`."""
        raise NotImplementedError

    def publish_many(self, messages: Sequence[Delivery]) -> list[Exception | None]:
        """Publish several, and return for each None or what ``publish`` would have raised. Does not raise itself.

        For a transport that can send a batch and wait once for all confirmations; this one goes from one to the next.
        """
        return [self._attempt(message) for message in messages]

    def healthy(self) -> bool:
        """Tell whether a message could be published now. May ask the server."""
        return True

    def _attempt(self, message: Delivery) -> Exception | None:
        try:
            self.publish(message.event_name, message)
        except Exception as error:
            return error
        return None
