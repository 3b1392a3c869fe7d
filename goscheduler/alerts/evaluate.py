"""One evaluation: what is broken, and what follows for the states of alerts.

The states are read before the facts are gathered: a process that is late writes nothing over what a later look has
found, because its compare-and-set fails. A rule whose facts cannot be gathered changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from goscheduler.alerts.board import Board, Kept, Silence, silenced_by
from goscheduler.alerts.gather import ProcessMemory, gather
from goscheduler.alerts.machine import advance
from goscheduler.alerts.model import Breach, State
from goscheduler.errors import described, survivable
from goscheduler.logs import guarded_logger
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.alerts.alert import Alert
    from goscheduler.alerts.rules import Rule
    from goscheduler.schedulers.base import BaseScheduler

#: So many targets of one rule are followed.
MOST_TARGETS = 1000

_logger = guarded_logger("goscheduler.alerts")


class Evaluator:
    """Evaluates alerts on what a scheduler or an observer sees."""

    def __init__(self, scheduler: BaseScheduler, alerts: Sequence[Alert]) -> None:
        self._scheduler = scheduler
        self._alerts = alerts

    def evaluate(self, board: Board, only: Sequence[str] | None = None) -> None:
        """Bring the states on a board up to date; ``only`` those of some rules."""
        known = board.states()
        now = to_micros(self._scheduler.clock.now())
        silences = board.silences(now)
        memory = ProcessMemory(board.recall_processes())
        remembered = memory.text
        for alert in self._alerts:
            for rule in alert.rules:
                if only is None or rule.name in only:
                    self._follow(board, alert, rule, known, silences, memory)
        if memory.text != remembered:
            board.remember_processes(memory.text)
        board.forget_old(known, now)

    def _follow(
        self, board: Board, alert: Alert, rule: Rule, known: Mapping[str, Kept], silences: Mapping[str, Silence],
        memory: ProcessMemory,
    ) -> None:  # fmt: skip
        try:
            facts = gather(self._scheduler, alert.about, rule.needs, memory)
            breaches = {breach.target: breach for breach in list(rule.find(facts))[:MOST_TARGETS]}
        except BaseException as error:
            if not survivable(error):
                raise
            _logger.warning('Alert "%s": %s cannot be evaluated: %s', alert.name, rule.name, described(error))
            return
        now, policy = to_micros(facts.now), alert.policy(rule)
        for kept in _states_of(alert, rule, known, breaches):
            silenced = silenced_by(kept.state, silences) is not None
            after = advance(kept.state, breaches.get(kept.state.target), now, policy, silenced)
            if after is not kept.state and board.change(kept, after) and after.phase is not kept.state.phase:
                _logger.info(
                    'Alert "%s": %s of "%s" is %s: %s', alert.name, rule.name, after.target, after.phase.value,
                    after.message,
                )  # fmt: skip


def _states_of(
    alert: Alert, rule: Rule, known: Mapping[str, Kept], breaches: Mapping[str, Breach]
) -> list[Kept]:
    """Return the states of all targets that are broken, or that somebody knows of."""
    found = {
        kept.state.target: kept
        for kept in known.values()
        if (kept.state.alert, kept.state.rule) == (alert.name, rule.name)
    }
    fresh = {target: Kept(State(alert.name, rule.name, target), None) for target in breaches}
    return list({**fresh, **found}.values())
