"""Operations on what is built on jobs: messages, schedules that a program declares, documents, locks."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from goscheduler.locks import break_lock as end_lock
from goscheduler.locks import held_locks
from goscheduler.messages import MessageFilter, MessageState
from goscheduler.messages._request import message_of_request
from goscheduler.ops.access import Role
from goscheduler.ops.errors import NotFound
from goscheduler.ops.model_around import (
    DocumentRow,
    DocumentsView,
    LockRow,
    MessagePage,
    MessageRow,
    RecurrenceView,
    ScheduleRow,
)
from goscheduler.ops.operation import Call, Id, operation
from goscheduler.ops.schema import MOMENT, TEXT, Choice, Flag, JsonValue, Text, Whole
from goscheduler.periodic import ScheduleDiff, diff_schedules, list_schedules
from goscheduler.runs.inbox import check_fields
from goscheduler.times import UTC, convert_to_datetime

if TYPE_CHECKING:
    from goscheduler.documents.base import DocumentStore
    from goscheduler.messages import MessageScheduler, Recurrence, ScheduledMessage
    from goscheduler.periodic import ListedSchedule, ScheduleRegistry

MessageId = Annotated[str, Text("The id of the message.")]
Moment = Annotated[str | None, MOMENT]
#: So many messages are read at a time to pass over them: each may be large.
PORTION = 200
#: Documents that are due are counted up to here.
COUNT_CAP = 10_000
STATES = tuple(state.value for state in MessageState)


@operation(Role.VIEWER, whole=True)
def messages(
    call: Call,
    event_name: Annotated[str | None, Text("Only with this event name.")] = None,
    due_after: Moment = None,
    due_before: Moment = None,
    state: Annotated[str | None, Choice("Only in this state; all but the dead ones if left out.", STATES)] = None,
    limit: Annotated[int, Whole("How many at most.", 1, 1000)] = 50,
    after: Annotated[str | None, TEXT] = None,
    count: Annotated[bool, Flag("Whether to count those that fit.")] = False,
    offset: Annotated[int, Whole("How many to pass over; a cursor costs less.", 0, 10_000)] = 0,
) -> MessagePage:
    """Return a page of the messages that wait to be delivered, the earliest first; or of dead ones."""
    states = frozenset({MessageState(state)}) if state is not None else MessageFilter().states
    after_time, before_time = _moment(call, "due_after", due_after), _moment(call, "due_before", due_before)
    wanted = MessageFilter(event_name, after_time, before_time, states, limit=limit)
    front = _messages(call)
    after, left = _passed_over(front, wanted, after, offset)
    found = front.list(wanted, after=after, count=count)
    rows = [] if left else [_message_row(each) for each in found]
    return MessagePage(rows, None if left else found.next, found.complete, found.total, found.exact)


@operation(Role.VIEWER, whole=True)
def message(call: Call, id: MessageId) -> MessageRow:
    """Return a message that has not been delivered."""
    return _message_row(_messages(call).get(id))


@operation(Role.OPERATOR, acts=True, whole=True)
def schedule_message(
    call: Call,
    message: Annotated[dict[str, Any], JsonValue("event, payload, deliver_at, metadata, id, recurrence.", "object")],
) -> MessageRow:
    """Store a message to be delivered later."""
    front = _messages(call)
    given = message_of_request(check_fields(message))
    return _message_row(front.get(front.schedule(given)))


@operation(Role.OPERATOR, acts=True, whole=True)
def cancel_message(call: Call, id: MessageId) -> bool:
    """Take a message back; false if it was too late."""
    return _messages(call).cancel(id)


@operation(Role.OPERATOR, acts=True, whole=True)
def postpone_message(call: Call, id: MessageId, to: Annotated[str, MOMENT]) -> MessageRow:
    """Give a message that waits another time."""
    return _message_row(_messages(call).postpone(id, to))


@operation(Role.OPERATOR, acts=True, whole=True)
def redrive_message(call: Call, id: MessageId) -> int:
    """Give the dead letters of a message another attempt, and return how many there were."""
    return _messages(call).redrive(id)


@operation(Role.OPERATOR, acts=True, whole=True)
def discard_message(call: Call, id: MessageId) -> int:
    """Forget the dead letters of a message, and return how many there were."""
    return _messages(call).discard(id)


@operation(Role.VIEWER, whole=True)
def schedules(call: Call) -> list[ScheduleRow]:
    """Return the schedules that the program declares, each with what has become of it."""
    found = list_schedules(call.scheduler, _registry(call), call.source.home)
    return [_schedule_row(each) for each in found]


def _schedule_row(found: ListedSchedule) -> ScheduleRow:
    declared = found.schedule
    words = "" if declared is None else declared.trigger().explain()
    return ScheduleRow(found.id, declared is not None, declared, found.state, words)


@operation(Role.VIEWER, whole=True)
def schedule_diff(call: Call) -> ScheduleDiff:
    """Return what a sync of the declared schedules would change."""
    return diff_schedules(call.scheduler, _registry(call), jobstore=call.source.home)


@operation(Role.VIEWER, whole=True)
def documents(
    call: Call,
    collection: Annotated[str | None, Text("The name of the collection; all if left out.")] = None,
    limit: Annotated[int, Whole("How many at most, of each.", 1, 200)] = 50,
) -> list[DocumentsView]:
    """Return what comes next in collections of documents, how much is due, and what is malformed."""
    known = call.source.documents
    if collection is not None and collection not in known:
        raise NotFound(f"there is no collection {collection!r}; there are: {', '.join(sorted(known)) or 'none'}")
    return [
        _documents_view(name, store, call.now, limit)
        for name, store in known.items()
        if collection in (None, name)
    ]  # fmt: skip


@operation(Role.VIEWER, whole=True)
def locks(
    call: Call,
    prefix: Annotated[str, Text("What their names begin with.")] = "",
    limit: Annotated[int, Whole("How many at most.", 1, 1000)] = 100,
) -> list[LockRow]:
    """Return the locks that somebody has."""
    return [LockRow(*each) for each in held_locks(_place_of_locks(call), prefix, limit)]


@operation(Role.ADMIN, acts=True, whole=True)
def break_lock(
    call: Call, name: Id, fence: Annotated[int, Whole("Under which it is held.", 0, (1 << 63) - 1)]
) -> bool:
    """End a lock for whoever has it under this fence; false if nobody has."""
    return end_lock(_place_of_locks(call), name, fence)


def _passed_over(
    front: MessageScheduler, wanted: MessageFilter, after: str | None, offset: int
) -> tuple[str | None, int]:
    """Return the cursor behind so many messages, and how many were lacking. They are read in portions."""
    while offset:
        page = front.list(replace(wanted, limit=min(offset, PORTION)), after=after, count=False)
        offset -= len(page)
        if page.next is None:
            return after, max(offset, 1)  # there is nothing behind
        after = page.next
    return after, 0


def _messages(call: Call) -> MessageScheduler:
    found = call.source.messages
    if found is None:
        raise NotFound("no scheduler of messages was given: make the source with messages=")
    return found


def _registry(call: Call) -> ScheduleRegistry:
    if call.source.schedules is None:
        raise NotFound("no registry of schedules was given: make the source with schedules=")
    return call.source.schedules


def _place_of_locks(call: Call) -> Any:
    place = call.source.locks
    return call.source.stores[call.source.home] if place is None else place


def _moment(call: Call, field: str, given: str | None) -> datetime | None:
    return convert_to_datetime(given, call.scheduler.timezone, field)


def _message_row(found: ScheduledMessage) -> MessageRow:
    payload: Any = found.payload
    try:
        text, encoded = payload.decode("utf-8"), False
    except UnicodeDecodeError:
        text, encoded = base64.b64encode(payload).decode("ascii"), True
    return MessageRow(
        found.id, found.event_name, text, encoded, found.content_type, found.metadata, found.scheduled_at,
        found.state.value, found.attempts, found.last_error, found.recurring, found.source, found.created_at,
        found.retries, _recurrence_view(found.recurrence), found.occurrences,
    )  # fmt: skip


def _recurrence_view(found: Recurrence | None) -> RecurrenceView | None:
    if found is None:
        return None
    interval = None if found.interval is None else found.interval.total_seconds()
    until = convert_to_datetime(found.until, UTC, "until")
    return RecurrenceView(interval, found.cron, str(found.timezone), found.max_occurrences, until)


def _documents_view(name: str, store: DocumentStore, now: datetime, limit: int) -> DocumentsView:
    due = store.count_due(now, COUNT_CAP)
    upcoming = [DocumentRow(str(each.id), each.sleep_until, each.interval) for each in store.upcoming(limit)]
    malformed = {str(each.id): f"{each.value!r} is not {each.expected}" for each in store.malformed(limit)}
    return DocumentsView(name, due.number, due.exact, upcoming, malformed)
