"""Operations on dead letters: runs whose last attempt has failed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, NamedTuple

from goscheduler.errors import InvalidArgument, RunLookupError
from goscheduler.ops.access import Role
from goscheduler.ops.model import ChangeView, LetterGroups, LettersView, Page, RunRow
from goscheduler.ops.operation import Call, Id, Store, operation
from goscheduler.ops.runs import Before, ErrorType, JobId, Limit, Since, Tag
from goscheduler.ops.schema import Number, Text, Texts
from goscheduler.ops.views import group_view, letter_row
from goscheduler.runs.filters import Filters, history_query
from goscheduler.runs.queries import MOST_LETTERS, signature
from goscheduler.runs.transitions import redriven

if TYPE_CHECKING:
    from goscheduler.jobstores.base import BaseJobStore
    from goscheduler.runs.model import DeadLetter, Run
    from goscheduler.runs.records import HistoryQuery

#: So many dead letters are read at a time, and at most so many are dealt with by one call.
PORTION = 500
MOST_AT_ONCE = 100_000
RATES = Number("Start at most so many a second; without it all are due at once.", 0.01, 100_000)

Ids = Annotated[list[str] | None, Texts("Ids of runs; without them all that fit the filters.", 1000)]
Signature = Annotated[str | None, Text("Only with messages that have this in common, as a group says.", 200)]
Task = Annotated[str | None, Text("Only of this task.")]


class LetterFilter(NamedTuple):
    """Which dead letters are meant."""

    query: HistoryQuery
    task: str | None = None
    signature: str | None = None

    def matches(self, letter: DeadLetter) -> bool:
        """Tell whether a letter that the query has found is meant."""
        record = letter.record
        return (self.task is None or record.task == self.task) and (
            self.signature is None or signature(record.error_message or record.reason) == self.signature
        )


@operation(Role.VIEWER)
def find_letters(
    call: Call,
    jobstore: Store = None,
    job_id: JobId = None,
    since: Since = None,
    until: Since = None,
    tag: Tag = None,
    error_type: ErrorType = None,
    task: Task = None,
    signature: Signature = None,
    limit: Limit = 50,
    before: Before = None,
) -> Page:
    """Return a page of dead letters, newest first."""
    wanted = _filter(call, job_id, since, until, tag, error_type, task, signature, before)
    rows: list[RunRow] = []
    for _, letter in _letters(call, jobstore, wanted):
        if len(rows) == limit:
            return Page(rows, rows[-1].cursor)
        rows.append(letter_row(letter))
    return Page(rows, None)


@operation(Role.VIEWER)
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
    query = _filter(call, job_id, since, until, tag, error_type).query._replace(limit=MOST_LETTERS)
    if call.principal.tags is not None and query.tag not in call.principal.tags:
        raise InvalidArgument(f"tag must be one of {', '.join(sorted(call.principal.tags))}", field="tag")
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
    ids: Ids = None,
    jobstore: Store = None,
    job_id: JobId = None,
    since: Since = None,
    until: Since = None,
    tag: Tag = None,
    error_type: ErrorType = None,
    task: Task = None,
    signature: Signature = None,
    rate: Annotated[float | None, RATES] = None,
) -> LettersView | ChangeView:
    """Give dead letters one more attempt: those that are named, or all that fit."""
    due = _spread(call.now, rate)

    def again(letter: DeadLetter) -> Run:
        return redriven(letter, next(due))

    filters = (job_id, since, until, tag, error_type, task, signature)
    return _dealt_with(call, ids, jobstore, filters, again)


@operation(Role.OPERATOR, acts=True)
def discard(
    call: Call,
    ids: Ids = None,
    jobstore: Store = None,
    job_id: JobId = None,
    since: Since = None,
    until: Since = None,
    tag: Tag = None,
    error_type: ErrorType = None,
    task: Task = None,
    signature: Signature = None,
) -> LettersView | ChangeView:
    """Forget dead letters: those that are named, or all that fit."""
    return _dealt_with(call, ids, jobstore, (job_id, since, until, tag, error_type, task, signature), None)


def _dealt_with(
    call: Call, ids: list[str] | None, jobstore: str | None, filters: tuple[str | None, ...],
    follow_up: Callable[[DeadLetter], Run] | None,
) -> LettersView | ChangeView:  # fmt: skip
    if ids is None:
        if all(value is None for value in filters):
            raise InvalidArgument("ids, or a filter such as job_id or tag, must say which are meant", field="ids")
        return _all_that_fit(call, jobstore, _filter(call, *filters), follow_up)
    if any(value is not None for value in filters):
        raise InvalidArgument("ids and filters cannot be given together", field="ids")
    taken = [run_id for run_id in ids if _take(call, run_id, jobstore, follow_up)]
    if len(ids) == 1 and not taken:
        raise RunLookupError(ids[0])
    call.scheduler.wakeup()
    return ChangeView(taken, [], {run_id: str(RunLookupError(run_id)) for run_id in ids if run_id not in taken})


def _all_that_fit(
    call: Call, jobstore: str | None, wanted: LetterFilter, follow_up: Callable[[DeadLetter], Run] | None
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


def _filter(
    call: Call, job_id: str | None = None, since: str | None = None, until: str | None = None, tag: str | None = None,
    error_type: str | None = None, task: str | None = None, signature: str | None = None, before: str | None = None,
) -> LetterFilter:  # fmt: skip
    if tag is None and call.principal.tags is not None and len(call.principal.tags) == 1:
        tag = next(iter(call.principal.tags))
    given = Filters(job_id, None, since, until, tag, error_type, before, PORTION)
    return LetterFilter(history_query(given, call.now, call.scheduler.timezone), task, signature)


def _letters(call: Call, jobstore: str | None, wanted: LetterFilter) -> Iterator[tuple[BaseJobStore, DeadLetter]]:
    """Yield the dead letters that are meant and in scope, newest first, each with its store."""
    found = [_letters_of(call, store, wanted) for _, store in call.stores(jobstore)]
    return heapq.merge(*found, key=lambda each: each[1].record.position, reverse=True)


def _letters_of(call: Call, store: BaseJobStore, wanted: LetterFilter) -> Iterator[tuple[BaseJobStore, DeadLetter]]:
    """Yield those of one store, from page to page: one that dies again meanwhile is newer by that, and not seen again.
    """
    query = wanted.query
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
