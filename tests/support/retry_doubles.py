"""Jobs that fail, snooze and give up by a script. Child processes have to be able to import them."""

from __future__ import annotations

import copy
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

from behaviour_doubles import START

from goscheduler import GiveUp, RetryLater, Snooze, current_run
from goscheduler.executors.context import CurrentRun

played: list[CurrentRun] = []
"""The runs of :func:`play` so far."""


def play(*steps: Any) -> Any:
    """Do the first step on the first call for a job, the second on the second; the last one from there on."""
    run = current_run()
    number = len(runs_of(run.job_id))
    played.append(run)
    return perform(steps[min(number, len(steps) - 1)])


def play_in(folder: str, *steps: Any) -> Any:
    """Do the same in any process; the calls are counted by files."""
    number = len(list(Path(folder).iterdir()))
    Path(folder, f"{number} attempt {current_run().attempt}").touch()
    return perform(steps[min(number, len(steps) - 1)])


async def play_later(*steps: Any) -> Any:
    """Do the same as a coroutine."""
    return play(*steps)


def perform(step: Any) -> Any:
    """Raise a new copy of an exception, call what can be called, return anything else."""
    if isinstance(step, BaseException):
        raise copy.copy(step)
    return step() if callable(step) else step


def runs_of(job_id: str) -> list[CurrentRun]:
    """Return the runs of one job so far."""
    return [run for run in played if run.job_id == job_id]


def seconds(job_id: str = "job") -> list[float]:
    """Return when the runs of a job started, in seconds since the start of the test."""
    return [since_start(run.started_at) for run in runs_of(job_id)]


def attempts(job_id: str = "job") -> list[int]:
    """Return the numbers of the attempts at a job."""
    return [run.attempt for run in runs_of(job_id)]


def since_start(moment: datetime) -> float:
    return (moment - START).total_seconds()


class Speechless(ValueError):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class TwoArguments(ValueError):
    """Pickles, and cannot be unpickled."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")


class ForgetfulGiveUp(GiveUp):
    """Does not call its base class, as happens."""

    def __init__(self) -> None:
        pass


class ForgetfulRetryLater(RetryLater):
    """Does not call its base class, as happens."""

    def __init__(self) -> None:
        pass


class ForgetfulSnooze(Snooze):
    """Does not call its base class, as happens."""

    def __init__(self) -> None:
        pass


def fail_with_a_lock() -> None:
    error = ValueError("holds a lock")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    raise error


def fail_with_two_arguments() -> None:
    raise TwoArguments(42, "cannot be rebuilt")


def fail_speechlessly() -> None:
    raise Speechless


def give_up_forgetfully() -> None:
    raise ForgetfulGiveUp


def retry_later_forgetfully() -> None:
    raise ForgetfulRetryLater


def snooze_forgetfully() -> None:
    raise ForgetfulSnooze


_SHARED = ValueError("always the same object")


def fail_with_a_shared_error() -> None:
    raise _SHARED
