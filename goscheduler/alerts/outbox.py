"""Sends the notices that states owe, each once: whoever claims one sends it, and marks it when it was sent.

A notice is claimed for 30 seconds. If its sender dies, somebody else sends it, under the same ``dedup_key``: at least
once, and never lost. Notices that have a cause in common and are due within 30 seconds are sent as one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from goscheduler.alerts.board import Board, Kept
from goscheduler.alerts.machine import SECOND
from goscheduler.alerts.model import Notice, NoticeKind, Owed, Phase, State, dedup_key
from goscheduler.errors import described, survivable
from goscheduler.logs import guarded_logger
from goscheduler.times import UTC, from_micros

if TYPE_CHECKING:
    from goscheduler.alerts.channels import Channel

#: For how long a notice is claimed; after failures it is left alone for as long, then twice as long, up to a limit.
CLAIM, LONGEST_PAUSE = 30 * SECOND, 600 * SECOND
#: A channel that does not take a notice is given up after so many tries, which are half a day.
MOST_TRIES = 75
#: So many targets are named.
NAMED = 20

_logger = guarded_logger("goscheduler.alerts")


class Outbox:
    """Sends what the states on a board owe."""

    def __init__(
        self, alerts: Collection[str], channels: Mapping[str, Channel], grouping: int, now: Callable[[], int],
        unit: int = 1,
    ) -> None:  # fmt: skip
        self._alerts = alerts
        """The alerts whose notices these channels are for: others may have channels of the same names."""
        self._channels = channels
        self._grouping = grouping
        self._now = now
        self._unit = unit
        """Episodes that begin within so many microseconds have one key, where each process has states of its own."""

    def flush(self, board: Board) -> None:
        """Send everything that is due and that nobody else is sending."""
        states = [kept for kept in board.states().values() if kept.state.alert in self._alerts]
        for group in due_groups(states, self._now(), self._grouping, self._channels):
            self._send_group(board, group)

    def _send_group(self, board: Board, group: Sequence[Kept]) -> None:
        claim, now = uuid4().hex, self._now()
        first = group[0].state
        name = first.owed[0].group or dedup_key(first, first.owed[0].episode // self._unit)
        claimed = [(kept, _claimed(kept.state, name, claim, now + CLAIM)) for kept in group]
        ours = [state for kept, state in claimed if board.change(kept, state)]
        if not ours:
            return
        notice = notice_of(ours, name)
        sent = {channel for channel in ours[0].owed[0].left if self._send(channel, notice)}
        for state in ours:
            board.edit(state.id, partial(_marked, claim=claim, sent=sent, now=self._now()))

    def _send(self, name: str, notice: Notice) -> bool:
        channel = self._channels.get(name)
        if channel is None:
            return False
        try:
            channel.send(notice)
        except BaseException as error:
            if not survivable(error):
                raise
            _logger.warning('Channel "%s" did not take the notice %s: %s', name, notice.title, described(error))
            return False
        return True


class _Group(NamedTuple):
    """What notices have in common that are sent as one."""

    alert: str
    rule: str
    kind: NoticeKind
    left: tuple[str, ...]
    common: str


def due_groups(
    states: Iterable[Kept], now: int, grouping: int, channels: Iterable[str]
) -> list[list[Kept]]:
    """Return the states whose first notice is to be sent now, those together that are told together."""
    kept, known = list(states), set(channels)
    unsettled = _unsettled_groups(kept)
    groups: dict[_Group, list[Kept]] = {}
    for each in sorted(kept, key=lambda each: each.state.id):
        state = each.state
        owed = state.owed[0] if state.owed else None
        if owed is not None and owed.not_before <= now and known & set(owed.left) and not _waits(state, unsettled):
            common = owed.group or (f"cause {state.cause}" if owed.kind is NoticeKind.FIRING else f"id {state.id}")
            key = _Group(state.alert, state.rule, owed.kind, owed.left, common)
            groups.setdefault(key, []).append(each)
    return [group for group in groups.values() if _is_ripe(group, now, grouping)]


def _is_ripe(group: Sequence[Kept], now: int, grouping: int) -> bool:
    return any(each.state.owed[0].at + grouping <= now or each.state.owed[0].tries for each in group)


def _unsettled_groups(kept: Iterable[Kept]) -> set[str]:
    """Return the groups of which a member still fires: that the others have recovered is told with it."""
    return {each.state.group for each in kept if each.state.phase is Phase.FIRING and each.state.group}


def _waits(state: State, unsettled: set[str]) -> bool:
    owed = state.owed[0]
    alone = len(state.owed) == 1  # else what is behind would wait as well
    return owed.kind is NoticeKind.RECOVERY and alone and owed.group in unsettled


def _claimed(state: State, group: str, claim: str, until: int) -> State:
    first = state.owed[0]._replace(claim=claim, not_before=until)
    owed = [_in_group(each, first.episode, group) for each in (first, *state.owed[1:])]
    is_current = first.episode == state.episode
    return state._replace(owed=tuple(owed), group=group if is_current else state.group)


def _in_group(owed: Owed, episode: int, group: str) -> Owed:
    return owed._replace(group=group) if owed.episode == episode else owed


def _marked(state: State, claim: str, sent: set[str], now: int) -> State:
    """Return a state without what was sent; the very same one if somebody else has taken over."""
    first = state.owed[0] if state.owed else None
    if first is None or first.claim != claim:
        return state
    left = tuple(name for name in first.left if name not in sent)
    tries = first.tries + 1
    if left and tries >= MOST_TRIES:
        _logger.error("Notice of %s about %s was given up: %s did not take it", state.alert, state.target, left)
    if not left or tries >= MOST_TRIES:
        return state._replace(owed=state.owed[1:])
    pause = min(CLAIM * 2 ** min(first.tries, 10), LONGEST_PAUSE)
    waiting = first._replace(left=left, claim="", not_before=now + pause, tries=tries)
    return state._replace(owed=(waiting, *state.owed[1:]))


def notice_of(states: Sequence[State], name: str) -> Notice:
    """Return what is told of states together, by the first notice that each of them owes."""
    first = states[0]
    owed = first.owed[0]
    targets = sorted(state.target for state in states)
    return Notice(
        owed.kind, first.alert, first.rule, targets[:NAMED], len(targets), owed.message,
        from_micros(min(state.owed[0].since for state in states), UTC), from_micros(owed.at, UTC), name,
    )  # fmt: skip
