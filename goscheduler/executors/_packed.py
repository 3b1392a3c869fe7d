"""The far side of executors on engines: what their workers call, in processes that know nothing of a scheduler."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors._child import Parcel, Reply, reply_of
from goscheduler.executors.call import call, failed, shortened
from goscheduler.executors.context import forget_attempt, tell_attempt_to_end
from goscheduler.runs.model import OutcomeKind

if TYPE_CHECKING:
    from goscheduler.runs.model import Outcome

#: The reason of an attempt that ends because its process was told to.
TERMINATED = "its process was told to end by SIGTERM"
#: The attempts that go on in this process, by id and fence of their run.
_here: set[tuple[str, int]] = set()


class Terminated(SystemExit):
    """Ends the attempt that goes on in the main thread of a process which was told to end."""


def run_packed(message: bytes) -> bytes:
    """Return the pickled reply to a packed call, having made it; never raises what the job raises."""
    return pickle.dumps(reply_of(_outcome_of(message)))


def tell_packed(run_id: str, fence: int, reason: str) -> bool:
    """Make an attempt that goes on in this process see that it is to end; False if there is none."""
    key = (run_id, fence)
    if key not in _here:
        return False
    tell_attempt_to_end(key, reason)
    return True


def terminate_packed() -> NoReturn:
    """Make all attempts that go on in this process see that they are to end, and end the one of the caller.

    :raises Terminated: always; the reply of that attempt says "cancelled"
    """
    for run_id, fence in list(_here):
        tell_packed(run_id, fence, TERMINATED)
    raise Terminated(143)


def shortened_reply(message: bytes, limit: int) -> bytes:
    """Return a reply of at most ``limit`` bytes: what does not fit comes as text, and is cut."""
    if len(message) <= limit:
        return message
    reply: Reply = pickle.loads(message)
    for room in (1000, 300, 100):
        error, result = _as_text(reply.error, room), _as_text(reply.result, room)
        short = pickle.dumps(reply._replace(error=error, result=result, traceback=shortened(reply.traceback, room)))
        if len(short) <= limit:
            break
    return short


def _as_text(parcel: Parcel | None, room: int) -> Parcel | None:
    if parcel is None or (parcel.pickled is not None and len(parcel.pickled) <= room):
        return parcel
    text = parcel.text
    if not text and parcel.pickled is not None:
        text = repr(pickle.loads(parcel.pickled))
    return parcel._replace(pickled=None, text=shortened(text, room))


@contextmanager
def expect(run_id: str, fence: int) -> Iterator[None]:
    """Take an attempt as going on here from now on, so that it can be told to end before it has been unpacked."""
    key = (run_id, fence)
    _here.add(key)
    try:
        yield
    finally:
        _here.discard(key)
        forget_attempt(key)


def _outcome_of(message: bytes) -> Outcome:
    outcome = _outcome_of_call(message)
    if isinstance(outcome.error, Terminated):
        return outcome._replace(kind=OutcomeKind.CANCELLED, error=None, reason=TERMINATED)
    return outcome


def _outcome_of_call(message: bytes) -> Outcome:
    try:
        run, started_at, arounds = pickle.loads(message)
    except BaseException as error:
        return failed(error)
    with expect(run.id, run.fence):
        outcome: Outcome = call(run, SYSTEM_CLOCK, started_at, arounds)
        return outcome
