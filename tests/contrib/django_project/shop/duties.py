"""Jobs that note where and for what they ran."""

from __future__ import annotations

import os
from pathlib import Path

from goscheduler import current_run
from goscheduler.contrib.django import scheduler

NOTES = Path(os.environ.get("NOTES", "notes"))


def note(text: str) -> None:
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(f"{os.getpid()} {text}\n")  # one write, so that lines of several processes stay whole


@scheduler.scheduled_job("interval", seconds=1, id="beat")
def beat() -> None:
    note(f"beat@{current_run().scheduled_at.isoformat()}")


def bill(number: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    note(f"bill-{number}")
