"""What became of a task of Django, read from its job and the records of its attempts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from goscheduler.contrib.django._task_api import Task, TaskError, TaskResult, TaskResultStatus
from goscheduler.errors import shown
from goscheduler.runs.model import JobState, OutcomeKind
from goscheduler.runs.queries import Note
from goscheduler.runs.records import MAX_RESULT
from goscheduler.times import to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import LiveRun
    from goscheduler.runs.records import Record
    from goscheduler.schedulers.base import BaseScheduler

#: The name of the one task by which all tasks of Django run.
TASK_NAME = "django.task"
#: The kind of the notes with results that are too long for a record.
NOTE = "django-task-result"
PRUNED_AT_ONCE = 100

_STATUS = {
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.COMPLETED: TaskResultStatus.SUCCESSFUL,
    JobState.FAILED: TaskResultStatus.FAILED,
}
#: Outcomes without an exception → the exception that says the same.
_ERRORS = {OutcomeKind.TIMED_OUT: "builtins.TimeoutError"}
_OTHER_ERROR = "builtins.RuntimeError"
_GOOD = (OutcomeKind.SUCCEEDED, OutcomeKind.SNOOZED)


class Call(NamedTuple):
    """The call of a task, as a job keeps it in its keyword arguments."""

    path: str
    """Where the task is found, such as ``shop.tasks.send``."""
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    queue: str
    priority: int
    run_after: datetime | None
    enqueued_at: datetime

    def task(self) -> Any:
        """Return the task, with what was chosen for this call.

        :raises LookupError: if there is none
        """
        changes = {"priority": self.priority, "queue_name": self.queue, "backend": self.backend}
        return find_task(self.path).using(**changes, run_after=self.run_after)


def find_task(path: str) -> Any:
    """Return a task by its path. Only code of this project and of its apps is imported.

    :raises LookupError: if there is none
    """
    if not _is_ours(path):
        raise LookupError(f"{shown(path)} is neither in an installed app nor in the package of the settings")
    try:
        found = import_string(path)
    except ImportError as error:
        raise LookupError(f"there is no task {shown(path)}: {error}") from error
    if not isinstance(found, Task):
        raise LookupError(f"{shown(path)} is not a task; decorate it with @task")
    return found


def _is_ours(path: str) -> bool:
    """Tell whether a stored path may be imported: whoever can write into the store can write any."""
    module = path.rpartition(".")[0]
    # Settings that settings.configure() made have no module.
    package = getattr(settings, "SETTINGS_MODULE", None) or os.environ.get("DJANGO_SETTINGS_MODULE", "")
    ours = package.partition(".")[0]
    return module in sys.modules or apps.get_containing_app_config(path) is not None or (
        bool(ours) and module.partition(".")[0] == ours
    )


def result_of(
    job: Job, call: Call, state: JobState, records: Sequence[Record], live: Sequence[LiveRun], store: BaseJobStore
) -> Any:
    """Return the result of a task; the records are those of its attempts, the newest first."""
    begun = [record for record in reversed(records) if record.started_at is not None]
    under_way = [run for run in live if run.owner is not None] if state is JobState.RUNNING else []
    starts = [at for at in (*(each.started_at for each in begun), *(run.started_at for run in under_way)) if at]
    status = _STATUS.get(state, TaskResultStatus.READY)
    result = TaskResult(
        task=call.task(), id=job.id, status=status, enqueued_at=call.enqueued_at,
        started_at=starts[0] if starts else None, last_attempted_at=starts[-1] if starts else None,
        finished_at=records[0].finished_at if records and state in (JobState.COMPLETED, JobState.FAILED) else None,
        args=call.args, kwargs=call.kwargs, backend=call.backend,
        errors=[error_of(record) for record in reversed(records) if record.outcome not in _GOOD],
        worker_ids=[owner or "" for owner in (*(each.owner for each in begun), *(run.owner for run in under_way))],
    )  # fmt: skip
    if status == TaskResultStatus.SUCCESSFUL and records:
        object.__setattr__(result, "_return_value", _value(records[0], store))
    return result


def error_of(record: Record) -> Any:
    """Return why an attempt did not succeed."""
    path = record.error_type or _ERRORS.get(record.outcome, _OTHER_ERROR)
    last_line = f"{record.error_type}: {record.error_message}" if record.error_type else record.reason
    return TaskError(
        exception_class_path=path if "." in path else f"builtins.{path}",
        traceback=f"Traceback (most recent call last):\n{record.traceback}{last_line}\n",
    )


def keep_result(job_id: str, value: object, scheduler: BaseScheduler | None) -> str:
    """Return what a task has returned as JSON, or where it is kept, as text for the record of its attempt.

    What is longer than a record takes is kept as a note, for as long as records are.

    :raises TypeError: if JSON has no such thing
    :raises ValueError: if it is too long
    """
    text = json.dumps(value, allow_nan=False)
    if len(text) <= MAX_RESULT:
        return text
    if scheduler is None:
        raise ValueError(f"a task in a process pool may return {MAX_RESULT} characters of JSON, this are {len(text)}")
    engine = scheduler.engine
    store, now, kept = engine.stores["default"], engine.clock.now(), engine.retention
    key = f"{to_micros(now):020d}.{job_id}"  # by which the oldest come first
    store.put_note(Note(NOTE, key, text))
    store.prune_notes(NOTE, f"{to_micros(now - max(kept.succeeded, kept.others)):020d}", PRUNED_AT_ONCE)
    return f"{NOTE}:{key}"


def _value(record: Record, store: BaseJobStore) -> Any:
    kind, _, key = (record.result or "").partition(":")
    text = store.read_note(NOTE, key) if kind == NOTE else record.result
    return None if text is None else json.loads(text)
