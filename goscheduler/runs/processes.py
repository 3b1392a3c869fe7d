"""What the processes that share a store tell of themselves: their reports, written with each renewal of a lease."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from goscheduler.runs.model import MAX_REPORT, Owner, Progress
from goscheduler.times import UTC, from_micros, to_micros

REPORT_VERSION = 1
#: At most so many running runs are told of.
MOST_RUNS = 200
LONGEST_NOTE = 80

#: What a process can be asked to do. One that drains fires nothing more, lets what runs end, and shuts down.
ACTIONS = ("pause", "resume", "drain")
#: The notes by which it is asked; the key is the id of the owner.
ASK = "ask"


class ExecutorUse(NamedTuple):
    """How much an executor of a process has to do."""

    running: int
    room: int
    """How many more runs it could take."""


class RunningRun(NamedTuple):
    """A run that a process executes."""

    id: str
    job_id: str
    started_at: datetime
    progress: float | None = None
    progress_note: str = ""


class Report(NamedTuple):
    """What a process tells of itself."""

    state: str = ""
    """"starting", "running", "paused" or "draining"."""
    version: str = ""
    """Of goscheduler."""
    written_at: datetime | None = None
    executors: Mapping[str, ExecutorUse] = {}
    runs: Sequence[RunningRun] = ()
    """Runs that have begun, those that have gone on for longest first."""
    complete: bool = True
    """Whether all of them are told of."""
    minute: Mapping[str, Any] = {}
    """Counters of the minute that goes on."""


class Process(NamedTuple):
    """One start of a scheduler that shares a store, as people see it."""

    owner: str
    host: str
    pid: int
    started_at: datetime | None
    expires_at: datetime | None
    """When its lease lapses unless it is renewed."""
    tasks: Sequence[str]
    executors: Mapping[str, ExecutorUse | None]
    """Alias → use; None where it is not known."""
    report: Report | None
    """None if it tells nothing: it is of an older version, or has just begun."""
    jobstore: str


def report_text(report: Report) -> str:
    """Return a report as a store keeps it, with fewer runs where it would be too long."""
    runs = [_run_row(run) for run in report.runs[:MOST_RUNS]]
    while True:
        complete = report.complete and len(runs) == len(report.runs)
        text = json.dumps({
            "v": REPORT_VERSION, "state": report.state, "version": report.version,
            "at": None if report.written_at is None else to_micros(report.written_at),
            "executors": report.executors, "runs": runs, "complete": complete, "minute": report.minute,
        }, separators=(",", ":"))  # fmt: skip
        if len(text) <= MAX_REPORT or not runs:
            return text if len(text) <= MAX_REPORT else ""
        del runs[len(runs) // 2 :]


def read_report(text: str) -> Report | None:
    """Return a report; None for anything that is none. What a newer version adds is left out."""
    try:
        told = json.loads(text)
        written_at = told.get("at")
        return Report(
            str(told.get("state", "")), str(told.get("version", "")),
            None if written_at is None else from_micros(written_at, UTC),
            {str(alias): ExecutorUse(*map(int, use[:2])) for alias, use in told.get("executors", {}).items()},
            [_run_of(row) for row in told.get("runs", ())],
            bool(told.get("complete", True)),
            dict(told.get("minute") or {}),
        )  # fmt: skip
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, OverflowError):
        return None


def process_of(owner: Owner, jobstore: str) -> Process:
    """Return what is known of an owner."""
    report = read_report(owner.report) if owner.report else None
    told = {} if report is None else report.executors
    executors = {alias: told.get(alias) for alias in owner.executors}
    return Process(
        owner.id, owner.host, owner.pid, owner.started_at, owner.expires_at, owner.tasks, executors, report, jobstore
    )


def running_by_id(processes: Iterable[Process]) -> dict[str, RunningRun]:
    """Return the runs that processes tell of, by id."""
    return {run.id: run for process in processes if process.report is not None for run in process.report.runs}


def shortened(progress: Progress | None) -> tuple[float | None, str]:
    """Return progress as a report tells it."""
    return (None, "") if progress is None else (progress.share, progress.note[:LONGEST_NOTE])


def _run_row(run: RunningRun) -> list[object]:
    share = run.progress if run.progress is None or math.isfinite(run.progress) else None
    return [run.id, run.job_id, to_micros(run.started_at), share, run.progress_note]


def _run_of(row: Sequence[Any]) -> RunningRun:
    run_id, job_id, started_at, share, note = row[:5]
    return RunningRun(str(run_id), str(job_id), from_micros(started_at, UTC), share, str(note))
