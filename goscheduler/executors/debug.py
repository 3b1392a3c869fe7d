"""An executor without concurrency, for debugging and for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goscheduler.executors.base import BaseExecutor, run_job

if TYPE_CHECKING:
    from goscheduler.runs.model import Run

__all__ = ["BaseExecutor", "DebugExecutor", "run_job"]


class DebugExecutor(BaseExecutor):
    """Runs each job at once, in the thread that submits it: while a job runs, the scheduler waits."""

    def submit(self, run: Run) -> None:
        self._report(run, self._attempt(run))
