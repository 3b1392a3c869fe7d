"""The port behind which documents are kept.

A document is **due** when its ``sleepUntil`` is a date that has come. It is **locked** by moving ``sleepUntil`` to the
end of the lock, so nobody else finds it due, and a process that dies leaves nothing behind: the lock runs out. The end
of the lock is also its token: whoever renews, finishes or removes a document does it only where ``sleepUntil`` still is
what he wrote. Every lock ends later than the one before it, because it is taken when that one has run out, so an old
token is never right again. Somebody who sets ``sleepUntil`` by hand takes the document away from whoever has it.

A store holds no rule: when a document is due again is decided above it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from goscheduler.documents.model import Document, in_utc
from goscheduler.runs.queries import Count


class Malformed(NamedTuple):
    """A document whose ``sleepUntil`` is no date: it is left as it is and never due."""

    id: Any
    value: Any
    expected: str = "a date and time"


class Upcoming(NamedTuple):
    """A document that has a time: it is due, or will be, or is locked until then."""

    id: Any
    sleep_until: datetime
    """Aware, in UTC."""
    interval: Any = None
    repeat_until: Any = None
    auto_remove: Any = None

    @classmethod
    def of(cls, id: Any, sleep_until: datetime, interval: Any, repeat_until: Any, auto_remove: Any) -> Upcoming:
        """Return a document with all times in UTC; a ``repeatUntil`` that makes no sense as it is."""
        last = in_utc(repeat_until) if isinstance(repeat_until, datetime) else repeat_until
        return cls(id, in_utc(sleep_until), interval, last, auto_remove)


class DocumentStore(ABC):
    """Finds, locks and changes documents. Methods are called from several threads."""

    resolution = timedelta(microseconds=1)
    """The shortest difference between two times that the store can tell apart. The times it is given are multiples."""

    def open(self) -> None:  # noqa: B027 - a store without a server has nothing to do
        """Get ready, also again after :meth:`close`.

        :raises InvalidArgument: if it can never work, such as for a column that does not exist. Anything else that is
            raised is taken for an outage, and tried again.
        """

    def close(self) -> None:  # noqa: B027
        """Let go of what :meth:`open` has made."""

    @abstractmethod
    def lock_next(self, now: datetime, until: datetime) -> Document | None:
        """Return the document that has been due longest at ``now``, locked ``until``; None if none is due.

        Of any number of callers at once only one gets it.
        """

    @abstractmethod
    def update(self, document: Document, sleep_until: datetime | None) -> bool:
        """Set ``sleepUntil``, null for None; False if it is not ``document.locked_until`` any more."""

    @abstractmethod
    def remove(self, document: Document) -> bool:
        """Remove a document; False if its ``sleepUntil`` is not ``document.locked_until`` any more."""

    @abstractmethod
    def upcoming(self, limit: int) -> list[Upcoming]:
        """Return documents that have a time, ascending by it; those that are due, or locked, are among them."""

    @abstractmethod
    def count_due(self, now: datetime, cap: int) -> Count:
        """Count the documents that are due at ``now``; at most ``cap`` of them."""

    def malformed(self, limit: int) -> Sequence[Malformed]:
        """Return some documents whose ``sleepUntil`` is neither empty nor a date."""
        return ()
