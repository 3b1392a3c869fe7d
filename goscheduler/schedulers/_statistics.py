"""What this process counts of its runs, minute by minute, written into notes of the stores; and the sum over processes.

Counting costs one call for a batch of runs. Housekeeping writes the figures of a minute when it is over; until then,
and after a failed write, they are in memory only, and the report of the process tells of those that go on.

A store whose writes are dear (``keeps_minutes`` is false) gets figures of ten minutes only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from goscheduler.errors import described, survivable
from goscheduler.runs.processes import read_report
from goscheduler.runs.queries import ANY_TEXT, Note
from goscheduler.runs.stats import (
    MINUTE,
    STATS_KINDS,
    TEN_MINUTES,
    Figures,
    Stats,
    beginning,
    read_figures,
    read_key,
    stats_key,
)
from goscheduler.times import SECOND, to_micros

if TYPE_CHECKING:
    from goscheduler.job import Job
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.jobstores.types import Fired
    from goscheduler.runs.model import Run, Settlement
    from goscheduler.runs.tally import Tally
    from goscheduler.schedulers._engine import Engine

#: For how long the notes are kept, by the seconds that one is about.
STATS_KEPT = {MINUTE: timedelta(hours=8), TEN_MINUTES: timedelta(hours=72)}
#: So many spans are kept in memory of a store that does not answer; then the oldest are forgotten.
MOST_UNWRITTEN = 120
#: The ten minutes of a process that goes on, or was lost, are not written. For so many seconds its minutes stand for
#: them.
NOT_SUMMED_YET = 3600
#: So many notes are read at once.
PAGE = 1000

_Spans = dict[int, Figures]
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Statistics:
    """What one start of a scheduler has counted and not written yet, by store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._spans: dict[str, dict[int, _Spans]] = {}
        """Alias of a store → seconds of a span → start of a span in microseconds → figures."""

    def count_fired(self, alias: str, fired: Fired) -> None:
        """Count what a round has fired, and what it has not run."""
        if fired.runs or fired.records:
            self._count(alias, lambda figures: _count_fired(figures, fired))
        if fired.records:
            self._tell_tally(lambda tally: tally.add_not_run(fired.records))

    def count_claimed(self, alias: str, runs: Sequence[Run]) -> None:
        """Count pending runs that this process has taken."""
        if runs:
            self._count(alias, lambda figures: figures.counts.update(claimed=len(runs)))

    def count_ends(self, alias: str, settlements: Sequence[Settlement]) -> None:
        """Count how runs ended, after that was written."""
        if settlements:
            self._count(alias, lambda figures: figures.add_ends(settlements, self._engine.tally))
            for hear in self._engine.hears_ends:
                hear(settlements)

    def count_refused(self, refused: Sequence[Settlement]) -> None:
        """Count ends that a store has refused, because other processes have the runs by now."""
        self._tell_tally(lambda tally: tally.add_refused(settlement.attempt.run for settlement in refused))

    def count_added(self, jobs: Sequence[Job]) -> None:
        """Count jobs that were added."""
        self._tell_tally(lambda tally: tally.add_jobs(jobs))

    def count_store_error(self, alias: str) -> None:
        """Count that a store has raised an error."""
        self._tell_tally(lambda tally: tally.store_errors.update([alias]))

    def timed(self, alias: str, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Return what a call of a store returns, and count how long it took, if that is read."""
        if self._engine.tally is None:
            return call(*args, **kwargs)
        begin = self._engine.clock.monotonic()
        try:
            return call(*args, **kwargs)
        finally:
            seconds = self._engine.clock.monotonic() - begin
            self._tell_tally(lambda tally: tally.add_call(alias, getattr(call, "__name__", "other"), seconds))

    def tallied(self, alive: Collection[str] | None = None) -> Tally | None:
        """Return the counters by schedule and task as they stand, None if nothing has asked for them.

        ``alive`` are the ids of the schedules that there are, where that is known.
        """
        tally = self._engine.tally
        with self._lock:
            if tally is not None and alive is not None:
                tally.forget_gone(alive, self._engine.clock.now())
            return None if tally is None else tally.copy()

    def _tell_tally(self, tell: Callable[[Tally], object]) -> None:
        tally = self._engine.tally
        if tally is not None:
            with self._lock:
                tell(tally)

    def _count(self, alias: str, count: Callable[[Figures], object]) -> None:
        store, now = self._engine.stores.get(alias), to_micros(self._engine.clock.now())
        seconds = _span_of(store)
        try:
            with self._lock:
                count(self._figures(alias, seconds, beginning(now, seconds)))
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            self._engine.logger.debug("An executor has reported what cannot be counted: %s", described(error))

    def _figures(self, alias: str, seconds: int, start: int) -> Figures:
        """Return the figures to count in, under the lock."""
        spans = self._spans.setdefault(alias, {}).setdefault(seconds, {})
        figures = spans.get(start)
        if figures is None:
            figures = spans[start] = Figures()
            if len(spans) > MOST_UNWRITTEN:
                del spans[min(spans)]
        return figures

    def write(self, alias: str, store: BaseJobStore, everything: bool = False) -> None:
        """Write the figures of the spans that are over, or at the end ``everything``."""
        now = to_micros(self._engine.clock.now())
        for start, figures in self._taken(alias, MINUTE, now, everything):
            self._put(alias, store, MINUTE, start, figures)
            with self._lock:
                self._figures(alias, TEN_MINUTES, beginning(start, TEN_MINUTES)).add(figures)
        for start, figures in self._taken(alias, TEN_MINUTES, now, everything):
            self._put(alias, store, TEN_MINUTES, start, figures)

    def _taken(self, alias: str, seconds: int, now: int, everything: bool) -> Iterator[tuple[int, Figures]]:
        """Take spans out one by one: what is counted meanwhile in such a span gets figures of its own."""
        with self._lock:
            starts = sorted(self._spans.get(alias, {}).get(seconds, ()))
        for start in starts:
            if everything or start + seconds * SECOND <= now:
                with self._lock:
                    figures = self._spans[alias][seconds].pop(start)
                yield start, figures

    def _put(self, alias: str, store: BaseJobStore, seconds: int, start: int, figures: Figures) -> None:
        kind, key = STATS_KINDS[seconds], stats_key(start, self._engine.owner)
        try:
            if not store.put_note(Note(kind, key, figures.text), expected=None):
                before = read_figures(store.read_note(kind, key) or "")
                if before is not None:
                    figures.add(before)  # nobody else writes this note
                store.put_note(Note(kind, key, figures.text), expected=ANY_TEXT)
        except BaseException:
            with self._lock:
                self._figures(alias, seconds, start).add(figures)
            raise

    def current_figures(self, alias: str) -> dict[str, Any]:
        """Return what the report tells: the figures of the span that goes on, which no note tells of yet."""
        seconds = _span_of(self._engine.stores.get(alias))
        start = beginning(to_micros(self._engine.clock.now()), seconds)
        with self._lock:
            figures = self._spans.get(alias, {}).get(seconds, {}).get(start)
            if figures is None:
                return {}
            return {"start": start, "seconds": seconds, "by": self._engine.owner, **figures.as_state()}

    def unwritten(self, alias: str, with_tens: bool) -> list[tuple[int, Figures]]:
        """Return start and figures of what is in memory only; the ten minutes are the sum of minutes that are not."""
        base = _span_of(self._engine.stores.get(alias))
        with self._lock:
            return [
                (start, Figures.from_state(figures.as_state()))
                for seconds, spans in self._spans.get(alias, {}).items()
                if with_tens or seconds == base
                for start, figures in spans.items()
            ]


def _span_of(store: BaseJobStore | None) -> int:
    """Return the shortest span, in seconds, whose figures a store keeps."""
    return MINUTE if store is None or store.keeps_minutes else TEN_MINUTES


def _count_fired(figures: Figures, fired: Fired) -> None:
    figures.counts["fired"] += len(fired.runs)
    figures.add_not_run(fired.records)


def write_statistics(engine: Engine, everything: bool = False, without: Collection[str] = ()) -> None:
    """Write what was counted into every store that answers."""
    for alias, store in engine.stores.items():
        if alias in engine.outages or alias in without:
            continue
        try:
            engine.statistics.write(alias, store, everything)
        except BaseException as error:
            if not survivable(error):
                raise
            engine.logger.debug('Job store "%s" could not keep figures: %s', alias, described(error))


def stats_of(engine: Engine, stores: Mapping[str, BaseJobStore], since: datetime, until: datetime) -> list[Stats]:
    """Return the figures of all processes from ``since`` to ``until``, span by span, also of those that are empty."""
    now = engine.clock.now()
    minutely = since >= now - STATS_KEPT[MINUTE] and all(store.keeps_minutes for store in stores.values())
    seconds = MINUTE if minutely else TEN_MINUTES
    since = max(since, now - STATS_KEPT[TEN_MINUTES])
    begin, end = beginning(to_micros(since), seconds), to_micros(min(until, now))
    spans = {start: Figures() for start in range(begin, end + 1, seconds * SECOND)}
    for alias, store in stores.items():
        for start, figures in _counted(engine, alias, store, seconds, begin, end + 1):
            span = spans.get(beginning(start, seconds))
            if span is not None:
                span.add(figures)
    return [figures.of(start, seconds) for start, figures in spans.items()]


def _counted(
    engine: Engine, alias: str, store: BaseJobStore, seconds: int, begin: int, end: int
) -> Iterator[tuple[int, Figures]]:
    """Yield what each process has counted, each run once: as it is written, as it is reported, or in our memory."""
    summed: set[tuple[int, str]] = set()
    for start, process, figures in _notes(store, seconds, begin, end):
        summed.add((start, process))
        yield start, figures
    yield from engine.statistics.unwritten(alias, with_tens=seconds == TEN_MINUTES)
    others = _reported(engine, store)
    if seconds == TEN_MINUTES and store.keeps_minutes:
        recent = max(begin, to_micros(engine.clock.now()) - NOT_SUMMED_YET * SECOND)
        others = chain(_notes(store, MINUTE, recent, end), others)
    single: set[tuple[int, str]] = set()
    for start, process, figures in others:
        known = (beginning(start, seconds), process) in summed or (start, process) in single
        single.add((start, process))
        if process != engine.owner and not known:
            yield start, figures


def _notes(store: BaseJobStore, seconds: int, begin: int, end: int) -> Iterator[tuple[int, str, Figures]]:
    """Yield start, process and figures of the notes about a span of time, the newest first."""
    before = stats_key(end, "")
    while True:
        notes = store.notes(STATS_KINDS[seconds], before, PAGE)
        for note in notes:
            start, process = read_key(note.key)
            if start < begin:
                return
            figures = read_figures(note.text)
            if figures is not None:  # else of a newer version
                yield start, process, figures
        if len(notes) < PAGE:
            return
        before = notes[-1].key


def _reported(engine: Engine, store: BaseJobStore) -> Iterator[tuple[int, str, Figures]]:
    """Yield start, process and figures of what the reports tell of spans that go on."""
    for owner in store.owners(engine.clock.now()) if store.shared else ():
        report = read_report(owner.report)
        if report is None or not report.minute:
            continue
        try:
            told = report.minute
            yield int(told["start"]), str(told["by"]), Figures.from_state(told)
        except (ValueError, TypeError, LookupError, AttributeError):
            engine.logger.debug("Process %s reports figures that cannot be read here", owner.id)
