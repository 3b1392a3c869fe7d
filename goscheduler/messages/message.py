"""What a user wants delivered: a message, and when it comes again. Everything is checked when it is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any

from goscheduler.errors import InvalidArgument, MessageTooLarge, shown
from goscheduler.options import check_job_id, check_name_of
from goscheduler.times import astimezone, parse_duration
from goscheduler.transports.base import HEADER_NAMES
from goscheduler.triggers.cron import CronTrigger

BINARY = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

#: The most times that a recurrence can be limited to.
MOST_OCCURRENCES = 1_000_000


@dataclass(frozen=True, slots=True)
class Recurrence:
    """When a message comes again: every ``interval``, or at the times of a crontab line. One of the two."""

    interval: timedelta | None = None
    """How much time lies between two deliveries; a number of seconds or a text such as "5m" is taken too."""
    cron: str | None = None
    """A crontab line, or ``@daily`` and the like."""
    timezone: tzinfo | str | None = None
    """In which zone the crontab line is read; the scheduler's if not given."""
    max_occurrences: int | None = None
    """The message comes at so many times of its schedule, and no more."""
    until: datetime | date | str | None = None
    """The last moment at which it may come."""
    catch_up: bool = False
    """Whether times that passed while nobody delivered are made up for one by one. If not, one delivery stands for all
    of them; it counts as the last of them."""

    def __post_init__(self) -> None:
        if (self.interval is None) == (self.cron is None):
            raise InvalidArgument("Give either interval or cron", field="interval")
        if self.interval is not None:
            object.__setattr__(self, "interval", _checked_interval(self.interval))
        else:
            CronTrigger.from_crontab(_checked_text("cron", self.cron), timezone="UTC")
        object.__setattr__(self, "timezone", astimezone(self.timezone))
        most = self.max_occurrences
        if most is not None and (
            isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_OCCURRENCES
        ):
            raise InvalidArgument(
                f"max_occurrences must be a whole number from 1 to {MOST_OCCURRENCES}, got {shown(most)}",
                field="max_occurrences",
                value=most,
            )
        if self.until is not None and not isinstance(self.until, (date, str)):
            raise TypeError(f"until must be a datetime or a text, got {shown(self.until)}")
        if not isinstance(self.catch_up, bool):
            raise TypeError(f"catch_up must be a boolean, got {shown(self.catch_up)}")


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be delivered, and when.

    The payload is bytes, a text, or anything that JSON can express; it becomes bytes, and ``content_type`` says which
    of the three it was unless it is given.
    """

    event_name: str
    """Where it goes: the routing key, subject, stream or header of the transport. At most 255 characters."""
    payload: Any = b""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Texts that travel beside the payload, as headers where the transport has such."""
    scheduled_at: datetime | date | str | None = None
    """When; in the scheduler's zone if it has none. Not given or past: now. With a recurrence, the first time."""
    id: str | None = None
    """Made up if not given. No two messages that wait have the same."""
    content_type: str | None = None
    recurrence: Recurrence | None = None

    def __post_init__(self) -> None:
        _put(self, "event_name", check_name_of("event_name", self.event_name))
        payload, content_type = _encoded(self.payload)
        _put(self, "payload", payload)
        given = self.content_type
        _put(self, "content_type", content_type if given is None else check_name_of("content_type", given))
        _put(self, "metadata", MappingProxyType(_checked_metadata(self.metadata)))
        if self.id is not None:
            check_job_id(self.id)
        if self.scheduled_at is not None and not isinstance(self.scheduled_at, (date, str)):
            raise TypeError(f"scheduled_at must be a datetime or a text, got {shown(self.scheduled_at)}")
        if self.recurrence is not None and not isinstance(self.recurrence, Recurrence):
            raise TypeError(f"recurrence must be a Recurrence, got {shown(self.recurrence)}")

    def __repr__(self) -> str:
        return f"Message({self.event_name!r}, {len(self.payload)} bytes, scheduled_at={self.scheduled_at!s})"


def check_size(message: Message, limit: int) -> None:
    """Raise if payload and metadata together are larger than a limit in bytes.

    :raises MessageTooLarge: then
    """
    size = len(message.payload) + sum(
        len(text.encode()) for pair in message.metadata.items() for text in pair
    )
    if size > limit:
        raise MessageTooLarge(
            f"payload: the message {shown(message.event_name)} has {size} bytes, the limit is {limit} (max_payload)",
            field="payload",
            value=size,
        )


def _put(message: Message, name: str, value: object) -> None:
    object.__setattr__(message, name, value)


def _encoded(payload: Any) -> tuple[bytes, str]:
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload), BINARY
    try:
        if isinstance(payload, str):
            return payload.encode(), TEXT
        return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(), JSON
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"payload must be bytes, a text or something that JSON can express, got {shown(payload)}: {error}",
            field="payload",
        ) from error


def _checked_metadata(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping of texts, got {shown(metadata)}")
    for name, value in metadata.items():
        check_name_of("metadata", name)
        if name.lower() in HEADER_NAMES:
            raise InvalidArgument(
                f"metadata must not have {name!r}, which every message is given when it is delivered",
                field="metadata",
                value=name,
            )
        _checked_text(f"metadata[{shown(name)}]", value)
    return dict(metadata)


def _checked_text(where: str, value: Any) -> str:
    """Return a text that can be a header: without line ends, and such as can be encoded."""
    if not isinstance(value, str):
        raise TypeError(f"{where} must be a text, got {shown(value)}")
    if any(character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff" for character in value):
        raise InvalidArgument(
            f"{where} must not contain control characters or halves of characters, got {shown(value)}",
            field=where,
            value=value,
        )
    return value


def _checked_interval(value: Any) -> timedelta:
    interval = parse_duration(value)
    if interval <= timedelta(0):
        raise InvalidArgument(f"interval must be above 0, got {shown(value)}", field="interval", value=value)
    return interval
