"""Messages that programs without Python ask for, in the inbox of a store: ``{"message": {"event": …, …}}``."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.messages._shelf import TASK_PREFIX
from goscheduler.messages.message import Message, Recurrence
from goscheduler.options import check_name_of
from goscheduler.runs.inbox import made, refuse_unknown
from goscheduler.times import UTC, convert_to_datetime

FIELDS = frozenset({
    "event", "payload", "payload_base64", "content_type", "metadata", "deliver_at", "id", "recurrence", "via",
})  # fmt: skip
#: The fields of a message that are called the same in a request.
_SAME = ("content_type", "id")
_RECURRENCE = ("interval", "cron", "timezone", "max_occurrences", "until", "catch_up")


def message_of_request(fields: Any) -> Message:
    """Return the message that is asked for.

    :raises InvalidArgument: naming the field that is unknown or makes no sense
    """
    if not isinstance(fields, Mapping):
        raise InvalidArgument(f"message must be an object, got {shown(fields)}", field="message")
    refuse_unknown(fields, FIELDS, "a message")
    event, deliver_at = check_name_of("event", fields.get("event")), fields.get("deliver_at")
    if deliver_at is not None and not isinstance(deliver_at, str):
        raise InvalidArgument(
            f"deliver_at must be a date and time as text, got {shown(deliver_at)}", field="deliver_at"
        )
    convert_to_datetime(deliver_at, UTC, "deliver_at")  # raises by that name if it is none
    given = {name: fields[name] for name in _SAME if fields.get(name) is not None}
    metadata = {} if fields.get("metadata") is None else fields["metadata"]
    recurrence = None if fields.get("recurrence") is None else _recurrence(fields["recurrence"])
    payload = _payload(fields)

    def message() -> Message:
        return Message(event, payload, metadata, deliver_at, recurrence=recurrence, **given)

    made_message: Message = made("message", message)
    return made_message


def front_of_request(fields: Mapping[str, Any], usual: str, announced: Collection[str]) -> str:
    """Return the name of the message scheduler that is to deliver."""
    via = fields.get("via", usual)
    if not isinstance(via, str) or f"{TASK_PREFIX}{via}" not in announced:
        raise InvalidArgument(
            f"via: no process delivers messages under the name {shown(via)}", field="via", value=via
        )
    return via


def _payload(fields: Mapping[str, Any]) -> Any:
    text = fields.get("payload_base64")
    if text is None:
        return fields.get("payload", b"")
    if "payload" in fields:
        raise InvalidArgument("payload and payload_base64 cannot be given together", field="payload_base64")
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"payload_base64 must be base64: {error}", field="payload_base64") from None


def _recurrence(value: Any) -> Recurrence:
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"recurrence must be an object, got {shown(value)}", field="recurrence")
    refuse_unknown(value, _RECURRENCE, "a recurrence")
    recurrence: Recurrence = made("recurrence", lambda: Recurrence(**value))
    return recurrence
