"""Lines that a job logs by structlog say which job and run they are of. It needs the extra ``structlog``.

::

    BackgroundScheduler(around=["goscheduler.contrib.structlog:bind_run"])

structlog has to merge context variables: ``structlog.contextvars.merge_contextvars`` is one of its default processors.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from goscheduler.contrib._extras import needs

if TYPE_CHECKING:
    from goscheduler.executors.context import CurrentRun


def bind_run(run: CurrentRun) -> AbstractContextManager[Any]:
    """Bind ``job_id``, ``run_id``, ``attempt`` and ``scheduled_at`` for what is logged within a run."""
    with needs("structlog", "structlog"):
        from structlog.contextvars import bound_contextvars

    return bound_contextvars(
        job_id=run.job_id, run_id=run.run_id, attempt=run.attempt, scheduled_at=run.scheduled_at.isoformat()
    )
