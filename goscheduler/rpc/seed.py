"""The service of event-scheduler: messages and health, as its clients know them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument
from goscheduler.ops.redact import HIDDEN
from goscheduler.rpc.gen import scheduler_pb2 as pb
from goscheduler.rpc.health import read_health
from goscheduler.rpc.wire import fill
from goscheduler.times import UTC

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from goscheduler.rpc.calls import Ask

MOST_MESSAGES = 1000
MOST_INT32 = (1 << 31) - 1


def get(request: pb.GetRequest, ask: Ask) -> pb.GetResponse:
    """Return one message."""
    return pb.GetResponse(message=message_of(ask("message", arguments={"id": request.id})))


def list_messages(request: pb.ListRequest, ask: Ask) -> pb.ListResponse:
    """Return the messages that fit, and how many there are."""
    arguments: dict[str, Any] = {
        "limit": request.limit if 1 <= request.limit <= MOST_MESSAGES else MOST_MESSAGES, "offset": request.offset,
        "count": True,
    }  # fmt: skip
    if request.event_name:
        arguments["event_name"] = request.event_name
    for name in ("before", "after"):
        if request.HasField(name):
            arguments[f"due_{name}"] = _moment(name, getattr(request, name))
    page = ask("messages", arguments=arguments)
    rows = page["items"]
    return pb.ListResponse(messages=map(message_of, rows), total_count=page["total"])


def health(request: pb.HealthRequest, ask: Ask) -> pb.HealthResponse:
    """Return how the scheduler fares."""
    found = read_health(ask)
    status = f"HEALTH_STATUS_{found['status'].upper()}"
    details = {name: str(value) for name, value in found["details"].items()}
    for name in ("pending", "stuck"):
        if found[name] is not None:
            details[f"{name}_messages"] = str(found[name])
    return pb.HealthResponse(
        status=status, message=found["message"], latency_ms=round(found["latency_ms"]), details=details
    )


def message_of(row: Mapping[str, Any]) -> pb.Message:
    """Return the message of a row of the operation ``messages``."""
    message = pb.Message(
        payload=_payload(row), retry_count=_int32(row["retries"]), occurrence_count=_int32(row["occurrences"])
    )
    plain = ("id", "event_name", "metadata", "scheduled_at", "created_at")
    fill(message, {name: row[name] for name in plain})
    if row["recurrence"] is not None:
        message.recurrence.CopyFrom(recurrence_of(row["recurrence"]))
    return message


def recurrence_of(view: Mapping[str, Any]) -> pb.Recurrence:
    """Return a recurrence as clients know it."""
    recurrence = pb.Recurrence(max_occurrences=_int32(view["max_occurrences"] or 0))
    if view["interval"] is not None:
        recurrence.type, recurrence.value = pb.RECURRENCE_TYPE_INTERVAL, go_duration(view["interval"])
    else:
        recurrence.type, recurrence.value = pb.RECURRENCE_TYPE_CRON, view["cron"]
    fill(recurrence, {"until": view["until"]})
    return recurrence


def go_duration(seconds: float) -> str:
    """Return a length of time as Go writes it.

    >>> [go_duration(seconds) for seconds in (5400, 90, 1.5, 0.25, 0.000003, 0)]
    ['1h30m0s', '1m30s', '1.5s', '250ms', '3µs', '0s']
    """
    micros = round(seconds * 1_000_000)
    if 0 < micros < 1000:
        return f"{micros}µs"
    if 0 < micros < 1_000_000:
        return f"{_decimal(micros, 1000)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000)}s"
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}" if minutes else text


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def _payload(row: Mapping[str, Any]) -> bytes:
    text = str(row["payload"])
    if row["payload_is_base64"] and text != HIDDEN:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:  # a hook of the user's has put something else in its place
            pass
    return text.encode("utf-8", "backslashreplace")


def _moment(name: str, given: Timestamp) -> datetime:
    try:
        return given.ToDatetime(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"{name} must be a moment of the years 1 to 9999", field=name) from error


def _int32(number: int) -> int:
    return min(number, MOST_INT32)
