"""Dead letters that go to a queue of the user's own.

A message whose last attempt failed is first of all a dead letter in the store. From there it is handed to the queue,
and forgotten when that has taken it. So nothing is lost when the queue raises or the process dies: it is tried again
when the next message dies, every minute, and at the start. A queue may get a message twice; its ``id`` and
``scheduled_at`` tell.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from goscheduler.errors import RunLookupError, shown
from goscheduler.events import EventCode, SchedulerEvent
from goscheduler.logs import GuardedLogger
from goscheduler.messages._shelf import MessageRepository, as_dead
from goscheduler.messages.views import ScheduledMessage

if TYPE_CHECKING:
    from goscheduler.schedulers.base import BaseScheduler

#: After how many seconds dead letters that a queue has refused are offered again.
OFFER_AGAIN = 60.0

_LOGGER = GuardedLogger(logging.getLogger("goscheduler.messages"))


@runtime_checkable
class DeadLetterQueue(Protocol):
    """Where messages go that could not be delivered."""

    def put(self, message: ScheduledMessage, error: str, attempts: int) -> None:
        """Take a message. If this raises, the message is kept and offered again."""


@runtime_checkable
class DeadLetterStore(Protocol):
    """The same for a queue that wants the parts of a message one by one."""

    def store(
        self, event_name: str, original_id: str, payload: bytes, metadata: dict[str, str], error: Exception,
        retry_count: int, source: str,
    ) -> None:  # fmt: skip
        """Take a message from the front ``source``. If this raises, the message is kept and offered again."""


def offering_to(queue: DeadLetterQueue | DeadLetterStore) -> Callable[[ScheduledMessage], None]:
    """Return how a dead message is given to a queue.

    :raises TypeError: if that is no queue
    """
    if isinstance(queue, DeadLetterQueue):
        return lambda dead: queue.put(dead, dead.last_error or "", dead.attempts)
    if not isinstance(queue, DeadLetterStore):
        raise TypeError(
            "dead_letters must have put(message, error, attempts), or store(event_name, original_id, payload, "
            f"metadata, error, retry_count, source), got {shown(queue)}"
        )

    def store(dead: ScheduledMessage) -> None:
        assert dead.exception is not None
        metadata, retries = dict(dead.metadata), dead.attempts - 1
        queue.store(dead.event_name, dead.id, dead.payload, metadata, dead.exception, retries, dead.source)

    return store


class DeadLetterForwarder:
    """Hands the dead letters of one front to a queue, on a thread of its own."""

    def __init__(
        self, scheduler: BaseScheduler, shelf: MessageRepository, queue: DeadLetterQueue | DeadLetterStore
    ) -> None:
        self._scheduler = scheduler
        self._shelf = shelf
        self._offer = offering_to(queue)
        self._called = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Hand over what there is and what comes, from now on."""
        self._ended = False
        self._called.set()
        self._scheduler.remove_listener(self._hear)  # there is one in a forked child
        self._scheduler.add_listener(self._hear, EventCode.JOB_DEAD_LETTERED)
        self._thread = threading.Thread(target=self._watch, name="goscheduler-dead-messages", daemon=True)
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Hand over no more."""
        self._scheduler.remove_listener(self._hear)
        thread, self._thread = self._thread, None
        self._ended = True
        self._called.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def hand_over(self) -> int:
        """Offer the queue every dead letter there is, and return how many it has taken."""
        taken = 0
        for letter in self._shelf.letters():
            message = as_dead(letter)
            try:
                self._offer(message)
            except Exception:
                _LOGGER.exception("The dead message %s could not be handed over; it is kept", message.id)
                continue
            taken += self._forget(letter.run.id)
        return taken

    def _forget(self, run_id: str) -> bool:
        try:
            self._scheduler.discard_dead_letter(run_id)
        except RunLookupError:
            return False  # another process has handed it over, too
        return True

    def _watch(self) -> None:
        while not self._ended:
            self._called.wait(OFFER_AGAIN)
            self._called.clear()
            try:
                if not self._ended:
                    self.hand_over()
            except Exception:
                _LOGGER.exception("Dead messages could not be handed over; trying again in %g seconds", OFFER_AGAIN)

    def _hear(self, event: SchedulerEvent) -> None:
        self._called.set()
