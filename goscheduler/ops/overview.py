"""Operations that show the whole at a glance: figures of the last hours, and an overview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from goscheduler.ops.access import Role
from goscheduler.ops.jobs import COUNT_CAP
from goscheduler.ops.model import CountView
from goscheduler.ops.model_around import Overview, Quantiles, StatsRow
from goscheduler.ops.operation import Call, Store, operation
from goscheduler.ops.schema import Whole
from goscheduler.ops.views import group_view, job_row
from goscheduler.runs.queries import next_time
from goscheduler.runs.records import HistoryQuery
from goscheduler.runs.stats import Histogram

if TYPE_CHECKING:
    from goscheduler.runs.stats import Stats

#: So many of the next jobs, and of the groups of dead letters, are shown; the groups are of the newest letters.
SHOWN = 10
LETTERS = 1000
WINDOW_MINUTES = 60

Minutes = Annotated[int, Whole("How far to look back.", 1, 72 * 60)]


@operation(Role.VIEWER, whole=True, kept=True)
def stats(call: Call, minutes: Minutes = WINDOW_MINUTES, jobstore: Store = None) -> list[StatsRow]:
    """Return what was fired and how it ended, minute by minute, the oldest first."""
    call.check_store(jobstore)
    return [_stats_row(each) for each in call.scheduler.stats(minutes=minutes, jobstore=jobstore)]


@operation(Role.VIEWER, whole=True, kept=True)
def overview(call: Call, minutes: Minutes = WINDOW_MINUTES) -> Overview:
    """Return how goscheduler fares: counters, lateness, processes, what fails, what comes next."""
    scheduler = call.scheduler
    told = scheduler.stats(minutes=minutes)
    counts = Counter[str]()
    for each in told:
        counts.update(each.counts)
    following = scheduler.find_jobs(state="scheduled", limit=SHOWN).jobs
    states = scheduler.job_states(following)
    first = next_time(following[0]) if following else None
    living = scheduler.processes()
    letters = HistoryQuery(limit=LETTERS)
    failing = [group_view(group, alias) for alias, store in call.stores() for group in store.letter_groups(letters)]
    return Overview(
        counts, _quantiles(each.lateness for each in told), _quantiles(each.duration for each in told),
        sum(len(process.report.runs) for process in living if process.report is not None), len(living),
        _count(call), _count(call, last_outcome="failed"), _count(call, state="paused"),
        _count(call, state="suspended"), first if first is not None and first <= call.now else None,
        sorted(failing, key=lambda group: -group.size)[:SHOWN],
        [job_row(job, state) for job, state in zip(following, states, strict=True)],
    )  # fmt: skip


def _count(call: Call, **filters: str) -> CountView:
    found = call.scheduler.count_jobs(cap=COUNT_CAP, **filters)
    return CountView(found.number, found.exact)


def _stats_row(each: Stats) -> StatsRow:
    return StatsRow(each.start, each.seconds, each.counts, _quantiles([each.lateness]), _quantiles([each.duration]))


def _quantiles(histograms: Iterable[Histogram]) -> Quantiles:
    steps = [sum(counts) for counts in zip(*(histogram.steps for histogram in histograms), strict=True)]
    whole = Histogram(steps) if steps else Histogram()
    return Quantiles(whole.p50, whole.p95, whole.p99)
