"""Operations on alerts: what fires, that somebody knows, and for how long nothing is told."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from goscheduler.alerts.board import Board, Silence, silenced_by
from goscheduler.alerts.machine import is_acknowledged
from goscheduler.alerts.model import Acknowledgement, Phase, State
from goscheduler.errors import InvalidArgument
from goscheduler.ops.access import Role
from goscheduler.ops.errors import Changed, NotFound
from goscheduler.ops.model_around import AlertView, SilenceView
from goscheduler.ops.operation import Call, operation
from goscheduler.ops.schema import MOMENT, Choice, Text, Whole
from goscheduler.times import UTC, from_micros, to_micros

STATES = tuple(phase.value for phase in Phase)
#: Those that fire come first.
_ORDER = {Phase.FIRING: 0, Phase.PENDING: 1, Phase.OK: 2}

AlertId = Annotated[str, Text("The id of what fires.", 100)]
Until = Annotated[str | None, MOMENT]


@operation(Role.VIEWER, whole=True)
def alerts(
    call: Call,
    state: Annotated[str | None, Choice("Only in this state.", STATES)] = None,
    limit: Annotated[int, Whole("How many at most.", 1, 1000)] = 200,
) -> list[AlertView]:
    """Return where alerts stand: those that fire first, and those that were ok for less than a day."""
    board, now = _board(call), to_micros(call.now)
    silences = board.silences(now)
    states = [kept.state for kept in board.states().values()]
    wanted = [each for each in states if state in (None, each.phase.value)]
    wanted.sort(key=lambda each: (_ORDER[each.phase], each.alert, each.rule, each.target))
    return [_view(each, silenced_by(each, silences), now) for each in wanted[:limit]]


@operation(Role.OPERATOR, acts=True, whole=True)
def ack_alert(call: Call, id: AlertId, until: Until = None) -> AlertView:
    """Say that somebody knows: no reminder and no escalation follow, for as long as it fires or until a moment."""
    board, end = _board(call), _end(call, until)
    acknowledgement = Acknowledgement(call.by, call.reason, end)

    def acknowledge(state: State) -> State:
        return state._replace(acknowledged=acknowledgement) if state.phase is Phase.FIRING else state

    found = board.edit(id, acknowledge)
    if found is None:
        raise NotFound(f"there is no alert {id!r}")
    if found.phase is not Phase.FIRING:
        raise Changed("it does not fire any more")
    now = to_micros(call.now)
    return _view(found, silenced_by(found, board.silences(now)), now)


@operation(Role.OPERATOR, acts=True, whole=True)
def silence_alert(
    call: Call,
    id: Annotated[str, Text("The name of an alert, or the id of what fires.", 100)],
    until: Until = None,
) -> SilenceView:
    """Tell nothing new of an alert until a moment, given as a time or a length of time; without one, tell it again."""
    board, end = _board(call), _end(call, until)
    if end is None:
        board.unsilence(id)
    else:
        board.silence(Silence(id, end, call.by, call.reason))
    return SilenceView(id, call.by, call.reason, _moment(end))


def _board(call: Call) -> Board:
    return Board(call.source.stores[call.source.home])


def _end(call: Call, until: str | None) -> int | None:
    moment = call.moment("until", until, ahead=True)
    if moment is not None and moment <= call.now:
        raise InvalidArgument("until must lie ahead", field="until", value=until)
    return None if moment is None else to_micros(moment)


def _view(state: State, silence: Silence | None, now: int) -> AlertView:
    known = state.acknowledged if is_acknowledged(state, now) else None
    return AlertView(
        state.id, state.alert, state.rule, state.target, state.phase.value, state.message,
        from_micros(state.since, UTC), _moment(state.told_at),
        known.by if known else None, _moment(known.until) if known else None, known.reason if known else None,
        silence.by if silence else None, _moment(silence.until) if silence else None,
        silence.reason if silence else None, len(state.owed),
    )  # fmt: skip


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros, UTC)
