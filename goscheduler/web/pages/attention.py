"""What somebody should look at: jobs that fail, jobs that nobody can run, limits that hold runs back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goscheduler.web.pages.formats import Times, many
from goscheduler.web.pages.query import query_of

MOST_OF_A_KIND = 4

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Matter:
    """One thing to look at. ``job`` or ``path`` and ``query`` say where."""

    icon: str
    word: str
    tone: str
    what: str
    """The name of what it is about."""
    says: str
    detail: str
    job: Row | None = None
    path: str = ""
    query: str | None = None


def failing(jobs: Sequence[Row], times: Times) -> list[Matter]:
    """Return the jobs whose last attempt failed."""
    found = []
    for job in jobs[:MOST_OF_A_KIND]:
        error = (job["last_error"] or "No error was kept").rstrip(".")
        found.append(Matter(
            "cross", "Failing", "bad", job["id"], f"failed {times.relative(job['last_run'])}",
            f"{error}. {_what_follows(job['next_run_time'], times)}", job,
        ))  # fmt: skip
    return found


def _what_follows(following: str | None, times: Times) -> str:
    if following is None:
        return "It will not run again by itself."
    return f"{'It was due' if times.is_past(following) else 'Next run'} {times.relative(following)}."


def nobody_can_run(jobs: Sequence[Row], times: Times) -> list[Matter]:
    """Return the due jobs that wait for an executor that no process has, by executor."""
    waiting: defaultdict[str, list[Row]] = defaultdict(list)
    for job in jobs:
        if job["state"] == "no executor":
            waiting[job["executor"]].append(job)
    return [
        Matter(
            "alert", "Nobody can run it", "warn", f"executor {executor}",
            f"is wanted by {many(len(due), 'due job')}, and no process has it",
            f"The first of them, {due[0]['id']}, was due {times.relative(due[0]['next_run_time'])}. "
            "Start a process with this executor.",
            path="/jobs", query=query_of(executor=executor),
        )
        for executor, due in waiting.items()
    ]  # fmt: skip


def suspended(jobs: Sequence[Row]) -> list[Matter]:
    """Return the jobs that cannot be run."""
    return [
        Matter("alert", "Suspended", "bad", job["id"], "cannot be run", str(job["suspended"]), job)
        for job in jobs[:MOST_OF_A_KIND]
    ]


def full_limits(limits: Sequence[Row]) -> list[Matter]:
    """Return the limits that hold runs back."""
    return [
        Matter(
            "alert", "Limit full", "warn", limit["name"], f"holds back {many(limit['waiting'], 'run')}",
            f"{many(limit['live'], 'run')} under it now.", path="/limits",
        )
        for limit in limits
        if limit["waiting"]
    ]  # fmt: skip


def nobody_fires(processes: int, due: bool, observed: bool) -> list[Matter]:
    """Return that no process is alive although something is due."""
    if processes or not due or not observed:
        return []
    return [Matter(
        "cross", "No process", "bad", "Nothing fires the jobs", "of this store",
        "Start a worker: goscheduler worker module:scheduler.", path="/processes",
    )]  # fmt: skip
