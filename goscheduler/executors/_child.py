"""The main loop of a child process of the process pool, and the messages between it and its parent.

The parent sends one call at a time. The child answers each with an empty message before it begins, then any number of
:class:`Note` on the progress, and one :class:`Reply` at the end. The first message of all is empty if the child is
ready and a :class:`Parcel` with an exception if its initializer raised. The child ends when it is told to or the pipe
ends, and at once, in the middle of a run, when the parent dies: its lease lapses and another
process repeats the run, so nobody may still be at it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import selectors
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors.call import call, failed, shortened
from goscheduler.executors.context import publish_progress_with
from goscheduler.runs.model import OutcomeKind, Progress
from goscheduler.runs.retry import lineage

if TYPE_CHECKING:
    from goscheduler.executors.around import Around
    from goscheduler.job import Job
    from goscheduler.runs.model import Outcome, Run

MAX_TEXT = 4096
#: How long a note on the progress of a run has to wait after the one before.
NOTE_SECONDS = 0.1
READY = b""
#: Sent before anything of a call is looked at, so that a call without it has left no trace.
BEGUN = b""
#: Said outright, because the end of the pipe does not show where a forked sibling holds it open.
GOODBYE = b""


class PortableJob(NamedTuple):
    """As much of a job as a child process needs."""

    id: str
    name: str
    func: Callable[..., object]
    args: Sequence[object]
    kwargs: dict[str, object]
    func_ref: str | None
    tags: tuple[str, ...]


class Parcel(NamedTuple):
    """An object on its way, with its text in case it cannot be sent or cannot be opened."""

    pickled: bytes | None
    type_name: str
    text: str
    lineage: tuple[str, ...] = ()

    def open(self) -> Any:
        """Return the object, or raise whatever its unpickling raises."""
        if self.pickled is None:
            raise pickle.UnpicklingError("only its text came over")
        return pickle.loads(self.pickled)


class Reply(NamedTuple):
    """An outcome on its way to the parent."""

    kind: OutcomeKind
    result: Parcel | None
    error: Parcel | None
    traceback: str
    seconds: float
    reason: str = ""


class Note(NamedTuple):
    """Progress of a run, sent to the parent."""

    run_id: str
    progress: Progress


def pack_call(run: Run, started_at: datetime, arounds: Sequence[Around] = ()) -> bytes:
    """Return the message that asks a child for ``run``, enclosed by ``arounds``; raises what pickling raises."""
    job = run.job
    portable = PortableJob(job.id, job.name, job.func, job.args, dict(job.kwargs), job.func_ref, job.tags)
    return bytes(ForkingPickler.dumps((run._replace(job=cast("Job", portable)), started_at, tuple(arounds))))


def serve(connection: Connection, initializer: Callable[..., object] | None, initargs: Sequence[object]) -> None:
    """Answer calls until the parent hangs up: the main function of a child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ends a cancelled run; the parent may ignore it, and we inherit that
    multiprocessing.current_process().daemon = False  # or jobs could not start processes of their own
    threading.Thread(target=_end_with_parent, name="goscheduler-parent-watch", daemon=True).start()
    with suppress(EOFError, OSError):  # the parent hung up
        if _initialise(connection, initializer, initargs):
            _answer_calls(connection)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_any([parent.sentinel])
        os._exit(1)


def wait_for_any(objects: Sequence[Connection | int], timeout: float | None = None) -> bool:
    """Wait until one of ``objects`` can be read, for at most ``timeout`` seconds; tell whether one can.

    Where gevent has patched, threads are greenlets, and what ``multiprocessing`` calls would stop all of them.
    """
    if selectors.DefaultSelector.__module__ != "gevent.selectors":
        return bool(wait(objects, timeout))
    with selectors.DefaultSelector() as selector:
        for each in objects:
            selector.register(each, selectors.EVENT_READ)
        return bool(selector.select(timeout))


def _initialise(connection: Connection, initializer: Callable[..., object] | None, initargs: Sequence[object]) -> bool:
    try:
        if initializer is not None:
            initializer(*initargs)
    except BaseException as error:
        connection.send_bytes(pickle.dumps(pack_error(error)))
        return False
    connection.send_bytes(READY)
    return True


def _answer_calls(connection: Connection) -> None:
    pid = os.getpid()
    outbox = Outbox(connection)
    publish_progress_with(outbox.note)
    while (message := connection.recv_bytes()) != GOODBYE:
        connection.send_bytes(BEGUN)
        outcome = _outcome_of(message, outbox)
        if os.getpid() != pid:
            os._exit(0)  # the job forked and came back in the copy too; only one of them may answer
        outbox.answer(reply_of(outcome))


def _outcome_of(message: bytes, outbox: Outbox) -> Outcome:
    try:
        run, started_at, arounds = pickle.loads(message)
    except BaseException as error:
        return failed(error)
    outbox.open_for(run.id)
    outcome: Outcome = call(run, SYSTEM_CLOCK, started_at, arounds)
    return outcome


class Outbox:
    """Sends what a child has to say.

    Of the notes on a run's progress, ten a second at most, so that a tight loop does not flood the pipe; the latest
    one always gets through, a moment later if it has to wait. Threads of the job may send them, also after its end.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._run_id: str | None = None
        self._latest: Note | None = None
        self._last_sent = -NOTE_SECONDS
        self._timer: threading.Timer | None = None

    def open_for(self, run_id: str) -> None:
        """Take notes on this run."""
        with self._lock:
            self._run_id = run_id

    def note(self, run_id: str, progress: Progress) -> None:
        """Send a note now or in a moment."""
        if os.getpid() != self._pid:
            return  # a process that the job has forked
        with self._lock:
            if run_id == self._run_id:
                self._latest = Note(run_id, progress)
                self._send_or_wait()

    def answer(self, reply: Reply) -> None:
        """Send what ends the run, after the latest note on it."""
        message = pickle.dumps(reply)
        with self._lock:
            self._send_latest()
            self._run_id = None
            self._connection.send_bytes(message)

    def _send_or_wait(self) -> None:
        left = self._last_sent + NOTE_SECONDS - SYSTEM_CLOCK.monotonic()
        if left <= 0:
            self._send_latest()
        elif self._timer is None:
            timer = threading.Timer(left, self._waited)
            timer.daemon = True
            with suppress(RuntimeError):  # no more threads: then it goes with the next note or with the answer
                timer.start()
                self._timer = timer

    def _waited(self) -> None:
        with self._lock:
            self._timer = None
            self._send_latest()

    def _send_latest(self) -> None:
        note, self._latest = self._latest, None
        if note is not None:
            self._last_sent = SYSTEM_CLOCK.monotonic()
            with suppress(OSError):  # the parent is gone, and so shall we be
                self._connection.send_bytes(pickle.dumps(note))


def reply_of(outcome: Outcome) -> Reply:
    """Return the message that tells the parent of an outcome."""
    error, result = None, None
    if outcome.error is not None:
        error = pack_error(outcome.error)
    else:
        result = pack_result(outcome.result)
    return Reply(outcome.kind, result, error, outcome.traceback, outcome.seconds, outcome.reason)


def pack_result(result: object) -> Parcel:
    """Return the parcel for a return value."""
    try:
        return Parcel(bytes(ForkingPickler.dumps(result)), type(result).__qualname__, "")
    except Exception:
        return Parcel(None, type(result).__qualname__, _text(repr, result))


def pack_error(error: BaseException) -> Parcel:
    """Return the parcel for an exception."""
    try:
        pickled = bytes(ForkingPickler.dumps(error))
    except Exception:
        pickled = None
    return Parcel(pickled, type(error).__qualname__, _text(str, error), lineage(type(error)))


def _text(convert: Callable[[Any], str], value: object) -> str:
    try:
        return shortened(convert(value), MAX_TEXT)
    except Exception as error:
        return f"<no text: {convert.__name__}() raised {type(error).__name__}>"
