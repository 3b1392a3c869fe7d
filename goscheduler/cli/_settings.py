"""Options of a worker that change its scheduler: concurrency, poll interval, executors."""

from __future__ import annotations

from typing import NamedTuple

from goscheduler.cli._command_error import CommandError
from goscheduler.errors import InvalidArgument, shown
from goscheduler.executors.base import BaseExecutor
from goscheduler.executors.pool import ProcessPoolExecutor, ThreadPoolExecutor
from goscheduler.schedulers.base import BaseScheduler
from goscheduler.times import parse_duration, parse_number

SHORTEST_POLL, LONGEST_POLL = 0.01, 86_400.0
#: Up to here a number without a unit is taken for seconds without a word.
USUAL_POLL = 600.0


class Settings(NamedTuple):
    """The options given; None leaves the scheduler as it is."""

    concurrency: int | None = None
    poll_interval: float | None = None
    queues: frozenset[str] | None = None


class RemoteExecutor(BaseExecutor):
    """Stands for an executor that other workers have: it never has room, so its jobs stay where they are."""

    def room(self) -> int:
        return 0


def read_settings(concurrency: int | None, poll_interval: str | None, queues: str | None) -> Settings:
    """Return the settings that options and environment describe, checked."""
    return Settings(
        concurrency,
        None if poll_interval is None else read_seconds(poll_interval),
        None if queues is None else read_names(queues),
    )


def read_seconds(text: str) -> float:
    """Return a poll interval in seconds: a bare number is seconds, ``5000ms`` and ``1m30s`` are understood."""
    try:
        seconds = parse_number(text, "poll interval") if _is_bare(text) else parse_duration(text).total_seconds()
    except InvalidArgument as error:
        raise CommandError(
            f"--poll-interval must be seconds, or a duration such as 5000ms, got {shown(text)}"
        ) from error
    if not SHORTEST_POLL <= seconds <= LONGEST_POLL:
        raise CommandError(
            f"--poll-interval must be from {SHORTEST_POLL} to {LONGEST_POLL:.0f} seconds, got {shown(text)}"
        )
    return seconds


def doubt_about_unit(text: str) -> str | None:
    """Return what to say about a number without a unit that is so large that milliseconds may be meant, or None."""
    if not _is_bare(text) or read_seconds(text) <= USUAL_POLL:
        return None
    number = text.strip()
    return f"The poll interval is {number} seconds; if you mean milliseconds, write {number}ms, else {number}s"


def _is_bare(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdecimal()


def read_names(text: str) -> frozenset[str]:
    """Return the names in a comma-separated list."""
    names = frozenset(name.strip() for name in text.split(",")) - {""}
    if not names:
        raise CommandError(f"--queues must name executors, separated by commas, got {shown(text)}")
    return names


def apply_settings(scheduler: BaseScheduler, settings: Settings) -> None:
    """Change a scheduler that has not been started.

    :raises Refusal: if it has no such executor, or one that cannot be changed so
    """
    if settings.poll_interval is not None:
        scheduler.poll_interval = settings.poll_interval
    if settings.concurrency is None and settings.queues is None:
        return
    scheduler.ensure_default_executor()
    if settings.queues is not None:
        _keep_only(scheduler, settings.queues)
    if settings.concurrency is not None:
        _set_concurrency(scheduler.engine.executors["default"], settings.concurrency)


def _keep_only(scheduler: BaseScheduler, queues: frozenset[str]) -> None:
    known = scheduler.engine.executors.keys()
    if unknown := sorted(queues - known):
        raise CommandError(f"--queues: there is no executor {shown(unknown[0])}; there are: {', '.join(sorted(known))}")
    for alias in sorted(known - queues):
        scheduler.remove_executor(alias)
        scheduler.add_executor(RemoteExecutor(), alias)


def _set_concurrency(executor: BaseExecutor, concurrency: int) -> None:
    if isinstance(executor, RemoteExecutor):
        raise CommandError('--concurrency is about the executor "default", which --queues leaves to other workers')
    if not isinstance(executor, (ThreadPoolExecutor, ProcessPoolExecutor)):
        raise CommandError(
            '--concurrency needs a pool of threads or processes as executor "default", '
            f"which is {type(executor).__name__} here"
        )
    executor.max_workers = concurrency
