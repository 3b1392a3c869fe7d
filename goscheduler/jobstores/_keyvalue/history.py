"""The history in the stores on etcd and ZooKeeper: records by time, the newest first.

The name of a record has the end of the attempt, whether it succeeded, and its job. So most queries, and all pruning,
need names only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from goscheduler.codec import CodecError
from goscheduler.jobstores._keyvalue.context import StoreContext
from goscheduler.jobstores._keyvalue.server import (
    Key,
    KeyValue,
    Span,
    Transaction,
    encode_time_descending,
    escape,
    new_token,
    read_all,
)
from goscheduler.jobstores._shared.records import history_record, history_text
from goscheduler.runs.model import DeadLetter, OutcomeKind
from goscheduler.runs.records import HistoryQuery, Record, Retention
from goscheduler.times import to_micros

#: How many names one call reads.
NAMES_PER_PAGE = 500
_HISTORY: Key = ("history",)


def history_entry(record: Record) -> tuple[Key, str]:
    """Return the key and the value of a record."""
    went_well = "S" if record.outcome is OutcomeKind.SUCCEEDED else "O"
    words = (
        encode_time_descending(to_micros(record.finished_at)), escape(record.run_id), str(record.fence), went_well,
        escape(record.job_id), new_token(),
    )  # fmt: skip
    return ("history", ".".join(words)), history_text(record)


def history(context: StoreContext, query: HistoryQuery) -> list[Record]:
    """Return the records of a query, newest first."""
    first = "" if query.until is None else encode_time_descending(to_micros(query.until) - 1)
    if query.before is not None:
        first = max(first, encode_time_descending(to_micros(query.before.finished_at)))
    last = None if query.since is None else f"{encode_time_descending(to_micros(query.since))}/"
    found: list[Record] = []
    while True:
        names = context.server.names([Span(_HISTORY, NAMES_PER_PAGE, first, last)])[0]
        found += _matching(context, names, query)
        if len(names) < NAMES_PER_PAGE or _complete(found, names[-1], query):
            return query.page(found)
        first = f"{names[-1]}!"


def _complete(found: Sequence[Record], last: str, query: HistoryQuery) -> bool:
    """Tell whether enough records ended later than the last one read."""
    if len(found) < query.limit:
        return False
    return sum(encode_time_descending(to_micros(record.finished_at)) < last[:18] for record in found) >= query.limit


def _matching(context: StoreContext, names: Sequence[str], query: HistoryQuery) -> list[Record]:
    wanted = [name for name in names if query.job_id is None or _job(name) == escape(query.job_id)]
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


def _job(name: str) -> str:
    return name.split(".")[4]


def dead_letters(context: StoreContext, query: HistoryQuery) -> list[DeadLetter]:
    """Return the dead letters of a query, newest first."""
    letters: dict[str, DeadLetter] = {}
    for name, found in read_all(context.server, ("dead",)):
        try:
            letter = context.codec.letter(found)
        except CodecError as error:
            context.logger.error("Dead letter %s is kept and cannot be read: %s", name, error)
            continue
        letters[letter.record.run_id] = letter
    return [letters[record.run_id] for record in query.page(letter.record for letter in letters.values())]
