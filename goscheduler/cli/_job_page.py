"""A job as ``goscheduler jobs show`` lays it out: what it is, how it runs, what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goscheduler._text import printable
from goscheduler.cli._print import label, print_rows
from goscheduler.cli._text import field_cell, length, many
from goscheduler.times import local_timezone

RUN_COLUMNS = ("scheduled_at", "outcome", "attempt", "seconds", "run_id", "error")
GAP_COLUMNS = ("at", "reason")


def print_job(view: dict[str, Any]) -> None:
    """Print all that is known of a job, in blocks."""
    zone = local_timezone()
    facts = {**view, **_in_words(view)}
    width = max(len(name) for block in BLOCKS for name in block) + 2
    for number, block in enumerate(BLOCKS):
        print("\n" if number else "", end="")
        for name in block:
            value = facts.get(name)
            if value not in (None, "", [], {}):
                print(f"{label(name):<{width}}{field_cell(name, value, zone)}")
    _print_list("last runs", view["last_runs"], RUN_COLUMNS)
    _print_list("did not run within the last day", view["gaps"], GAP_COLUMNS)


BLOCKS = (
    ("id", "name", "description", "state", "suspended", "paused_by", "pause_reason", "why_not_running"),
    ("schedule", "next_run_time", "trigger", "misfire_grace_time", "coalesce"),
    ("task", "args", "kwargs", "executor", "priority", "tags", "metadata", "jobstore"),
    ("max_instances", "overlap", "timeout", "retry", "dead_letter", "limits", "on_crash", "auto_remove"),
    ("created_at", "created_by", "run_count", "last_run", "last_outcome", "last_success", "last_error", "now", "etag"),
)


def _in_words(view: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts that are better told in words than as they are."""
    grace, timeout = view["misfire_grace_time"], view["timeout"]
    crashes = f", at most {many(view['max_crashes'], 'time')}" if view["on_crash"] == "retry" else ""
    return {
        "misfire_grace_time": "none: however late it is, it runs" if grace is None else length(grace),
        "coalesce": "yes: of several fire times that have passed, the last one runs" if view["coalesce"] else "no",
        "timeout": "none" if timeout is None else length(timeout),
        "retry": _retry(view["retry"]),
        "dead_letter": "yes: a run whose last attempt fails is kept" if view["dead_letter"] else "no",
        "limits": "; ".join(map(_limit, view["limits"])) or "none",
        "on_crash": f"{view['on_crash']}{crashes}",
        "auto_remove": "yes" if view["auto_remove"] else "no",
        "now": f"{view['live']} running, {view['due']} due, {view['waiting']} waiting",
    }


def _retry(retry: Mapping[str, Any] | None) -> str:
    if retry is None:
        return "none"
    attempts = "any number of attempts" if retry["attempts"] is None else many(retry["attempts"], "attempt")
    return f"{attempts}, {retry['backoff']}"


def _limit(limit: Mapping[str, Any]) -> str:
    parts = []
    if limit["concurrency"] is not None:
        parts.append(f"{limit['concurrency']} at once")
    if limit["rate"] is not None:
        parts.append(str(limit["rate"]))
    return printable(f"{limit['name']}: {', '.join(parts)}")


def _print_list(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if rows:
        print(f"\n{title}", flush=True)
        print_rows(rows, columns)
