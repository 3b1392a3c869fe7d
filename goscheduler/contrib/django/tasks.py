"""A backend for the tasks of Django: ``TASKS = {"default": {"BACKEND": "goscheduler.contrib.django.tasks.Backend"}}``.

A task becomes a job that runs once, in a transaction of Django if one is open. The worker of the project runs it, with
the retries, the timeout and the other options that ``OPTIONS`` or ``JOB_DEFAULTS`` name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.crypto import get_random_string

from goscheduler.contrib.django import scheduler
from goscheduler.contrib.django._task_api import (
    BaseTaskBackend,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from goscheduler.contrib.django._task_results import TASK_NAME, Call, result_of
from goscheduler.contrib.django._task_running import run_task
from goscheduler.errors import shown
from goscheduler.options import parse_options

__all__ = ["Backend", "priority_of"]

#: Letters and digits of an id.
ID_LENGTH = 32
#: Attempts that a result tells of.
MOST_ATTEMPTS = 1000
#: Options of a job that the backend sets itself.
OURS = ("priority", "executor", "auto_remove")


class Backend(BaseTaskBackend):  # type: ignore[misc]
    """Enqueues tasks as jobs, and reads their results from the history."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        where = f'TASKS["{alias}"]["OPTIONS"]'
        taken = next((name for name in OURS if name in self.options), None)
        if taken is not None:
            raise ImproperlyConfigured(f"{where}: {taken} follows from the task itself and cannot be given")
        try:
            parse_options(self.options, where=where)
        except (ValueError, TypeError) as error:
            raise ImproperlyConfigured(str(error)) from error

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Add a job that runs the task, and return its result, which is not there yet.

        :raises TypeError: if JSON has no such argument
        """
        self.validate_task(task)
        result = TaskResult(
            task=task, id=get_random_string(ID_LENGTH), status=TaskResultStatus.READY,
            enqueued_at=scheduler.clock.now(), started_at=None, last_attempted_at=None, finished_at=None,
            args=list(args), kwargs=dict(kwargs), backend=self.alias, errors=[], worker_ids=[],
        )  # fmt: skip
        call = Call(
            task.module_path, result.args, result.kwargs, self.alias, task.queue_name, task.priority, task.run_after,
            result.enqueued_at,
        )  # fmt: skip
        options = {"misfire_grace_time": None, **self.options}
        scheduler.add_job(
            run_task, "date", run_date=task.run_after or result.enqueued_at, kwargs=call._asdict(),
            id=result.id, name=task.module_path, executor=task.queue_name, priority=priority_of(task.priority),
            auto_remove=False, **options,
        )  # fmt: skip
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return what became of a task.

        :raises TaskResultDoesNotExist: if there is none by this id, or its task is not there any more
        """
        job = scheduler.get_job(str(result_id), "default")
        if job is None or job.func_ref != TASK_NAME:
            raise TaskResultDoesNotExist(str(result_id))
        try:
            return result_of(
                job, Call(**job.kwargs), scheduler.job_state(job), scheduler.runs(job.id, limit=MOST_ATTEMPTS),
                scheduler.live_runs(job.id), scheduler.engine.stores["default"],
            )  # fmt: skip
        except LookupError as error:
            raise TaskResultDoesNotExist(f"{shown(result_id)}: {error}") from error


def priority_of(priority: int) -> int:
    """Return the priority of a job, 0 before 9, for that of a task, 100 before -100."""
    return 5 - round(priority / 20) if priority >= 0 else 5 + round(-priority / 25)
