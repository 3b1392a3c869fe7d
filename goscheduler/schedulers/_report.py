"""The report of this process, which each renewal of a lease takes along, and what other processes ask of it."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING

from goscheduler._version import __version__
from goscheduler.executors.context import progress_of
from goscheduler.runs.processes import ACTIONS, ASK, MOST_RUNS, ExecutorUse, Report, RunningRun, report_text, shortened

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.schedulers._engine import Engine


def report_of(engine: Engine, alias: str, owner: str) -> str:
    """Return what this process tells of itself to the store ``alias``, which knows it as ``owner``."""
    begun = engine.running.begun()
    used = Counter(run.job.executor for run, _ in begun)
    executors = {name: ExecutorUse(used[name], max(0, room)) for name, room in engine.last_room.items()}
    ours = [(started_at, run) for run, started_at in begun if run.owner == owner]
    oldest = heapq.nsmallest(MOST_RUNS, ours, key=lambda each: each[0])
    runs = [RunningRun(run.id, run.job.id, started_at, *shortened(progress_of(run.id))) for started_at, run in oldest]
    return report_text(
        Report(
            engine.state(), __version__, engine.clock.now(), executors, runs, len(ours) <= MOST_RUNS,
            engine.statistics.current_figures(alias),
        )
    )  # fmt: skip


def carry_out_request(engine: Engine, alias: str, store: BaseJobStore, owner: str) -> bool:
    """Do what another process has asked of this one by a note in a store; false if there is nothing."""
    action = store.read_note(ASK, owner)
    if action is None:
        return False
    store.remove_note(ASK, owner)
    if action in ACTIONS:
        engine.logger.info('Another process asks this one to %s, by a note in job store "%s"', action, alias)
        engine.change_state(action)
    return True
