"""The parent's side of the process pool: each worker thread has one child process of its own.

So the death of a child is the end of one run and touches no other, and the next run of that worker gets a new child.
A child says so before it begins a run. If an idle child was killed, its next run never began, and a new child runs it.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from goscheduler.executors._child import (
    BEGUN,
    GOODBYE,
    READY,
    Note,
    Parcel,
    Reply,
    pack_call,
    serve,
    wait_for_any,
)
from goscheduler.executors._failures import RemoteError, WorkerDied
from goscheduler.executors.around import begin_all, for_child
from goscheduler.executors.call import cancelled, failed
from goscheduler.executors.context import attempt_key, record_progress
from goscheduler.runs.model import Outcome, OutcomeKind

if TYPE_CHECKING:
    from goscheduler.clock import Clock
    from goscheduler.executors.around import Around
    from goscheduler.runs.model import Run

#: How often to look after a child: a process that it started can hold the pipe open, so that its end does not show.
LOOK_SECONDS = 1.0
#: How long a child that has been told to end may take.
END_SECONDS = 5.0


class ChildOptions(NamedTuple):
    """Options for starting child processes."""

    context: Any
    initializer: Callable[..., object] | None = None
    initargs: Sequence[object] = ()
    max_tasks: int | None = None


class ProcessWorker:
    """Runs runs in a child process, one after the other."""

    def __init__(
        self,
        options: ChildOptions,
        clock: Clock,
        begin: Callable[[Run], Outcome | None],
        arounds: Callable[[], Sequence[Around]] = tuple,
    ) -> None:
        self._options = options
        self._clock = clock
        self._begin = begin
        self._arounds = arounds
        self._child: Child | None = None
        self._aborted = False
        self._in_hand = threading.Lock()
        """Held by whoever signals the child because of a run, so that no other run can be hit."""
        self._run: Run | None = None
        self._told: str | None = None
        """Why that run is to end."""

    def perform(self, run: Run) -> tuple[Outcome, float]:
        begun = self._clock.monotonic()
        with self._in_hand:
            self._run, self._told = run, None
        try:
            outcome = self._attempt(run)
        except BaseException as error:  # from the user's own pickling
            outcome = failed(error)
        with self._in_hand:
            self._run = None
        if self._told is not None:
            outcome = self._after_signal(outcome, self._told)
        return outcome, self._clock.monotonic() - begun

    def cancel(self, run: Run, reason: str) -> bool:
        with self._in_hand:
            if not self._has(run):
                return False
            self._told = self._told or reason
            if self._child is not None:
                self._child.terminate()
        return True

    def kill(self, run: Run) -> bool:
        with self._in_hand:
            if self._has(run):
                self._told = self._told or "the run was given up"
                if self._child is not None:
                    self._child.kill()
        return True

    def abort(self) -> bool:
        self._aborted = True
        child = self._child
        if child is not None:
            child.kill()
        return True

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _has(self, run: Run) -> bool:
        return self._run is not None and attempt_key(self._run) == attempt_key(run)

    def _after_signal(self, outcome: Outcome, reason: str) -> Outcome:
        """Let go of a child that may get its signal any moment, and return how the run ended."""
        self._discard_child()
        if isinstance(outcome.error, SystemExit):  # from a signal handler of the job's own
            return outcome._replace(kind=OutcomeKind.CANCELLED, reason=reason)
        return outcome

    def _attempt(self, run: Run) -> Outcome:
        not_started = self._begin(run)
        if not_started is not None:
            return not_started
        arounds = self._arounds()
        return copy_context().run(self._send_enclosed, run, arounds) if arounds else self._send(run)

    def _send_enclosed(self, run: Run, arounds: Sequence[Around]) -> Outcome:
        end = begin_all(arounds, run, self._clock.now())
        outcome = self._send(run, for_child(arounds, run))
        end(outcome)
        return outcome

    def _send(self, run: Run, inner: Sequence[Around] = ()) -> Outcome:
        was_idle = self._child is not None
        try:
            child = self._ready_child()
        except BaseException as error:
            return self._lost(error, "the worker process could not be started")
        if self._told is not None:  # before there was a child that could be signalled
            return cancelled(self._told)
        outcome = self._ask(child, run, self._clock.now(), inner)
        if was_idle and child.died_idle and outcome.kind is OutcomeKind.FAILED:
            return self._send(run, inner)  # to a new child, whose death is told of
        return outcome

    def _ready_child(self) -> Child:
        if self._child is None:
            self._child = Child(self._options)
            self._child.await_start()
        return self._child

    def _ask(self, child: Child, run: Run, started_at: datetime, inner: Sequence[Around]) -> Outcome:
        try:
            message = pack_call(run, started_at, inner)
        except Exception as error:
            return failed(unsendable(run, error))
        begun = self._clock.monotonic()
        try:
            reply = child.ask(message, partial(_hear, run))
        except Exception as error:
            return self._lost(error, "the worker process died", started_at, self._clock.monotonic() - begun)
        if child.tasks == self._options.max_tasks:
            self.close()
        return outcome_of(reply, started_at)

    def _lost(
        self, error: BaseException, reason: str, started_at: datetime | None = None, seconds: float = 0.0
    ) -> Outcome:
        self._discard_child()
        if self._aborted:
            return cancelled("ended by the shutdown of the executor", started_at, seconds)
        if self._told is not None:
            return cancelled(self._told, started_at, seconds)
        error.__traceback__ = None  # our own frames say nothing about the job
        return failed(error, started_at, seconds, reason)

    def _discard_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end(0.0)


def _hear(run: Run, note: Note) -> None:
    if note.run_id == run.id:  # else from a thread that an earlier run has left behind
        record_progress(run.id, note.progress)


def unsendable(run: Run, error: BaseException) -> TypeError:
    """Return the error of a run that cannot be packed, which says why."""
    problem = TypeError(
        f"job {run.job.id!r} cannot be sent to a worker process, its function or an argument does not pickle: "
        f"{type(error).__name__}: {error}"
    )
    problem.__cause__ = error
    return problem


class Child:
    """A child process and the pipe to it."""

    def __init__(self, options: ChildOptions) -> None:
        ours, theirs = options.context.Pipe()
        if sys.platform != "win32":  # under gevent they do not block, and the child would take that for our end
            for end in (ours, theirs):
                os.set_blocking(end.fileno(), True)
        self.tasks = 0
        self.died_idle = False
        """Whether the process died before it began what it was asked last."""
        self._connection: Connection = ours
        self._process = options.context.Process(
            target=serve,
            args=(theirs, options.initializer, options.initargs),
            name="goscheduler-worker",
            daemon=True,
        )
        try:
            self._process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()

    def await_start(self) -> None:
        """Wait until calls can be sent; raises what the initializer raised, or WorkerDied."""
        message = self._receive()
        if message != READY:
            raise open_error(pickle.loads(message))

    def ask(self, message: bytes, hear: Callable[[Note], None]) -> Reply:
        """Send a call and return the answer; raises WorkerDied if none comes. ``hear`` gets what is said before."""
        self.tasks += 1
        with suppress(OSError):  # then nothing comes back, and that tells more
            self._connection.send_bytes(message)
        self._await_beginning()
        while not isinstance(answer := pickle.loads(self._receive()), Reply):
            hear(answer)
        return answer

    def _await_beginning(self) -> None:
        try:
            begun = self._receive()
        except WorkerDied:
            self.died_idle = True
            raise
        assert begun == BEGUN

    def terminate(self) -> None:
        """Ask the process to end. Callable from another thread."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once. Callable from another thread."""
        self._process.kill()

    def end(self, seconds: float = END_SECONDS) -> None:
        """Hang up and give the process ``seconds`` to end by itself."""
        if seconds:
            with suppress(OSError):
                self._connection.send_bytes(GOODBYE)
            self._process.join(seconds)
        self._connection.close()
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self) -> bytes:
        while not wait_for_any([self._connection, self._process.sentinel], LOOK_SECONDS):
            if not self._process.is_alive():
                break
        with suppress(EOFError, OSError):
            # What the process sent before it died can still be read.
            if self._connection.poll():
                return self._connection.recv_bytes()
        raise self._death()

    def _death(self) -> WorkerDied:
        self._process.join(LOOK_SECONDS)
        code = self._process.exitcode
        return WorkerDied(f"the worker process {describe_end(code)}", code)


def describe_end(exit_code: int | None) -> str:
    """Return how a process ended, in words."""
    if exit_code is None:
        return "closed its connection without ending"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


def outcome_of(reply: Reply, started_at: datetime) -> Outcome:
    """Return the outcome that a child told of, with text in place of what cannot be brought over."""
    if reply.error is not None:
        error = open_error(reply.error)
        return Outcome(reply.kind, None, error, reply.traceback, started_at, reply.seconds, reply.reason)
    result, reason = _open_result(reply.result)
    return Outcome(reply.kind, result, None, reply.traceback, started_at, reply.seconds, reason or reply.reason)


def open_error(parcel: Parcel) -> BaseException:
    """Return the exception of a child, or a :class:`RemoteError` with its text."""
    try:
        error = parcel.open()
    except Exception:
        error = None
    return error if isinstance(error, BaseException) else RemoteError(parcel.type_name, parcel.text, parcel.lineage)


def _open_result(parcel: Parcel | None) -> tuple[object, str]:
    if parcel is None:
        return None, ""
    try:
        return parcel.open(), ""
    except Exception as error:
        text = parcel.text or f"<{parcel.type_name} object>"
        return text, f"the return value could not be brought over ({type(error).__name__}: {error}); this is its text"
