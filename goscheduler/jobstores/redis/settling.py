"""Settling in the Redis store: how runs end, what follows them, and who is lost."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Container, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.codec import CodecError
from goscheduler.jobstores.redis.packing import Ends
from goscheduler.jobstores.redis.rows import Items, Rows, RunHead, dumps, quoted
from goscheduler.jobstores.redis.scripts import LOST, Link
from goscheduler.runs.model import Settlement

if TYPE_CHECKING:
    from goscheduler.runs.model import Run


class Settling:
    """Settles for one store."""

    def __init__(self, link: Link, rows: Rows, logger: logging.Logger) -> None:
        self._link = link
        self._rows = rows
        self._logger = logger
        self._in_doubt: set[tuple[str, int]] = set()
        """Run id and fence of what was sent while the connection broke: it may have been written."""

    def settle(self, settlements: Sequence[Settlement], owners: Sequence[str] = ()) -> list[Settlement]:
        """Write how runs ended, and return those that were refused. Forget owners that have nothing any more."""
        keys = {(settlement.attempt.run.id, settlement.attempt.run.fence) for settlement in settlements}
        each_once = len(keys) == len(settlements)
        try:
            refused, touched = self._send(settlements, owners, each_once)
            if touched:
                again = [settlement for settlement in settlements if settlement.attempt.run.id in touched]
                refused += self._send(again, (), False)[0]
        except LOST:
            self._in_doubt.update(keys)
            raise
        if self._in_doubt:
            self._in_doubt.difference_update(keys)
        return refused

    def _send(
        self, settlements: Sequence[Settlement], owners: Sequence[str], plainly: bool
    ) -> tuple[list[Settlement], Container[str]]:
        """Send ends, the plain ones as lists if that is allowed; return what was refused, and the ids of those of the
        plain ones that somebody has touched, about which nothing was written."""
        doubts, ends, items, single = self._in_doubt, Ends(), Items(), []
        for settlement in settlements:
            in_doubt = bool(doubts) and (settlement.attempt.run.id, settlement.attempt.run.fence) in doubts
            if plainly and not in_doubt and ends.has_room_for(settlement):
                ends.add(settlement)
            else:
                single.append(settlement)
                items.add(self._rows.settlement(settlement, in_doubt, items))
        answer = self._link.ask("settle", None, dumps(list(owners)), *ends.arguments(), *items.arguments())
        return [single[index] for index in answer["refused"]], set(answer["touched"])

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Give up the owners whose lease has lapsed, and settle what they had."""
        found = self._link.ask("lost", now)
        settlements: list[Settlement] = []
        for _, account, runs in found:
            host = _host(account)
            settlements += filter(None, [self._decided(each, host, decide) for each in runs])
        if not found:
            return []
        refused = {id(settlement) for settlement in self.settle(settlements, [owner for owner, _, _ in found])}
        return [settlement for settlement in settlements if id(settlement) not in refused]

    def _decided(
        self, lost: Sequence[Any], host: str, decide: Callable[[Run, str], Settlement]
    ) -> Settlement | None:
        run_id, head_text, text = lost
        try:
            run, head = self._rows.run(run_id, head_text, text)
        except CodecError as error:
            self._logger.error("Run %s is kept and cannot be run: %s", run_id, error)
            self._link.step("put_aside", None, quoted(str(error)), run_id)
            return None
        return _allowed(decide(run, host), head)


def _allowed(settlement: Settlement, head: RunHead) -> Settlement:
    """Return what may be written: nothing follows a run that was cancelled, or whose job was removed."""
    return settlement._replace(follow_up=None) if head.revoked or head.cancel else settlement


def _host(account: str) -> str:
    try:
        return str(json.loads(account)[0])
    except (IndexError, TypeError, ValueError):
        return ""
