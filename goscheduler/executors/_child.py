"""What a child process of the process pool does, and what travels between it and its parent.

The parent sends one call at a time and the child answers each with one :class:`Reply`, after a first message that is
empty if the child is ready and a :class:`Parcel` with an exception if its initializer raised. The child ends when it is
told to or the pipe ends, and at once, in the middle of a run, when the parent dies: its lease lapses and another
process repeats the run, so nobody may still be at it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors.call import call, failed, shortened
from goscheduler.runs.model import OutcomeKind
from goscheduler.runs.retry import lineage

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.runs.model import Outcome, Run

MAX_TEXT = 4096
READY = b""
#: Said outright, because the end of the pipe does not show where a forked sibling holds it open.
GOODBYE = b""


class PortableJob(NamedTuple):
    """As much of a job as a child process needs."""

    id: str
    name: str
    func: Callable[..., object]
    args: Sequence[object]
    kwargs: dict[str, object]


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


def pack_call(run: Run, started_at: datetime) -> bytes:
    """Return the message that asks a child for ``run``; raises what pickling raises."""
    job = run.job
    portable = PortableJob(job.id, job.name, job.func, job.args, dict(job.kwargs))
    return bytes(ForkingPickler.dumps((run._replace(job=cast("Job", portable)), started_at)))


def serve(connection: Connection, initializer: Callable[..., object] | None, initargs: Sequence[object]) -> None:
    """Answer calls until the parent hangs up: the main function of a child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    multiprocessing.current_process().daemon = False  # or jobs could not start processes of their own
    threading.Thread(target=_end_with_parent, name="goscheduler-parent-watch", daemon=True).start()
    with suppress(EOFError, OSError):  # the parent hung up
        if _initialise(connection, initializer, initargs):
            _answer_calls(connection)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
    while (message := connection.recv_bytes()) != GOODBYE:
        outcome = _outcome_of(message)
        if os.getpid() != pid:
            os._exit(0)  # the job forked and came back in the copy too; only one of them may answer
        connection.send_bytes(pickle.dumps(_reply(outcome)))


def _outcome_of(message: bytes) -> Outcome:
    try:
        run, started_at = pickle.loads(message)
    except BaseException as error:
        return failed(error)
    outcome: Outcome = call(run, started_at, SYSTEM_CLOCK)
    return outcome


def _reply(outcome: Outcome) -> Reply:
    if outcome.error is not None:
        return Reply(outcome.kind, None, pack_error(outcome.error), outcome.traceback, outcome.seconds)
    return Reply(outcome.kind, pack_result(outcome.result), None, outcome.traceback, outcome.seconds)


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
