"""Tasks of Django."""

from __future__ import annotations

from typing import Any

import django
from shop.duties import note

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task()
def add(a: int, b: int) -> dict[str, int]:
    note(f"add-{a}-{b}")
    return {"sum": a + b}


@task(takes_context=True, queue_name="mail", priority=50)
async def greet(context: Any, name: str) -> str:
    return f"hello {name}, attempt {context.attempt} of {context.task_result.id} " + "!" * 2000


@task()
def fail() -> None:
    raise KeyError("no such order")
