"""The states of an alert: what is told when, table by table, without a store."""

from __future__ import annotations

import pytest

from goscheduler.alerts.machine import FLAPPING_WITHIN, SECOND, Policy, advance
from goscheduler.alerts.model import Acknowledgement, Breach, NoticeKind, Owed, Phase, State, dedup_key, read_state

FRESH = State("billing", "failures", "nightly")
BROKEN = Breach("nightly", "it fails", "ValueError")
ESCALATION, RECOVERY = NoticeKind.ESCALATION, NoticeKind.RECOVERY
MINUTE = 60 * SECOND


def played(story, policy, state=FRESH, silenced=()):
    """Return the last state, and what was owed when: ``story`` says minute by minute whether the rule is broken."""
    told = []
    for minute, mark in enumerate(story):
        before = len(state.owed)
        state = advance(state, BROKEN if mark == "x" else None, minute * MINUTE, policy, minute in silenced)
        told += [(minute, owed.kind.value, owed.left) for owed in state.owed[before:]]
    return state, told


OPS, PAGER = ("ops",), ("pager",)


@pytest.mark.parametrize(
    ("story", "policy", "silenced", "expected"),
    [
        ("....", Policy(OPS), (), []),
        ("x...", Policy(OPS), (), [(0, "firing", OPS), (1, "recovery", OPS)]),
        ("xxxx", Policy(OPS), (), [(0, "firing", OPS)]),
        ("xx.xxxx", Policy(OPS, hold_off=2 * MINUTE), (), [(5, "firing", OPS)]),
        ("xx.xx.", Policy(OPS, hold_off=2 * MINUTE), (), []),
        ("xxxxxx.", Policy(OPS, repeat=2 * MINUTE), (),
         [(0, "firing", OPS), (2, "reminder", OPS), (4, "reminder", OPS), (6, "recovery", OPS)]),
        ("xxxx.", Policy(OPS, escalate_after=2 * MINUTE, escalate_to=PAGER), (),
         [(0, "firing", OPS), (2, "escalation", PAGER), (4, "recovery", (*OPS, *PAGER))]),
        ("xxxxxx", Policy(OPS, repeat=2 * MINUTE, escalate_after=MINUTE, escalate_to=PAGER), (),
         [(0, "firing", OPS), (1, "escalation", PAGER), (3, "reminder", (*OPS, *PAGER)),
          (5, "reminder", (*OPS, *PAGER))]),
        ("xxxx.", Policy(OPS), (0, 1), [(2, "firing", OPS), (4, "recovery", OPS)]),
        ("xxxx.", Policy(OPS), range(4), []),
        ("xx.", Policy(OPS), (1, 2), [(0, "firing", OPS), (2, "recovery", OPS)]),
        ("x.", Policy(()), (), []),
    ],
)  # fmt: skip
def test_what_is_told_and_when(story, policy, silenced, expected):
    assert played(story, policy, silenced=silenced)[1] == expected


def test_an_alert_that_flaps_stays_firing_until_it_was_calm_for_ten_minutes():
    state, told = played("x.x." + "x.x.x" + "." * 10, Policy(OPS))
    assert told == [(0, "firing", OPS), (1, "recovery", OPS), (2, "firing", OPS)]
    assert state.phase is Phase.FIRING
    calm = state.calm_since
    state = advance(state, None, calm + FLAPPING_WITHIN - 1, Policy(OPS), silenced=False)
    assert state.phase is Phase.FIRING
    state = advance(state, None, calm + FLAPPING_WITHIN, Policy(OPS), silenced=False)
    assert (state.phase, state.owed[-1].kind) == (Phase.OK, RECOVERY)


def test_what_somebody_knows_is_neither_repeated_nor_escalated_until_that_ends():
    policy = Policy(OPS, repeat=2 * MINUTE, escalate_after=MINUTE, escalate_to=PAGER)
    state, _ = played("x", policy)
    known = state._replace(acknowledged=Acknowledgement("ann", "I look at it", 5 * MINUTE))
    assert advance(known, BROKEN, 5 * MINUTE - 1, policy, silenced=False) == known
    assert advance(known, BROKEN, 5 * MINUTE, policy, silenced=False).owed[-1].kind is ESCALATION
    recovered = advance(known, None, MINUTE, policy, silenced=False)
    assert (recovered.owed[-1].kind, recovered.acknowledged) == (RECOVERY, None)


def test_what_is_not_told_yet_says_what_is_broken():
    state = advance(FRESH, BROKEN, 0, Policy(OPS, hold_off=MINUTE), silenced=False)
    assert (state.phase, state.message, state.owed) == (Phase.PENDING, "it fails", ())


def test_each_episode_has_a_key_of_its_own():
    state, _ = played("x", Policy(OPS))
    again = advance(advance(state, None, MINUTE, Policy(OPS), False), BROKEN, 2 * MINUTE, Policy(OPS), False)
    keys = {dedup_key(each, each.episode) for each in (state, again, state._replace(target="other"))}
    assert len(keys) == 3


def test_nothing_changes_while_nothing_happens():
    state, _ = played("x", Policy(OPS))
    assert advance(state, BROKEN._replace(message="it still fails"), MINUTE, Policy(OPS), False) is state
    assert advance(FRESH, None, 0, Policy(OPS), False) is FRESH


def test_a_state_is_read_as_it_was_written_and_anything_else_is_none():
    state, _ = played("x.xx", Policy(OPS, repeat=MINUTE))
    known = state._replace(acknowledged=Acknowledgement("ann", "so", 7), group="g")
    assert read_state(known.text) == known
    assert isinstance(read_state(known.text).owed[0], Owed)
    assert [read_state(text) for text in ("", "[]", "{}", "null", '{"phase":"odd"}')] == [None] * 5
