"""The tasks of Django: ``django.tasks`` from Django 6.0 on, before that the package ``django-tasks``."""

from __future__ import annotations

import django

if django.VERSION >= (6, 0):
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
else:
    try:
        from django_tasks.backends.base import BaseTaskBackend
    except ModuleNotFoundError as error:
        raise ImportError(
            'Tasks need Django 6.0, or the package django-tasks before it: pip install "django-tasks>=0.8"',
            name=error.name,
        ) from error
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started

__all__ = [
    "BaseTaskBackend", "Task", "TaskContext", "TaskError", "TaskResult", "TaskResultDoesNotExist", "TaskResultStatus",
    "task_enqueued", "task_finished", "task_started",
]  # fmt: skip
