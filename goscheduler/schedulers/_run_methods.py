"""The methods of a scheduler that are about runs: the history, dead letters, live runs, cancelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from goscheduler.errors import InvalidArgument
from goscheduler.executors.enclosure import Enclosure, refuse_unnamed
from goscheduler.runs.filters import Filters, history_query
from goscheduler.runs.model import DeadLetter, LiveRun, OutcomeKind
from goscheduler.runs.records import HistoryQuery, Record
from goscheduler.schedulers._lifecycle import SchedulerLifecycle

if TYPE_CHECKING:
    from goscheduler.executors.around import Around
    from goscheduler.executors.context import CurrentRun


class RunMethods(SchedulerLifecycle):
    """Lists, cancels and redrives runs."""

    @property
    def arounds(self) -> tuple[Around, ...]:
        """What encloses each attempt, from the outside in; executors ask for it."""
        return self.engine.arounds

    def add_around(self, around: Callable[[CurrentRun], Any] | str) -> None:
        """Have ``around(run)`` return a context manager that each run from now on is enclosed by, inside of those that
        are there already. It is a function, or a reference to one such as "myapp.tracing:span".

        It is entered where the function of the job is called: on its thread, task or child process, within its
        context. For coroutine functions on an event loop it may be an async one. What it raises is the failure of the
        attempt.

        :raises InvalidArgument: if it cannot be called so, has been added already, or has no name while there is an
            executor that runs jobs in other processes
        """
        enclosure = Enclosure(around)
        with self._lock:
            if any(isinstance(each, Enclosure) and each.given == around for each in self.engine.arounds):
                raise InvalidArgument(f"around: {enclosure.name} was added before", field="around", value=around)
            refuse_unnamed([enclosure], self.engine.executors)
            self.engine.arounds = (*self.engine.arounds, enclosure)

    def remove_around(self, around: Callable[[CurrentRun], Any] | str) -> None:
        """Enclose no further runs by ``around``; an unknown one is fine."""
        with self._lock:
            self.engine.arounds = tuple(
                each for each in self.engine.arounds if not isinstance(each, Enclosure) or each.given != around
            )

    def runs(
        self,
        job_id: str | None = None,
        jobstore: str | None = None,
        limit: int = 100,
        *,
        outcome: OutcomeKind | str | Iterable[OutcomeKind | str] | None = None,
        since: datetime | timedelta | str | None = None,
        until: datetime | timedelta | str | None = None,
        tag: str | None = None,
        error_type: type[BaseException] | str | None = None,
        before: Record | str | None = None,
    ) -> list[Record]:
        """Return what ran, was missed or was skipped: one record for each attempt, newest first.

        ``since`` and ``until`` say when attempts ended; a length of time ("2h") means that long ago. ``before``, the
        last record of a page or its cursor, gives the page that follows.

        :raises InvalidArgument: for a filter that makes no sense
        """
        filters = Filters(job_id, outcome, since, until, tag, error_type, before, limit)
        return self._runs.history(self._query(filters), jobstore)

    def dead_letters(
        self,
        job_id: str | None = None,
        jobstore: str | None = None,
        limit: int = 100,
        *,
        since: datetime | timedelta | str | None = None,
        until: datetime | timedelta | str | None = None,
        tag: str | None = None,
        error_type: type[BaseException] | str | None = None,
        before: DeadLetter | Record | str | None = None,
    ) -> list[DeadLetter]:
        """Return the runs whose last attempt has failed, newest first. The filters are those of :meth:`runs`."""
        filters = Filters(job_id, None, since, until, tag, error_type, before, limit)
        return self._runs.dead_letters(self._query(filters), jobstore)

    def live_runs(self, job_id: str | None = None, jobstore: str | None = None) -> list[LiveRun]:
        """Return the runs that wait, are queued or go on, of one job or of all."""
        return self._runs.live(job_id, jobstore)

    def cancel_run(self, run_id: str, reason: str = "") -> bool:
        """End a run: one that waits at once, one that goes on as soon as it can be ended. False if there is none.

        It is not tried again. In a store that is shared the run may be another process's.
        """
        return self._runs.cancel(run_id, reason)

    def redrive(self, run_id: str) -> None:
        """Give a dead letter one more attempt.

        :raises RunLookupError: if there is no such dead letter
        """
        self._runs.redrive(run_id)

    def redrive_all(
        self,
        job_id: str | None = None,
        jobstore: str | None = None,
        *,
        since: datetime | timedelta | str | None = None,
        until: datetime | timedelta | str | None = None,
        tag: str | None = None,
        error_type: type[BaseException] | str | None = None,
    ) -> int:
        """Give the dead letters that fit, all without a filter, one more attempt. Return how many there were."""
        filters = Filters(job_id, None, since, until, tag, error_type)
        return self._runs.redrive_all(self._query(filters), jobstore)

    def discard_dead_letter(self, run_id: str) -> None:
        """Forget a dead letter.

        :raises RunLookupError: if there is no such dead letter
        """
        self._runs.discard(run_id)

    def _query(self, filters: Filters) -> HistoryQuery:
        return history_query(filters, self.clock.now(), self.timezone)
