"""What encloses an attempt: the place for a span, and for whatever else is to begin before a function and end after it.

The executor calls ``begin`` in the context in which it is about to call the function, so that context variables which
are set there are seen by the function. What that returns is called with the outcome, in the same context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goscheduler.executors.context import CurrentRun
    from goscheduler.executors.enclosure import Layer
    from goscheduler.runs.model import Outcome, Run

End = Callable[["Outcome"], None]


class Around(Protocol):
    """Encloses attempts. What it raises is the outcome of the attempt."""

    def begin(self, run: Run, started_at: datetime) -> End:
        """Begin, and return what is called with the outcome."""
        ...

    def for_child(self, run: Run) -> Around | None:
        """Return what encloses the function in the child process that calls it; None for nothing.

        It is pickled. This is asked between ``begin`` and the end, in the same context.
        """
        ...

    def enclose(self, run: CurrentRun) -> Layer | None:
        """Return what encloses the function alone, and sees what it raises; None for nothing.

        This is asked, after all have begun, in the process that calls the function.
        """
        ...


class Carrier(Protocol):
    """Gives jobs and runs texts to carry, by which one process knows what another one has begun."""

    def context(self) -> Mapping[str, str]:
        """Return what a job or a run carries that is added here and now."""
        ...

    def passed_on(self, run: Run) -> Mapping[str, str]:
        """Return what a run carries that follows an attempt at this one."""
        ...

    def names_of(self, run: Run) -> Mapping[str, str]:
        """Return what the log tells of an attempt that has ended."""
        ...


def begin_all(arounds: Sequence[Around], run: Run, started_at: datetime) -> End:
    """Begin one after the other, and return what ends them in the opposite order."""
    ends = [around.begin(run, started_at) for around in arounds]

    def end(outcome: Outcome) -> None:
        for each in reversed(ends):
            each(outcome)

    return end


def for_child(arounds: Sequence[Around], run: Run) -> tuple[Around, ...]:
    """Return what encloses the function in a child process."""
    inner = [around.for_child(run) for around in arounds]
    return tuple(around for around in inner if around is not None)
