"""The names of the methods of ``goscheduler.v1.OperationsService``, made of the names of operations."""

from __future__ import annotations

from collections.abc import Mapping

PACKAGE = "goscheduler.v1"
SERVICE = f"{PACKAGE}.OperationsService"
SEED_SERVICE = "scheduler.v1.SchedulerService"

#: What the names of operations begin with that look, and say so by a verb. The others get one.
VERBS = frozenset({"count", "doctor", "explain", "find", "preview", "why"})
#: Methods that send the answer of an operation whenever it has changed.
WATCHING: Mapping[str, str] = {
    "WatchBulk": "bulk",
    "WatchJob": "job",
    "WatchJobs": "find_jobs",
    "WatchLiveRuns": "live_runs",
    "WatchOverview": "overview",
    "WatchProcesses": "processes",
    "WatchRun": "run",
}


def method_of(operation: str, acts: bool) -> str:
    """Return the name of the method that calls an operation.

    >>> [method_of(name, acts=False) for name in ("find_jobs", "job", "processes")]
    ['FindJobs', 'GetJob', 'ListProcesses']
    """
    words = operation.split("_")
    name = "".join(word.capitalize() for word in words)
    if acts or words[0] in VERBS:
        return name
    return f"List{name}" if words[-1].endswith("s") else f"Get{name}"
