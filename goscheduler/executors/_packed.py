"""The far side of executors on engines: what their workers call, in processes that know nothing of a scheduler."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from goscheduler.clock import SYSTEM_CLOCK
from goscheduler.executors._child import reply_of
from goscheduler.executors.call import call, failed
from goscheduler.executors.context import attempt_key, tell_attempt_to_end, unmark_given_up

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


def _outcome_of(message: bytes) -> Outcome:
    try:
        run, started_at, arounds = pickle.loads(message)
    except BaseException as error:
        return failed(error)
    key = attempt_key(run)
    _here.add(key)
    try:
        outcome: Outcome = call(run, SYSTEM_CLOCK, started_at, arounds)
        return outcome
    finally:
        _here.discard(key)
        unmark_given_up(run)
