"""The history in the stores on etcd and ZooKeeper: records by time, the newest first.

The name of a record has the end of the attempt, whether it succeeded, and its job. So most queries, and all pruning,
need names only.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

from goscheduler.codec import CodecError
from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.server import (
    Found,
    Key,
    KeyValue,
    Mirror,
    Span,
    Transaction,
    encode_time_descending,
    escape,
    new_token,
)
from goscheduler.jobstores._shared.records import history_record, history_text
from goscheduler.runs.model import DeadLetter, OutcomeKind
from goscheduler.runs.records import HistoryQuery, Record, Retention
from goscheduler.times import to_micros

#: How many names one call reads at most, and how many at least.
NAMES_PER_PAGE = 500
FEWEST_NAMES = 50
#: Among so many names the records of a job are looked for before a copy of all names is made.
NAMES_BEFORE_COPY = 1000
_HISTORY: Key = ("history",)
_POSITION = attrgetter("position")
_SUCCEEDED = frozenset({OutcomeKind.SUCCEEDED})


def history_entry(record: Record) -> tuple[Key, str]:
    """Return the key and the value of a record."""
    went_well = "S" if record.outcome is OutcomeKind.SUCCEEDED else "O"
    words = (
        encode_time_descending(to_micros(record.finished_at)), escape(record.run_id), str(record.fence), went_well,
        escape(record.job_id), new_token(),
    )  # fmt: skip
    return ("history", ".".join(words)), history_text(record)


class History:
    """The records of one store. Those of one run or one job are found by a copy of the names of all records."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._mirror: Mirror | None = None
        self._of_run: dict[str, set[str]] = {}
        self._of_job: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def page(self, query: HistoryQuery) -> list[Record]:
        """Return the records of a query, newest first."""
        first = "" if query.until is None else encode_time_descending(to_micros(query.until) - 1)
        if query.before is not None:
            first = max(first, encode_time_descending(to_micros(query.before.finished_at)))
        last = None if query.since is None else f"{encode_time_descending(to_micros(query.since))}/"
        found: list[Record] = []
        for names in self._pages(Span(_HISTORY, None, first, last), query):
            found += _matching(self._context, names, query)
            if _complete(found, names[-1], query):
                break
        return query.page(found)

    def of_run(self, run_id: str, job_id: str | None) -> list[Record]:
        """Return the records of a run, newest first."""
        with self._lock:
            self._refresh()
            names = sorted(self._of_run.get(escape(run_id), ()))
        return sorted(_matching(self._context, names, HistoryQuery(job_id)), key=_POSITION, reverse=True)

    def _pages(self, span: Span, query: HistoryQuery) -> Iterator[list[str]]:
        """Yield names in order, as few as the page may need, then more and more."""
        size = min(max(query.limit + 1, FEWEST_NAMES), NAMES_PER_PAGE)
        looked = 0
        while query.job_id is None or (self._mirror is None and looked < NAMES_BEFORE_COPY):
            names = self._context.server.names([span._replace(limit=size)])[0]
            if names:
                yield names
            if len(names) < size:
                return
            looked += len(names)
            span, size = span._replace(first=f"{names[-1]}!"), min(2 * size, NAMES_PER_PAGE)
        with self._lock:
            self._refresh()
            names = sorted(filter(span.has, self._of_job.get(escape(query.job_id), ())))
        yield from (names[start : start + size] for start in range(0, len(names), size))

    def _refresh(self) -> None:
        mirror, self._mirror = self._mirror, None  # if it cannot be refreshed, a new one is made the next time
        if mirror is None:
            mirror, self._of_run, self._of_job = self._context.server.mirror(_HISTORY, values=False), {}, {}
        for name in mirror.refresh():
            for index, key in ((self._of_run, _run(name)), (self._of_job, _job(name))):
                if name in mirror.held:
                    index.setdefault(key, set()).add(name)
                else:
                    index[key].discard(name)
                    if not index[key]:
                        del index[key]
        self._mirror = mirror


def _complete(found: Sequence[Record], last: str, query: HistoryQuery) -> bool:
    """Tell whether enough records ended later than the last one read."""
    if len(found) < query.limit:
        return False
    return sum(encode_time_descending(to_micros(record.finished_at)) < last[:18] for record in found) >= query.limit


def _matching(context: StoreContext, names: Sequence[str], query: HistoryQuery) -> list[Record]:
    wanted = [name for name in names if _may_match(name, query)]
    records = []
    for name, found in zip(wanted, context.server.read([("history", name) for name in wanted]), strict=True):
        try:
            record = None if found is None else history_record(found.value)
        except CodecError as error:
            context.logger.error("Record %s of the history is kept and cannot be read: %s", name, error)
            continue
        if record is not None and query.matches(record):
            records.append(record)
    return records


def _may_match(name: str, query: HistoryQuery) -> bool:
    """Tell whether a record may be wanted, by what its name says."""
    if query.outcomes is not None:
        wanted = query.outcomes & _SUCCEEDED if _kind(name) == "S" else query.outcomes - _SUCCEEDED
        if not wanted:
            return False
    return query.job_id is None or _job(name) == escape(query.job_id)


def prune(context: StoreContext, retention: Retention, now: datetime, limit: int) -> int:
    """Delete records that need not be kept, oldest first, at most ``limit``; return how many."""
    outlived = _too_old(context.server, retention, now) | _too_many(context.server, retention)
    oldest = sorted(outlived, reverse=True)[:limit]
    most = context.server.max_changes
    return sum(_forget(context.server, oldest[start : start + most]) for start in range(0, len(oldest), most))


def _forget(server: KeyValue, names: Sequence[str]) -> int:
    """Delete records; return how many this call has deleted, and not another process."""
    transaction = Transaction()
    for name in names:
        transaction.delete(("history", name))
    if server.commit(transaction):
        return len(names)
    if len(names) == 1:
        return 0
    half = len(names) // 2
    return _forget(server, names[:half]) + _forget(server, names[half:])


def _too_old(server: KeyValue, retention: Retention, now: datetime) -> set[str]:
    since = {"S": _boundary(now, retention.succeeded), "O": _boundary(now, retention.others)}
    names = server.names([Span(_HISTORY, None, min(since.values()))])[0]
    return {name for name in names if name >= since[_kind(name)]}


def _boundary(now: datetime, length: timedelta) -> str:
    """Return the name before which all records ended after ``now - length``."""
    try:
        return encode_time_descending(to_micros(now - length) - 1)
    except OverflowError:
        return "~"


def _too_many(server: KeyValue, retention: Retention) -> set[str]:
    """Return the names of the older successes of jobs that have too many."""
    names = server.names([Span(_HISTORY)])[0]
    if len(names) <= retention.succeeded_per_job:
        return set()
    newer: Counter[str] = Counter()
    out_of_capacity = set()
    for name in names:
        if _kind(name) == "S":
            job = _job(name)
            newer[job] += 1
            if newer[job] > retention.succeeded_per_job:
                out_of_capacity.add(name)
    return out_of_capacity


def _kind(name: str) -> str:
    return "S" if name.split(".")[3:4] == ["S"] else "O"


def _run(name: str) -> str:
    return name.split(".")[1]


def _job(name: str) -> str:
    return name.split(".")[4]


class DeadLetters:
    """Finds dead letters, by a copy of all of them."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._mirror: Mirror | None = None
        self._records: dict[str, Record] = {}
        """Name of a dead letter that can be read → its record."""
        self._lock = threading.Lock()

    def records(self, query: HistoryQuery) -> list[Record]:
        """Return the records of the dead letters of a query, newest first."""
        with self._lock:
            self._refresh()
            return query.page(self._records.values())

    def page(self, query: HistoryQuery) -> list[DeadLetter]:
        """Return the dead letters of a query, newest first."""
        with self._lock:
            held = self._refresh().held
            names = [escape(record.run_id) for record in query.page(self._records.values())]
            found = [(name, held[name]) for name in names]
        letters = [self.read(name, each) for name, each in found if each is not None]
        return [letter for letter in letters if letter is not None]

    def read(self, name: str, found: Found) -> DeadLetter | None:
        """Return a dead letter; None, with a line in the log, if it cannot be read."""
        try:
            return self._context.codec.letter(found)
        except CodecError as error:
            self._context.logger.error("Dead letter %s is kept and cannot be read: %s", name, error)
            return None

    def _refresh(self) -> Mirror:
        mirror, self._mirror = self._mirror, None
        if mirror is None:
            mirror, self._records = self._context.server.mirror(("dead",), values=True), {}
        for name in mirror.refresh():
            found = mirror.held.get(name)
            letter = None if found is None else self.read(name, found)
            if letter is None:
                self._records.pop(name, None)
            else:
                self._records[name] = letter.record
        self._mirror = mirror
        return mirror
