"""The errors of jobs that run in other processes: the process is gone, or its exception cannot be passed on."""

from __future__ import annotations

from goscheduler.errors import GoSchedulerError


class WorkerDied(GoSchedulerError):
    """The child process that ran a job ended before the job did; ``exit_code`` is negative for a signal."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message, exit_code)
        self.message = message
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message


class WorkerLost(WorkerDied):
    """The worker of an engine that ran a job is gone; nobody knows how far the job got."""


class RemoteError(GoSchedulerError):
    """An exception of another process that could not be brought over, as text.

    ``lineage`` names its type and the types that this derives from, so that a retry policy can go by them.
    """

    def __init__(self, type_name: str, message: str, lineage: tuple[str, ...] = ()) -> None:
        super().__init__(type_name, message, lineage)
        self.type_name = type_name
        self.message = message
        self.lineage = lineage

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name
