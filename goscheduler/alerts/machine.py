"""How the state of an alert about one target changes; pure.

==========  =====================================  ========================================================
state       what is found                          what follows
==========  =====================================  ========================================================
ok          broken                                 pending, or firing at once if the rule holds off no time
pending     not broken                             ok
pending     broken for as long as the rule says    firing: a new episode, and a notice is owed
firing      broken                                 a reminder or an escalation is owed when its time has come
firing      not broken                             ok, and a recovery is owed if somebody was told
firing      not broken, 3 turns in 10 minutes      stays firing until it was calm for 10 minutes
==========  =====================================  ========================================================

While it is silenced nothing new is told; the end of what was told is told all the same.
"""

from __future__ import annotations

from typing import NamedTuple

from goscheduler.alerts.model import LONGEST_MESSAGE, Breach, NoticeKind, Owed, Phase, State

SECOND = 1_000_000
#: So many turns within so long hold an alert at firing, until it was calm for as long.
FLAPPING_TURNS, FLAPPING_WITHIN = 3, 600 * SECOND
MOST_TURNS = 10


class Policy(NamedTuple):
    """What is done about the breaches of one rule of an alert."""

    to: tuple[str, ...]
    """The channels that are told."""
    hold_off: int = 0
    """For how many microseconds a rule has to be broken before that is told."""
    repeat: int | None = None
    """How long after the last notice a reminder follows."""
    escalate_after: int | None = None
    escalate_to: tuple[str, ...] = ()


def advance(state: State, breach: Breach | None, now: int, policy: Policy, silenced: bool) -> State:
    """Return the state that follows; the very same one if nothing changes."""
    if breach is None:
        return _calm(state, now, policy)
    if state.phase is Phase.OK:
        state = state._replace(phase=Phase.PENDING, since=now, message=breach.message[:LONGEST_MESSAGE])
    if state.phase is Phase.PENDING:
        return _fire(state, breach, now, policy, silenced) if now - state.since >= policy.hold_off else state
    if state.calm_since is not None:
        state = state._replace(calm_since=None, turns=_turned(state, now))
    return state if silenced else _keep_firing(state, breach, now, policy)


def _fire(state: State, breach: Breach, now: int, policy: Policy, silenced: bool) -> State:
    fired = state._replace(
        phase=Phase.FIRING, since=now, episode=now, message=breach.message[:LONGEST_MESSAGE],
        cause=breach.cause, told_at=None, escalated=False, calm_since=None, turns=_turned(state, now),
        acknowledged=None, group="",
    )  # fmt: skip
    return fired if silenced else _owing(fired, NoticeKind.FIRING, now, policy.to, fired.message)


def _keep_firing(state: State, breach: Breach, now: int, policy: Policy) -> State:
    """Return it with what is to be told of an alert that goes on."""
    message = breach.message[:LONGEST_MESSAGE]
    if state.told_at is None:  # it was silenced when it began
        return _owing(state, NoticeKind.FIRING, now, policy.to, message)
    if is_acknowledged(state, now):
        return state
    if not state.escalated and policy.escalate_after is not None and now - state.since >= policy.escalate_after:
        owing = _owing(state, NoticeKind.ESCALATION, now, policy.escalate_to, message)
        return owing._replace(escalated=True)
    if policy.repeat is not None and now - state.told_at >= policy.repeat:
        return _owing(state, NoticeKind.REMINDER, now, _told(state, policy), message)
    return state


def _calm(state: State, now: int, policy: Policy) -> State:
    if state.phase is Phase.OK:
        return state
    if state.phase is Phase.PENDING:
        return state._replace(phase=Phase.OK, since=now)
    if _flaps(state, now):
        return state._replace(calm_since=now, turns=_turned(state, now)) if state.calm_since is None else state
    return _recover(state, now, policy)


def _flaps(state: State, now: int) -> bool:
    if state.calm_since is not None:
        return now - state.calm_since < FLAPPING_WITHIN
    return sum(now - turn < FLAPPING_WITHIN for turn in state.turns) >= FLAPPING_TURNS


def _recover(state: State, now: int, policy: Policy) -> State:
    owing = state
    if state.told_at is not None:
        owing = _owing(state, NoticeKind.RECOVERY, now, _told(state, policy), state.message)
    return owing._replace(
        phase=Phase.OK, since=now, told_at=None, calm_since=None, turns=_turned(state, now), acknowledged=None
    )


def _owing(state: State, kind: NoticeKind, now: int, to: tuple[str, ...], message: str) -> State:
    owed = Owed(kind, now, state.episode, to, message, state.since, state.group)
    return state._replace(told_at=now, owed=(*state.owed, owed) if to else state.owed)


def _told(state: State, policy: Policy) -> tuple[str, ...]:
    """Return the channels that know of this episode."""
    return tuple(dict.fromkeys((*policy.to, *policy.escalate_to))) if state.escalated else policy.to


def _turned(state: State, now: int) -> tuple[int, ...]:
    return (*state.turns, now)[-MOST_TURNS:]


def is_acknowledged(state: State, now: int) -> bool:
    """Tell whether somebody has said that they know, and that has not ended."""
    acknowledged = state.acknowledged
    return acknowledged is not None and (acknowledged.until is None or now < acknowledged.until)
