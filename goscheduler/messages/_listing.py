"""Pages of messages: first those that are still to be delivered, the earliest first, then the dead ones, newest first.

A page of messages that wait costs what it shows, because the store finds and orders them. Those that processes have,
or that wait for another attempt, are runs: they are read all, and put between the others. What the store cannot tell,
which is metadata, and the time of a dead message, is looked for in messages as they come, for a second at most.
"""

from __future__ import annotations

import base64
import zlib
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from goscheduler.clock import Clock, Deadline
from goscheduler.errors import InvalidArgument, shown
from goscheduler.messages._shelf import as_dead, as_waiting
from goscheduler.messages.views import MessageFilter, MessageList, MessageState, ScheduledMessage
from goscheduler.runs.queries import SEARCH_SECONDS, Count, JobPosition, JobQuery
from goscheduler.times import UTC, to_micros

if TYPE_CHECKING:
    from goscheduler.messages._shelf import MessageRepository

#: Messages are counted up to here.
COUNT_CAP = 10_000
#: So many messages are read together at most.
PAGE_SIZE = 500
LONGEST_CURSOR = 2000
#: Every message that waits for a time is due before.
_END = datetime(9999, 1, 1, tzinfo=UTC)

_UNKNOWN = Count(0, exact=False)


class _Place(NamedTuple):
    """Where a page begins."""

    waiting: JobPosition | None = None
    """Behind this place among the messages that are to be delivered."""
    dead: str | None = None
    """If given, among the dead ones: behind this one, or at the first one if it is empty."""


class MessageSearch:
    """One search for a page of messages."""

    def __init__(self, shelf: MessageRepository, wanted: MessageFilter, clock: Clock) -> None:
        self._shelf = shelf
        self._wanted = wanted
        # The name of the front is a tag of all its messages, and the name of their executor: stores keep what is due in
        # order for each executor.
        self._store_can_tell = not wanted.metadata and wanted.event_name != shelf.tag
        until = _END if wanted.before is None and wanted.after is not None else wanted.before
        self._query = JobQuery(tag=wanted.event_name, executor=shelf.tag, due_before=until)
        self._deadline = Deadline(clock, SEARCH_SECONDS)
        self._complete = True

    def page(self, after: str | None, count: bool) -> MessageList:
        """Return a page, and with ``count`` how many messages there are altogether."""
        place = _Place() if after is None else self._place_of(after)
        under_way = self._under_way()
        found: list[ScheduledMessage] = []
        following = None
        if place.dead is None:
            found, following = self._to_deliver(place.waiting, under_way)
        if following is None and MessageState.DEAD in self._wanted.states:
            dead, following = self._dead(place.dead or None, self._wanted.limit - len(found))
            found += dead
        if not count:
            total = None
        elif after is None and following is None:
            total = Count(len(found))
        else:
            total = self._total(len(under_way), len(found) + (following is not None))
        following_page = None if following is None else self._cursor(following)
        return MessageList(found, following_page, total, self._complete)

    def _to_deliver(
        self, start: JobPosition | None, under_way: dict[JobPosition, ScheduledMessage]
    ) -> tuple[list[ScheduledMessage], _Place | None]:
        """Return what is to be delivered behind a place, and where the next page begins."""
        horizon = None
        placed: dict[JobPosition, ScheduledMessage] = {}
        if MessageState.PENDING in self._wanted.states:
            placed, horizon = self._waiting(start)
        for position, message in under_way.items():  # a message that is in both has been fired meanwhile
            if (start is None or position > start) and (horizon is None or position <= horizon):
                placed[position] = message
        ordered = sorted(placed.items(), key=itemgetter(0))
        shown_here = ordered[: self._wanted.limit]
        if len(ordered) > len(shown_here):
            horizon = shown_here[-1][0]
        return [message for _, message in shown_here], None if horizon is None else _Place(horizon)

    def _waiting(self, start: JobPosition | None) -> tuple[dict[JobPosition, ScheduledMessage], JobPosition | None]:
        """Return messages that wait behind a place, and the place behind which there are more."""
        wanted, found = self._wanted, dict[JobPosition, ScheduledMessage]()
        if wanted.after is not None:
            start = max(start or JobPosition(0, ""), JobPosition(to_micros(wanted.after), ""))
        query = self._query._replace(
            after=start, limit=min(wanted.limit, PAGE_SIZE) if self._store_can_tell else PAGE_SIZE
        )
        while True:
            page = self._shelf.find_jobs(query)
            for job in page.jobs:
                if self._shelf.is_ours(job) and wanted.matches(message := as_waiting(job)):
                    found[query.place(job)] = message
            if page.next is None or len(found) >= wanted.limit or self._gives_up(self._store_can_tell):
                return found, page.next
            query = query._replace(after=page.next)

    def _under_way(self) -> dict[JobPosition, ScheduledMessage]:
        """Return the messages that processes have, or that wait for another attempt."""
        if not self._wanted.states & {MessageState.DELIVERING, MessageState.RETRYING}:
            return {}
        messages = ((run, self._shelf.under_way(run)) for run in self._shelf.runs())
        return {
            JobPosition(to_micros(run.scheduled_at), run.job.id): message
            for run, message in messages
            if self._wanted.matches(message)
        }

    def _dead(self, before: str | None, room: int) -> tuple[list[ScheduledMessage], _Place | None]:
        """Return dead messages older than ``before``, and where the next page begins."""
        found: list[ScheduledMessage] = []
        last = before or ""
        for letter in self._shelf.letters(tag=self._wanted.event_name, before=before):
            message = as_dead(letter)
            fits = self._wanted.matches(message)
            if fits and len(found) == room:
                return found, _Place(dead=last)
            if fits:
                found.append(message)
            last = letter.record.cursor
            if self._gives_up(self._store_can_tell_dead):
                return found, _Place(dead=last)
        return found, None

    @property
    def _store_can_tell_dead(self) -> bool:
        return self._store_can_tell and self._wanted.after is None and self._wanted.before is None

    def _gives_up(self, store_can_tell: bool) -> bool:
        """Tell whether a search through messages has taken too long."""
        if store_can_tell or self._deadline.left():
            return False
        self._complete = False
        return True

    def _total(self, under_way: int, at_least: int) -> Count:
        counts = [Count(under_way)]
        if MessageState.PENDING in self._wanted.states:
            counts.append(self._count_waiting() if self._store_can_tell else _UNKNOWN)
        if MessageState.DEAD in self._wanted.states:
            tag = self._wanted.event_name or self._shelf.tag
            counts.append(self._shelf.count_letters(tag) if self._store_can_tell_dead else _UNKNOWN)
        number = max(at_least, sum(count.number for count in counts))
        return Count(min(number, COUNT_CAP), all(count.exact for count in counts) and number <= COUNT_CAP)

    def _count_waiting(self) -> Count:
        """Count the messages that wait: those due before the end of the filter, less those due before its beginning."""
        earlier = Count(0)
        if self._wanted.after is not None:
            earlier = self._shelf.count_jobs(self._query._replace(due_before=self._wanted.after), COUNT_CAP)
        if not earlier.exact:
            return _UNKNOWN
        found = self._shelf.count_jobs(self._query, COUNT_CAP + earlier.number)
        return Count(max(0, found.number - earlier.number), found.exact)

    def _cursor(self, place: _Place) -> str:
        rest = f"d.{place.dead}" if place.waiting is None else f"w.{place.waiting.due}.{place.waiting.id}"
        text = f"{self._digest}.{rest}"
        return base64.urlsafe_b64encode(text.encode("utf-8")).decode("ascii").rstrip("=")

    def _place_of(self, cursor: str) -> _Place:
        try:
            place = self._read(cursor)
        except (ValueError, AttributeError, TypeError):
            place = None
        if place is None:
            raise InvalidArgument(
                f"after must be the cursor of a page of messages by the same filter, got {shown(cursor)}",
                field="after",
                value=cursor,
            )
        return place

    def _read(self, cursor: str) -> _Place | None:
        if len(cursor) > LONGEST_CURSOR:
            return None
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        digest, kind, rest = base64.b64decode(padded, b"-_", validate=True).decode("utf-8").split(".", 2)
        if kind == "d":
            place = _Place(dead=rest)
        else:
            due, _, message_id = rest.partition(".")
            place = _Place(JobPosition(int(due), message_id))
        return place if digest == self._digest and self._cursor(place) == cursor else None

    @property
    def _digest(self) -> str:
        """Tells this filter from others; its times may move from page to page."""
        wanted = self._wanted
        states, metadata = sorted(state.value for state in wanted.states), sorted(wanted.metadata.items())
        facts = wanted.event_name, wanted.after is None, wanted.before is None, states, metadata
        return f"{zlib.crc32(repr(facts).encode('utf-8', 'backslashreplace')):08x}"
