"""The views of the project: they add jobs, and tell which threads there are."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from shop.duties import bill
from shop.errands import add, fail, greet

from goscheduler.contrib.django import scheduler


def order(request: HttpRequest, number: int) -> JsonResponse:
    with transaction.atomic():
        scheduler.add_job(bill, args=[number], id=f"bill-{number}")
    ours = [thread.name for thread in threading.enumerate() if "goscheduler" in thread.name.lower()]
    return JsonResponse({"pid": os.getpid(), "threads": ours, "declared": scheduler.get_job("beat") is not None})


async def later(request: HttpRequest) -> JsonResponse:
    enqueued = [await add.aenqueue(2, b=3), await greet.aenqueue("Ada"), await fail.aenqueue()]
    return JsonResponse({"ids": [result.id for result in enqueued]})


def result(request: HttpRequest, result_id: str) -> JsonResponse:
    found: Any = add.get_backend().get_result(result_id)
    value = found.return_value if found.status == "SUCCESSFUL" else None
    errors = [json.loads(json.dumps(error.exception_class.__name__)) for error in found.errors]
    return JsonResponse({
        "status": found.status, "value": value, "errors": errors, "attempts": found.attempts,
        "task": found.task.module_path, "args": found.args, "kwargs": found.kwargs, "queue": found.task.queue_name,
        "priority": found.task.priority, "times": [
            str(found.enqueued_at), str(found.started_at), str(found.last_attempted_at), str(found.finished_at),
        ],
    })  # fmt: skip


urlpatterns = [
    path("admin/", admin.site.urls),
    path("order/<int:number>", order), path("later", later), path("result/<str:result_id>", result),
]  # fmt: skip
