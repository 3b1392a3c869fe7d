"""One run of a document scheduler, from its start to its stop: the loop that looks for documents and hands them out.

==========================================  ==========================================================================
a crash just after                          leaves
==========================================  ==========================================================================
``store.lock_next``                         a locked document, not processed; processed when the lock has run out
the user's function has begun or ended      the same: it is processed again
``store.update`` or ``store.remove``        the document as it should be
==========================================  ==========================================================================
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from goscheduler.clock import Clock, Deadline
from goscheduler.documents._document_locks import DocumentLock, DocumentLocks
from goscheduler.documents._hook_runner import HookRunner
from goscheduler.documents._rules import PARKED, NextState, after_processing
from goscheduler.documents._settings import Hooks, Settings, takes_document
from goscheduler.documents.base import DocumentStore, Malformed
from goscheduler.documents.model import Document, round_up
from goscheduler.errors import GoSchedulerError, InvalidArgument, described, shown
from goscheduler.logs import GuardedLogger

#: No more than twenty looks a second while there is nothing to do, whatever ``idle_delay`` says.
SHORTEST_IDLE = 0.05
#: How long the loop rests when the store has raised, at first and at most, in seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
#: How often an end is written that the store does not take, and how long that may keep a stop waiting.
MOST_WRITES = 20
LAST_WRITES = 5.0
#: How often documents whose ``sleepUntil`` is no date are looked for, in seconds; how many at once, how many noted.
LOOK_FOR_MALFORMED = 60.0
MALFORMED_AT_ONCE = 100
MOST_REMEMBERED = 10_000


class DocumentWorker:
    """Runs on its own thread from :meth:`run`'s beginning to its end."""

    def __init__(self, store: DocumentStore, hooks: Hooks, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._hooks = hooks
        self._settings = settings
        self._clock = clock
        self._tells_document = hooks.on_error is not None and takes_document(hooks.on_error)
        self._logger = GuardedLogger(logging.getLogger("goscheduler.documents"))
        self._locks = DocumentLocks(store, clock, settings.lock_duration, self._tell)
        self._pool = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="goscheduler-documents")
        self._changed = threading.Condition()
        self._told: set[str] = set()
        self._look_for_malformed_at = clock.monotonic()
        self._opened = False
        self._failures = 0
        self._last_writes: Deadline | None = None
        self.hook_runner = HookRunner()
        self.begun = threading.Event()
        self.stopping = threading.Event()
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self.in_hand = 0
        self.idle = False
        self.thread = threading.Thread(target=self.run, name="goscheduler-documents", daemon=True)

    def run(self) -> None:
        """Begin, look for documents until told to stop, let those in hand come to their end."""
        try:
            self._begin()
        except BaseException as error:
            self.failure = error
            self.stop()
        else:
            self.begun.set()
            while not self.stopping.is_set():
                self._guarded_turn()
            self._end()
        finally:
            self._close()
            self.begun.set()
            self.ended.set()

    def stop(self) -> None:
        """Look for no more documents."""
        with self._changed:
            self.stopping.set()
            self._changed.notify_all()

    def _begin(self) -> None:
        try:
            self._open()
        except (GoSchedulerError, TypeError, ImportError):
            raise
        except Exception as error:
            self._tell(error)  # an outage: it may be over soon
        self._locks.start()
        if self._hooks.on_start is not None:
            self.hook_runner.call(self._hooks.on_start)

    def _open(self) -> None:
        self._store.open()
        self._opened = True

    def _guarded_turn(self) -> None:
        try:
            self._turn()
            self._failures = 0
        except Exception as error:
            self._tell(error)
            self._failures += 1
            self.stopping.wait(_pause(self._failures))

    def _turn(self) -> None:
        """Look for a document once, when there is room for one."""
        if not self._has_room() or self.stopping.wait(self._settings.next_delay):
            return
        if not self._opened:
            self._open()
        self._tell_of_malformed()
        lock = self._locks.take()
        if lock is None:
            self._found_nothing()
        else:
            self._hand_out(lock)

    def _has_room(self) -> bool:
        """Wait until one more document may be processed; false if it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self.in_hand < self._settings.concurrency or self.stopping.is_set())
        return not self.stopping.is_set()

    def _found_nothing(self) -> None:
        if not self.in_hand and not self.idle:
            self.idle = True
            self._call_hook(self._hooks.on_idle)
        self.stopping.wait(max(self._settings.idle_delay, SHORTEST_IDLE))

    def _hand_out(self, lock: DocumentLock) -> None:
        self.idle = False
        with self._changed:
            self.in_hand += 1
        try:
            self._pool.submit(self._process, lock)
        except RuntimeError:  # the interpreter is ending, and starts nothing any more
            self._put_down()
            self.stop()
            self._locks.settle(lock, NextState(round_up(lock.document.sleep_until, self._store.resolution)))

    def _process(self, lock: DocumentLock) -> None:
        """Process one document, if its lock still is ours; on a thread of the pool."""
        try:
            if not self._locks.ensure(lock):
                self._locks.drop(lock)
                self._logger.warning("Lock of document %s was lost or ran out before processing began; "
                                     "the next poll finds the document again", _name(lock.document))  # fmt: skip
                return
            self.hook_runner.call(self._hooks.on_document, lock.document.content)
        except BaseException as error:
            self._locks.drop(lock)  # the lock runs out, and the document is processed again
            self._tell(error, lock.document)
        else:
            self._finish(lock)
        finally:
            self._put_down()

    def _put_down(self) -> None:
        with self._changed:
            self.in_hand -= 1
            self._changed.notify_all()

    def _finish(self, lock: DocumentLock) -> None:
        settings = self._settings
        try:
            next_state = after_processing(lock.document, self._clock.now(), settings.reprocess_delay, settings.timezone)
        except Exception as error:
            self._tell(error, lock.document)
            next_state = PARKED
        if next_state.sleep_until is not None:
            next_state = NextState(round_up(next_state.sleep_until, self._store.resolution))
        self._write(lock, next_state)

    def _write(self, lock: DocumentLock, next_state: NextState) -> None:
        """Write what becomes of a document, again and again while that makes sense."""
        for tried in range(1, MOST_WRITES + 1):
            try:
                if not self._locks.settle(lock, next_state):
                    self._logger.info(
                        "Document %s was changed by another program; that change is kept", _name(lock.document)
                    )
                return
            except Exception as error:
                if tried == 1:
                    self._tell(error, lock.document)
                if self._is_too_late(lock):
                    break
            threading.Event().wait(_pause(tried))
        self._locks.drop(lock)

    def _is_too_late(self, lock: DocumentLock) -> bool:
        if self.stopping.is_set() and self._last_writes is None:
            self._last_writes = Deadline(self._clock, LAST_WRITES)
        out_of_time = self._last_writes is not None and self._last_writes.left() == 0
        return out_of_time or self._clock.now() > lock.locked_until

    def _tell_of_malformed(self) -> None:
        if self._clock.monotonic() < self._look_for_malformed_at:
            return
        self._look_for_malformed_at = self._clock.monotonic() + LOOK_FOR_MALFORMED
        for found in self._store.malformed(MALFORMED_AT_ONCE):
            self._tell_once(found)

    def _tell_once(self, found: Malformed) -> None:
        mark = f"{found.id!r} {shown(found.value)}"
        if mark in self._told:
            return
        if len(self._told) >= MOST_REMEMBERED:
            self._told.clear()
        self._told.add(mark)
        message = f"sleepUntil of document {shown(found.id)} must be {found.expected}, got {shown(found.value)}"
        self._tell(InvalidArgument(f"{message}; it is ignored", field="sleep_until", value=found.value))

    def _call_hook(self, hook: Any) -> None:
        if hook is None:
            return
        try:
            self.hook_runner.call(hook)
        except BaseException as error:
            self._tell(error)

    def _tell(self, error: BaseException, document: Document | None = None) -> None:
        """Tell the user's function of an error, and the log if there is none."""
        hook = self._hooks.on_error
        about = "" if document is None else f" about document {_name(document)}"
        if hook is None:
            self._logger.error("Error%s: %s", about, described(error), exc_info=error)
            return
        content = None if document is None else document.content
        try:
            self.hook_runner.call(hook, error, *((content,) if self._tells_document else ()))
        except BaseException as problem:
            self._logger.error("on_error raised %s when told%s of: %s", described(problem), about, described(error))

    def _end(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self.in_hand)
        self._call_hook(self._hooks.on_stop)

    def _close(self) -> None:
        self._pool.shutdown()
        self._locks.stop()
        self.hook_runner.close()
        self.idle = False
        try:
            self._store.close()
        except Exception as error:
            self._tell(error)


def _pause(failures: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE)


def _name(document: Document) -> str:
    return shown(document.id)
