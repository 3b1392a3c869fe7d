"""The three routes of event-scheduler, with the JSON that its gateway makes of its messages: clients of it work here.

Names are lowerCamelCase, bytes are base64, 64-bit numbers are texts, and fields without a value are there.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from goscheduler.errors import InvalidArgument
from goscheduler.ops.redact import HIDDEN
from goscheduler.times import SECOND, UTC, convert_to_datetime, to_micros
from goscheduler.web.api import PlainEndpoint, json_response
from goscheduler.web.arguments import query_of
from goscheduler.web.problems import MALFORMED, HttpError
from goscheduler.web.site import principal_of, site_of

#: What a limit of 0, or one beyond it, stands for.
MOST_MESSAGES = 1000
LARGEST = 2**31 - 1
UNHEALTHY = "unhealthy"


def seed_endpoints() -> list[PlainEndpoint]:
    """Return the three routes, and the one of a message whose id the query gives."""
    return [
        PlainEndpoint("/v1/messages", list_messages), PlainEndpoint("/v1/messages/{id}", get_message),
        PlainEndpoint("/v1/message", get_message), PlainEndpoint("/v1/health", get_health),
    ]  # fmt: skip


def get_message(request: Request, places: Mapping[str, str]) -> Response:
    """Return a message that has not been delivered."""
    message_id = places.get("id") or _one(query_of(request), "id")
    return json_response({"message": message_json(_call(request, "message", {"id": message_id}))})


def list_messages(request: Request, places: Mapping[str, str]) -> Response:
    """Return messages, the earliest first, and how many fit altogether, counted up to 10,000."""
    query = query_of(request)
    limit = _number(query, "limit")
    found = _call(request, "messages", {
        "event_name": _one(query, "event_name") or _one(query, "eventName") or None,
        "due_before": _moment(query, "before"), "due_after": _moment(query, "after"),
        "limit": limit if 0 < limit <= MOST_MESSAGES else MOST_MESSAGES, "offset": _number(query, "offset"),
        "count": True,
    })  # fmt: skip
    return json_response({"messages": [message_json(row) for row in found["items"]], "totalCount": found["total"]})


def get_health(request: Request, places: Mapping[str, str]) -> Response:
    """Return how goscheduler fares; 503 if it is unhealthy."""
    found = _call(request, "health", {})
    return json_response(health_json(found), 503 if found["status"] == UNHEALTHY else 200)


def message_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the operation ``messages`` as the gateway shows a message."""
    metadata = row["metadata"]
    return {
        "id": row["id"], "eventName": row["event_name"], "payload": _payload(row),
        "metadata": metadata if isinstance(metadata, Mapping) else {}, "scheduledAt": timestamp(row["scheduled_at"]),
        "createdAt": timestamp(row["created_at"]), "retryCount": row["retries"],
        "recurrence": _recurrence(row["recurrence"]), "occurrenceCount": row["occurrences"],
    }  # fmt: skip


def health_json(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the view of the operation ``health`` as the gateway shows health."""
    counted = {"pending_messages": view["pending"], "stuck_messages": view["stuck"]}
    details = {name: str(value) for name, value in counted.items() if value is not None}
    return {
        "status": f"HEALTH_STATUS_{view['status'].upper()}", "message": view["message"],
        "latencyMs": str(round(view["latency_ms"])), "details": {**view["details"], **details},
    }  # fmt: skip


def timestamp(moment: str | None) -> str | None:
    """Return a moment in UTC with 0, 3 or 6 digits of its second, as Protocol Buffers have it in JSON."""
    if moment is None:
        return None
    at = datetime.fromisoformat(moment).astimezone(timezone.utc).replace(tzinfo=None)
    precision = "milliseconds" if at.microsecond % 1000 == 0 else "microseconds"
    return at.isoformat(timespec=precision if at.microsecond else "seconds") + "Z"


def go_duration(seconds: float) -> str:
    """Return a length of time as Go writes it, such as ``1h30m0s``."""
    micros = round(seconds * SECOND)
    if 0 < micros < SECOND:
        return f"{_short(micros / 1000)}ms" if micros >= 1000 else f"{micros}µs"
    minutes, rest = divmod(micros, 60 * SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{_short(rest / SECOND)}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _short(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def _payload(row: Mapping[str, Any]) -> str:
    payload: str = row["payload"]
    if row["payload_is_base64"] and payload != HIDDEN:
        return payload
    return "" if payload == HIDDEN else base64.b64encode(payload.encode("utf-8", "surrogatepass")).decode("ascii")


def _recurrence(view: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if view is None:
        return None
    by_cron = view["cron"] is not None
    return {
        "type": "RECURRENCE_TYPE_CRON" if by_cron else "RECURRENCE_TYPE_INTERVAL",
        "value": view["cron"] if by_cron else go_duration(view["interval"]),
        "maxOccurrences": view["max_occurrences"] or 0, "until": timestamp(view["until"]),
    }  # fmt: skip


def _call(request: Request, name: str, arguments: Mapping[str, Any]) -> Any:
    return site_of(request).operations.call(name, principal_of(request), arguments, via="http")


def _one(query: Mapping[str, list[str]], name: str) -> str:
    return query.get(name, [""])[-1]


def _number(query: Mapping[str, list[str]], name: str) -> int:
    text = _one(query, name) or "0"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and abs(int(text)) <= LARGEST):
        raise HttpError(MALFORMED, f"{name} must be a whole number of 32 bits")
    return int(text)


def _moment(query: Mapping[str, list[str]], name: str) -> str | None:
    text = _one(query, name)
    if not text:
        return None
    try:
        moment = convert_to_datetime(text, UTC, name)
        assert moment is not None
        to_micros(moment)
    except (InvalidArgument, ValueError, OverflowError, TypeError) as error:
        raise HttpError(MALFORMED, f"{name} must be a date and time such as 2026-05-04T12:00:00Z: {error}") from None
    return text
