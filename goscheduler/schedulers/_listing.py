"""The list of jobs for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from goscheduler.job import Job


def print_jobs(jobs_by_store: Mapping[str | None, Sequence[Job]], out: IO[str]) -> None:
    """Print jobs under the alias of their store; the alias None stands for those that wait for the start."""
    for alias, jobs in jobs_by_store.items():
        kind = "pending" if alias is None else "scheduled"
        print("Pending jobs:" if alias is None else f"Jobstore {alias}:", file=out)
        for job in jobs:
            print(f"    {job}", file=out)
        if not jobs:
            print(f"    No {kind} jobs", file=out)
