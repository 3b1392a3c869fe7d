"""The one task by which the tasks of Django run: it finds theirs, calls it, and keeps what it returns as JSON."""

from __future__ import annotations

from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, cast

from goscheduler.contrib.django import scheduler
from goscheduler.contrib.django._task_api import (
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    task_finished,
    task_started,
)
from goscheduler.contrib.django._task_results import TASK_NAME, Call, keep_result
from goscheduler.errors import described
from goscheduler.executors.call import format_frames
from goscheduler.executors.context import RunCancelled, run_in_hand
from goscheduler.runs.records import error_type_of
from goscheduler.runs.retry import RetryLater, Snooze
from goscheduler.tasks import task

if TYPE_CHECKING:
    from goscheduler.runs.model import Run
    from goscheduler.schedulers.base import BaseScheduler

#: A task says so from inside; it has not failed, and the end of its run comes later.
_WISHES = (Snooze, RetryLater, RunCancelled)


@task(TASK_NAME)
def run_task(**stored: Any) -> str:
    """Call a task, and return its result as JSON."""
    call, run, here = Call(**stored), run_in_hand(), _scheduler_here()
    found = call.task()
    sender = type(found.get_backend())
    result = _result_under_way(call, run, found, here)
    task_started.send(sender, task_result=result)
    context = (TaskContext(task_result=result),) if found.takes_context else ()
    try:
        text = keep_result(run.job.id, found.call(*context, *call.args, **call.kwargs), here)
    except _WISHES:
        raise
    except BaseException as error:
        _finish(result, TaskResultStatus.FAILED, here, error)
        task_finished.send(sender, task_result=result)
        raise
    _finish(result, TaskResultStatus.SUCCESSFUL, here)
    task_finished.send(sender, task_result=result)
    return text


def _scheduler_here() -> BaseScheduler | None:
    """Return the scheduler of the worker; None in the child of a process pool, which has none."""
    return None if parent_process() is not None else cast("BaseScheduler", scheduler)


def _result_under_way(call: Call, run: Run, found: Any, here: BaseScheduler | None) -> Any:
    started_at = run.due_at if here is None else here.clock.now()
    return TaskResult(
        task=found, id=run.job.id, status=TaskResultStatus.RUNNING, enqueued_at=call.enqueued_at,
        started_at=started_at, last_attempted_at=started_at, finished_at=None, args=call.args, kwargs=call.kwargs,
        backend=call.backend, errors=[], worker_ids=[*_earlier_owners(run, here), run.owner or ""],
    )  # fmt: skip


def _earlier_owners(run: Run, here: BaseScheduler | None) -> list[str]:
    """Return which workers have tried before; only their number, where the store cannot be asked."""
    if run.attempt == 1 or here is None:
        return [""] * (run.attempt - 1)
    return [record.owner or "" for record in reversed(here.runs(run.job.id)) if record.started_at is not None]


def _finish(result: Any, status: Any, here: BaseScheduler | None, error: BaseException | None = None) -> None:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", result.started_at if here is None else here.clock.now())
    if error is not None:
        path = error_type_of(error)
        frames = f"{format_frames(error.__traceback__)}{described(error)}"
        result.errors.append(
            TaskError(exception_class_path=path if "." in path else f"builtins.{path}", traceback=frames)
        )
