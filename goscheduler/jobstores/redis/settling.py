"""Settling in the Redis store: how runs end, what follows them, and the runs of owners whose lease has lapsed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goscheduler.codec import CodecError
from goscheduler.jobstores._shared.decisions import allowed, log_unreadable_run
from goscheduler.jobstores._shared.owner_info import host_of
from goscheduler.jobstores.redis.rows import Rows, RunState, dumps, json_text
from goscheduler.jobstores.redis.scripts import ScriptClient
from goscheduler.runs.model import Settlement

if TYPE_CHECKING:
    from goscheduler.runs.model import Run


class Settling:
    """Settles for one store."""

    def __init__(self, scripts: ScriptClient, rows: Rows, logger: logging.Logger) -> None:
        self._scripts = scripts
        self._rows = rows
        self._logger = logger

    def settle(self, settlements: Sequence[Settlement], lapsed_owners: Sequence[str] = ()) -> list[Settlement]:
        """Write how runs ended, and return those that were refused. Forget lapsed owners that have no runs left."""
        rows, texts = [], []
        for settlement in settlements:
            row, text = self._rows.settlement(settlement)
            rows.append(row)
            texts.append(text)
        refused = self._scripts.call_json("settle", None, dumps(list(lapsed_owners)), dumps(rows), "\0".join(texts))
        return [settlements[index] for index in refused]

    def recover(self, now: datetime, decide: Callable[[Run, str], Settlement]) -> list[Settlement]:
        """Give up the owners whose lease has lapsed, and settle what they had."""
        found = self._scripts.call_json("lost", now)
        settlements: list[Settlement] = []
        for _, info, runs in found:
            host = host_of(info)
            settlements += filter(None, [self._decided(each, host, decide) for each in runs])
        if not found:
            return []
        refused = {id(settlement) for settlement in self.settle(settlements, [owner for owner, _, _ in found])}
        return [settlement for settlement in settlements if id(settlement) not in refused]

    def _decided(
        self, lost: Sequence[Any], host: str, decide: Callable[[Run, str], Settlement]
    ) -> Settlement | None:
        run_id, state_text, text = lost
        try:
            state = RunState.read(state_text)
            run = self._rows.run(run_id, state, text)
        except CodecError as error:
            log_unreadable_run(self._logger, run_id, error)
            self._scripts.call("put_aside", None, json_text(str(error)), run_id)
            return None
        return allowed(decide(run, host), bool(state.revoked or state.cancel))
