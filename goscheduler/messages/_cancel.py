"""Cancels a message, so that no process delivers it after that.

While a message waits it is a job, and to remove that is enough. From when it is due it is a run, and some process has
it or nobody does. What nobody has is discarded. Who has it is told to end it, through the store if that is another
process, and the answer is in the history: a run that never started was not published, one that succeeded was.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from goscheduler.clock import Deadline
from goscheduler.errors import JobLookupError, MessageNotFound, RunLookupError
from goscheduler.runs.model import OutcomeKind

if TYPE_CHECKING:
    from goscheduler.messages._shelf import MessageRepository
    from goscheduler.runs.records import Record
    from goscheduler.schedulers.base import BaseScheduler

#: For how many seconds a process that has the message is waited for.
CANCEL_TIMEOUT_SECONDS = 10.0
#: The first and the longest pause between two looks.
FIRST_PAUSE = 0.005
LONGEST_PAUSE = 0.1

REASON = "its message was cancelled"


def cancel_message(
    scheduler: BaseScheduler, shelf: MessageRepository, jobstore: str, message_id: str, timeout: float
) -> bool:
    """Return whether the message is not delivered any more; see ``MessageScheduler.cancel``."""
    if shelf.find(message_id) is None:
        raise MessageNotFound(message_id)  # also for a job of the same scheduler that is no message
    deadline = Deadline(scheduler.clock, timeout)
    removed, told = False, set[str]()
    pause = FIRST_PAUSE
    while True:
        removed = _remove(scheduler, jobstore, message_id) or removed
        if not scheduler.running:
            break
        live = shelf.live(message_id)
        for run in live:
            if run.id not in told:
                told.add(run.id)
                scheduler.cancel_run(run.id, REASON)
        # Between the two looks a run may have become one that nobody has: a retry, or one that was put back.
        if not live and not shelf.pending(message_id):
            break
        if not deadline.left():
            return False
        threading.Event().wait(pause)
        pause = min(LONGEST_PAUSE, 2 * pause)
    discarded = _discard_letters(scheduler, shelf, message_id) if scheduler.running else 0
    if not removed and not told and not discarded:
        raise MessageNotFound(message_id)
    return removed or bool(discarded) or _was_stopped(told, shelf.records(message_id))


def _was_stopped(told: Iterable[str], records: Iterable[Record]) -> bool:
    """Tell from the history whether one of the runs that were told to end has ended without a delivery."""
    last: dict[str, Record] = {}
    for record in records:
        last.setdefault(record.run_id, record)
    return any(run_id in last and is_undelivered(last[run_id]) for run_id in told)


def is_undelivered(record: Record) -> bool:
    """Tell whether an attempt is known not to have delivered, and not to do so any more."""
    if record.outcome is OutcomeKind.SUCCEEDED:
        return False
    # One that began and was given up while it hung has no error: nobody knows what comes of it.
    return record.started_at is None or record.error_type is not None


def _remove(scheduler: BaseScheduler, jobstore: str, message_id: str) -> bool:
    try:
        scheduler.remove_job(message_id, jobstore)
    except JobLookupError:
        return False
    return True


def _discard_letters(scheduler: BaseScheduler, shelf: MessageRepository, message_id: str) -> int:
    count = 0
    for letter in shelf.letters(message_id):
        try:
            scheduler.discard_dead_letter(letter.run.id)
            count += 1
        except RunLookupError:
            continue  # another process was quicker
    return count
