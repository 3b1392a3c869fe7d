"""What a user sees of messages that are on their way, and of the whole of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument, shown
from goscheduler.messages._recurrence import occurrence_of, recurrence_of
from goscheduler.runs.queries import Count
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.messages.message import Recurrence
    from goscheduler.triggers.base import BaseTrigger


class MessageState(str, Enum):
    """Where a message stands. One that was delivered is gone."""

    PENDING = "pending"
    """Waits for its time."""
    DELIVERING = "delivering"
    """A process has it, and publishes it or is about to."""
    RETRYING = "retrying"
    """An attempt failed; it waits for the next."""
    DEAD = "dead"
    """The last attempt failed; it is among the dead letters."""


@dataclass(frozen=True, slots=True)
class ScheduledMessage:
    """A message as it stands in the store."""

    id: str
    event_name: str
    payload: bytes = field(repr=False)
    content_type: str
    metadata: Mapping[str, str] = field(repr=False)
    scheduled_at: datetime | None
    """When it is due, or was; the next time of one that recurs. None while its job is paused."""
    state: MessageState
    attempts: int = 0
    """How many attempts at the delivery have begun."""
    last_error: str | None = None
    recurring: bool = False
    source: str = ""
    """The name of the front that it belongs to."""
    exception: Exception | None = field(default=None, repr=False, compare=False)
    """What the last attempt at a dead message raised, or what stands for that: another process may have made it."""
    created_at: datetime | None = field(default=None, compare=False)
    """When it was scheduled; None for one that an earlier version stored."""
    trigger: BaseTrigger | None = field(default=None, repr=False, compare=False)
    """The trigger of its job."""

    @property
    def retries(self) -> int:
        """How many attempts at this delivery have failed."""
        return max(0, self.attempts - 1) if self.state is MessageState.DELIVERING else self.attempts

    @property
    def recurrence(self) -> Recurrence | None:
        """When it comes again; None if it comes once."""
        return None if self.trigger is None or not self.recurring else recurrence_of(self.trigger)

    @property
    def occurrences(self) -> int:
        """How many times of its recurrence lie before the one that it waits for."""
        if self.trigger is None or not self.recurring or self.scheduled_at is None:
            return 0
        return occurrence_of(self.trigger, self.scheduled_at) - 1


class MessageList(list[ScheduledMessage]):
    """A page of the messages that fit a filter: a list that knows what follows, and how many there are altogether."""

    def __init__(
        self, found: Sequence[ScheduledMessage], next: str | None = None, total: Count | None = None,
        complete: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(found)
        self.next = next
        """The cursor of the page that follows: give it as ``after``. None if there is none."""
        self.total = None if total is None else total.number
        """How many messages fit, those on other pages included, counted up to 10,000; None if they were not counted."""
        self.exact = total is not None and total.exact
        """Whether there are no more than ``total``."""
        self.complete = complete
        """False if a search gave up before the page was full; it goes on at ``next``."""

    @property
    def more(self) -> bool:
        """Whether the limit has left some out, or may have."""
        return self.next is not None


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """Which messages are wanted: those that fit all of it."""

    event_name: str | None = None
    after: datetime | None = None
    """Due at this moment or later."""
    before: datetime | None = None
    """Due before this moment."""
    states: frozenset[MessageState] = frozenset(MessageState) - {MessageState.DEAD}
    """One state or several, also by name; all but the dead ones if not given."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Those whose metadata has all of these."""
    limit: int = 100
    """How many are returned at most; the list that is returned tells how many there are, and what follows."""

    def __post_init__(self) -> None:
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise InvalidArgument(
                f"limit must be a positive integer, got {shown(self.limit)}", field="limit", value=self.limit
            )
        for name in ("after", "before"):
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
                raise InvalidArgument(
                    f"{name} must be a datetime with a time zone, got {shown(moment)}", field=name, value=moment
                )
        object.__setattr__(self, "states", _states(self.states))

    def matches(self, message: ScheduledMessage) -> bool:
        """Tell whether a message is wanted, the limit aside."""
        due = message.scheduled_at
        return (
            (self.event_name is None or message.event_name == self.event_name)
            and (self.after is None or (due is not None and to_micros(due) >= to_micros(self.after)))
            and (self.before is None or (due is not None and to_micros(due) < to_micros(self.before)))
            and message.state in self.states
            and all(message.metadata.get(name) == value for name, value in self.metadata.items())
        )


def _states(given: Any) -> frozenset[MessageState]:
    several = [given] if isinstance(given, str) else list(given)
    known = [state.value for state in MessageState]
    for one in several:
        if one not in known:
            raise InvalidArgument(
                f"states must be some of {', '.join(known)}, got {shown(one)}", field="states", value=one
            )
    return frozenset(map(MessageState, several))
