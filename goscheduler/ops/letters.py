"""Operations on dead letters: runs whose last attempt has failed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from goscheduler.errors import InvalidArgument, RunLookupError
from goscheduler.ops.access import Role
from goscheduler.ops.filters import ErrorType, JobId, LetterFilters, Since, Tag
from goscheduler.ops.model import ChangeView, LetterGroups, LettersView, Page, RunRow
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.runs import Before, Limit
from goscheduler.ops.schema import Flag, Number, Texts
from goscheduler.ops.views import group_view, letter_row
from goscheduler.runs.queries import MOST_LETTERS
from goscheduler.runs.transitions import redriven

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import DeadLetter, Run
    from goscheduler.runs.records import HistoryQuery

#: At most so many dead letters are dealt with by one call.
MOST_AT_ONCE = 100_000
RATES = Number("Start at most so many a second; without it all are due at once.", 0.01, 100_000)

DryRun = Annotated[bool, Flag("Whether to count only, and to do nothing.")]
Ids = Annotated[list[str] | None, Texts("Ids of runs; without them all that fit the filters.", 1000)]


@operation(Role.VIEWER, kept=True)
def find_letters(
    call: Call, wanted: LetterFilters, jobstore: Store = None, limit: Limit = 50, before: Before = None
) -> Page[RunRow]:
    """Return a page of dead letters, newest first."""
    rows: list[RunRow] = []
    for _, letter in _letters(call, jobstore, wanted, before):
        if len(rows) == limit:
            return Page(rows, rows[-1].cursor)
        rows.append(letter_row(letter))
    return Page(rows, None)


@operation(Role.VIEWER, kept=True)
def letter_groups(
    call: Call,
    jobstore: Store = None,
    job_id: JobId = None,
    since: Since = None,
    until: Since = None,
    tag: Tag = None,
    error_type: ErrorType = None,
) -> LetterGroups:
    """Return the newest 10,000 dead letters in groups by task, error and what their messages have in common."""
    wanted = LetterFilters(job_id, since, until, tag, error_type)
    wanted.refuse_in_groups(call)
    query = wanted.query(call)._replace(limit=MOST_LETTERS)
    found = {alias: store.letter_groups(query) for alias, store in call.stores(jobstore)}
    groups = [group_view(group, alias) for alias, of_store in found.items() for group in of_store]
    groups.sort(key=lambda group: (-group.size, group.task or "", group.error_type or "", group.signature))
    return LetterGroups(groups, MOST_LETTERS, sum(group.size for group in groups) < MOST_LETTERS)


@operation(Role.VIEWER)
def letter(call: Call, id: Id, jobstore: Store = None) -> RunRow:
    """Return a dead letter."""
    for _, store in call.stores(jobstore):
        found = store.dead_letter(id)
        if found is not None and call.sees_job(found.record.job_id, found.record.tags):
            return letter_row(found)
    raise RunLookupError(id)


@operation(Role.OPERATOR, acts=True)
def redrive(
    call: Call,
    wanted: LetterFilters,
    ids: Ids = None,
    jobstore: Store = None,
    rate: Annotated[float | None, RATES] = None,
    dry_run: DryRun = False,
) -> LettersView | ChangeView:
    """Give dead letters one more attempt: those that are named, or all that fit."""
    if dry_run:
        return _counted(call, ids, jobstore, wanted)
    due = _spread(call.now, rate)

    def again(letter: DeadLetter) -> Run:
        return redriven(letter, next(due))

    return _dealt_with(call, ids, jobstore, wanted, again)


@operation(Role.OPERATOR, acts=True)
def discard(
    call: Call, wanted: LetterFilters, ids: Ids = None, jobstore: Store = None, dry_run: DryRun = False
) -> LettersView | ChangeView:
    """Forget dead letters: those that are named, or all that fit."""
    if dry_run:
        return _counted(call, ids, jobstore, wanted)
    return _dealt_with(call, ids, jobstore, wanted, None)


def _counted(call: Call, ids: list[str] | None, jobstore: str | None, wanted: LetterFilters) -> LettersView:
    """Return how many dead letters are meant, and some of them."""
    _check_meant(ids, wanted)
    named = None if ids is None else set(ids)
    found = (letter.run.id for _, letter in _letters(call, jobstore, wanted))
    meant = (run_id for run_id in found if named is None or run_id in named)
    counted = list(islice(meant, MOST_AT_ONCE + 1))
    return LettersView(min(len(counted), MOST_AT_ONCE), counted[:5], len(counted) <= MOST_AT_ONCE)


def _check_meant(ids: list[str] | None, wanted: LetterFilters) -> None:
    if ids is None and not wanted.are_given:
        raise InvalidArgument("ids, or a filter such as job_id or tag, must say which are meant", field="ids")
    if ids is not None and wanted.are_given:
        raise InvalidArgument("ids and filters cannot be given together", field="ids")


def _dealt_with(
    call: Call, ids: list[str] | None, jobstore: str | None, wanted: LetterFilters,
    follow_up: Callable[[DeadLetter], Run] | None,
) -> LettersView | ChangeView:  # fmt: skip
    _check_meant(ids, wanted)
    if ids is None:
        return _all_that_fit(call, jobstore, wanted, follow_up)
    taken = [run_id for run_id in ids if _take(call, run_id, jobstore, follow_up)]
    if len(ids) == 1 and not taken:
        raise RunLookupError(ids[0])
    call.scheduler.wakeup()
    return ChangeView(taken, [], {run_id: str(RunLookupError(run_id)) for run_id in ids if run_id not in taken})


def _all_that_fit(
    call: Call, jobstore: str | None, wanted: LetterFilters, follow_up: Callable[[DeadLetter], Run] | None
) -> LettersView:
    count = 0
    examples: list[str] = []
    for store, letter in _letters(call, jobstore, wanted):
        if count == MOST_AT_ONCE:
            return LettersView(count, examples, complete=False)
        if store.take_dead_letter(letter.run.id, follow_up):
            count += 1
            if len(examples) < 5:
                examples.append(letter.run.id)
    call.scheduler.wakeup()
    return LettersView(count, examples, complete=True)


def _take(
    call: Call, run_id: str, jobstore: str | None, follow_up: Callable[[DeadLetter], Run] | None
) -> bool:
    for _, store in call.stores(jobstore):
        if not call.principal.sees_all:
            found = store.dead_letter(run_id)
            if found is None or not call.sees_job(found.record.job_id, found.record.tags):
                continue
        if store.take_dead_letter(run_id, follow_up):
            return True
    return False


def _letters(
    call: Call, jobstore: str | None, wanted: LetterFilters, before: str | None = None
) -> Iterator[tuple[BaseJobStore, DeadLetter]]:
    """Yield the dead letters that are meant and in scope, newest first, each with its store."""
    query = wanted.query(call, before)
    found = [_letters_of(call, store, wanted, query) for _, store in call.stores(jobstore)]
    return heapq.merge(*found, key=lambda each: each[1].record.position, reverse=True)


def _letters_of(
    call: Call, store: BaseJobStore, wanted: LetterFilters, query: HistoryQuery
) -> Iterator[tuple[BaseJobStore, DeadLetter]]:
    """Yield those of one store, from page to page: one that dies again meanwhile is newer by that, and not seen again.
    """
    while letters := store.dead_letters(query):
        for letter in letters:
            if wanted.matches(letter) and call.sees_job(letter.record.job_id, letter.record.tags):
                yield store, letter
        query = query._replace(before=letters[-1].record.position)


def _spread(now: datetime, rate: float | None) -> Iterator[datetime]:
    """Yield when each run is due, so that no more than ``rate`` start a second."""
    number = 0
    while True:
        yield now if rate is None else now + timedelta(seconds=number / rate)
        number += 1
