"""The far side of executors on engines: what their workers call, in processes that know nothing of a scheduler."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors._child import reply_of
from goscheduler.executors.call import call, failed
from goscheduler.executors.context import forget_attempt, tell_attempt_to_end

if TYPE_CHECKING:
    from goscheduler.runs.model import Outcome

#: The attempts that go on in this process, by id and fence of their run.
_here: set[tuple[str, int]] = set()


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
    try:
        run, started_at, arounds = pickle.loads(message)
    except BaseException as error:
        return failed(error)
    with expect(run.id, run.fence):
        outcome: Outcome = call(run, SYSTEM_CLOCK, started_at, arounds)
        return outcome
